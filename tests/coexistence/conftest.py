# SPDX-License-Identifier: Apache-2.0
"""OpenStack's placement on the databases of these tests."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import adopt
from tests.conftest import make_settings
from tests.differential.comparison import PEER_PYTHON
from tests.support.commands import run_captured
from tests.support.empty_databases import DATABASE_KINDS, empty_database

MIGRATE_PROGRAM = Path(__file__).with_name("migrate.py")


class OpenStackPlacement:
    """Commands of OpenStack placement on a database."""

    def __init__(self, url: str) -> None:
        self.url = build_peer_url(url)

    def upgrade_to_revision(self, revision: str) -> None:
        self._run(PEER_PYTHON, MIGRATE_PROGRAM, self.url, revision)

    def run_placement_manage(self, *arguments: str) -> str:
        return self._run(PEER_PYTHON.with_name("placement-manage"), *arguments)

    def _run(self, *command: object) -> str:
        environment = {**os.environ, "OS_PLACEMENT_DATABASE__CONNECTION": self.url}
        with tempfile.TemporaryDirectory() as folder:
            done = run_captured([str(part) for part in command], env=environment, cwd=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def build_peer_url(url: str) -> str:
    """Return the database's URL with the drivers of openstack-placement.

    The URL also identifies the client for :mod:`tests.coexistence.ledger`.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg2", query={"application_name": "peer"})
    elif parsed.get_backend_name() == "mysql":
        parsed = parsed.set(query={"init_command": "SET @service = 'peer'"})
    return parsed.render_as_string(hide_password=False)


@pytest.fixture(scope="session", autouse=True)
def _require_peer() -> None:
    if PEER_PYTHON.exists():
        return
    assert not os.environ.get("PLACEMENT_SCHED_REQUIRE_PEER"), f"there is no {PEER_PYTHON}"
    pytest.skip("openstack-placement is not installed; make peer installs it")


@pytest.fixture(params=DATABASE_KINDS)
def empty_db_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_database(request.param, tmp_path) as url:
        yield url


@pytest.fixture(params=["postgresql", "mysql"], scope="module")
def shared_db_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with empty_database(request.param, tmp_path_factory.mktemp("shared")) as url:
        OpenStackPlacement(url).run_placement_manage("db", "sync")
        database = Database(make_settings(url))
        adopt(database, utcnow)
        database.dispose()
        yield url
