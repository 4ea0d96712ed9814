"""Programs that use the API, and a running web server."""

from tests.api.conftest import _fresh_buckets, _running, hub_wide, program, shop, web

__all__ = ["_fresh_buckets", "_running", "hub_wide", "program", "shop", "web"]
