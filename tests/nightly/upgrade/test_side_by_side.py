"""The previous release's wheel beside this version on one database, under load, while the database is upgraded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.engines import MARIADB, MYSQL, database_on
from tests.support.previous_release import PreviousRelease, require_history
from tests.support.rolling_upgrade import Upgrade, empty_database
from tools.failover.site import Site
from tools.support.database_server import NoServer

pytestmark = pytest.mark.timeout(400)

NAME = "webhookhub_rolling"
PHASE_SECONDS = 5.0
RATE = 15


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> PreviousRelease:
    require_history()
    return PreviousRelease(tmp_path_factory.mktemp("release"))


@pytest.mark.parametrize("engine", [MARIADB, MYSQL])
def test_nothing_is_lost_and_nothing_sent_twice(
    engine: str, release: PreviousRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Set for another engine by the lane.
    monkeypatch.delenv("TEST_DATABASE_URL", raising=False)
    try:
        with (
            database_on(engine) as server,
            empty_database(server, f"{NAME}_{os.getpid()}") as (database, url),
            Site(tmp_path / "site", database, url) as site,
        ):
            Upgrade(site, database, release, PHASE_SECONDS, RATE).run()
    except NoServer as reason:
        pytest.skip(str(reason))
