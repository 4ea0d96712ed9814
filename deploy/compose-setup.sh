#!/bin/sh
# The one-time steps of compose.yaml, inside the image. Safe to repeat.
#   compose-setup.sh keys      writes keys and passwords, if there are none
#   compose-setup.sh migrate   creates or updates the tables; creates the user admin, if there is no superuser
set -eu
settings=/etc/webhookhub

random() { python -c 'import secrets; print(secrets.token_urlsafe(32))'; }

case ${1:-} in
keys)
  if [ -e "$settings/hub.env" ]; then exit 0; fi
  umask 077
  password=$(random)
  random >"$settings/admin-password"
  cat >"$settings/hub.env.new" <<END
DATABASE_URL=mysql://webhookhub:$password@database:3306/webhookhub
WEBHOOKHUB_SECRET_KEY=$(random)$(random)
WEBHOOKHUB_ENCRYPTION_KEYS=$(webhookhub generate_key)
END
  # The database's image reads it as another user; no other container has this volume.
  printf %s "$password" >var/password
  chmod 0444 var/password
  chmod 0755 var
  # Last: an interrupted run starts again.
  mv "$settings/hub.env.new" "$settings/hub.env"
  ;;
migrate)
  webhookhub upgrade
  webhookhub check --database default --fail-level WARNING
  if webhookhub shell -v0 -c 'import sys
from django.contrib.auth.models import User
sys.exit(User.objects.filter(is_superuser=True).exists())'; then
    DJANGO_SUPERUSER_PASSWORD=$(cat "$settings/admin-password") \
      webhookhub createsuperuser --noinput --username admin --email admin@localhost
  fi
  ;;
*)
  sed -n '2,4p' "$0" >&2
  exit 2
  ;;
esac
