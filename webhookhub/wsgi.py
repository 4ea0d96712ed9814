"""The web server's entry point."""

import os

from django.core.wsgi import get_wsgi_application

from webhookhub.heads import with_readable_heads

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webhookhub.settings")
application = with_readable_heads(get_wsgi_application())
