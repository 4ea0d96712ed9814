"""The database engines that the suite runs on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tools.support.database_server import NoServer, PrivateServer

SQLITE, MARIADB, MYSQL = "sqlite", "mariadb", "mysql"
ENGINES = (SQLITE, MARIADB, MYSQL)
# Environment variables with the URL of a running server, used instead of a private one.
URL_VARIABLES = {MARIADB: "TEST_DATABASE_URL", MYSQL: "TEST_MYSQL_URL"}


@contextmanager
def database_on(engine: str) -> Iterator[str]:
    """The URL of a database on this engine, empty for SQLite; NoServer if there is none."""
    if engine == SQLITE:
        yield ""
    elif url := os.environ.get(URL_VARIABLES[engine]):
        yield url
    elif engine == MYSQL:
        raise NoServer("TEST_MYSQL_URL is not set")
    else:
        with PrivateServer() as server:
            yield server.url()
