# SPDX-License-Identifier: Apache-2.0
"""``db leave`` gives a database back to OpenStack placement."""

from contextlib import closing
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.engine import make_url

from placement_sched.db.migrate import stop_logging
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import adopt, leave, list_leave_statements
from placement_sched.store.placement import change_log
from tests.coexistence.conftest import OpenStackPlacement, build_peer_url
from tests.coexistence.sent_requests import build_provider_requests, build_request
from tests.conftest import make_settings
from tests.deploy import find_program
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement
from tests.support.commands import run_captured
from tests.support.openstack_databases import create_openstack_schema
from tests.support.servers import build_environment

pytestmark = pytest.mark.system

_LIST_TRIGGERS_SQL = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": (
        "SELECT proname FROM pg_proc WHERE proname LIKE 'sched%' "
        "UNION SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
    ),
    "mysql": (
        "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()"
    ),
}


def _list_schema_names(url):
    engine = create_engine(url)
    with engine.connect() as connection:
        inspector = inspect(connection)
        tables = inspector.get_table_names()
        indexes = [index["name"] for table in tables for index in inspector.get_indexes(table)]
        triggers = list(connection.scalars(text(_LIST_TRIGGERS_SQL[connection.dialect.name])))
    engine.dispose()
    return sorted(map(str, (*tables, *indexes, *triggers)))


def _create_provider_with_vcpus(side):
    uuid = str(uuid4())
    for request in build_provider_requests(uuid, uuid, inventories={"VCPU": {"total": 4}}):
        assert side.send_request(request).status == 200
    return uuid


def test_db_leave_restores_the_schema_before_adoption(empty_db_url):
    OpenStackPlacement(empty_db_url).run_placement_manage("db", "sync")
    before = _list_schema_names(empty_db_url)
    database = Database(make_settings(empty_db_url))
    adopt(database, utcnow)
    with database.read() as connection:
        assert change_log.find_defect(connection) is None
    database.dispose()
    ours, peer = OwnPlacement(empty_db_url), OpenStackPlacementPeer(build_peer_url(empty_db_url))
    kept = [_create_provider_with_vcpus(ours), _create_provider_with_vcpus(peer)]
    ours.close()
    with Database(make_settings(empty_db_url)) as database:
        leave(database)
    assert _list_schema_names(empty_db_url) == before
    kept.append(_create_provider_with_vcpus(peer))
    providers = peer.send_request(build_request("GET", "/resource_providers")).document[
        "resource_providers"
    ]
    peer.close()
    assert {provider["uuid"] for provider in providers} == set(kept)


@pytest.fixture
def create_database():
    """Return a function that gives a database the schema of OpenStack placement."""
    databases = []

    def create_with_schema(url, **options):
        databases.append(Database(make_settings(url, **options)))
        create_openstack_schema(databases[-1])
        return databases[-1]

    yield create_with_schema
    for database in databases:
        database.dispose()


def _run_script_in_client(url, script):
    """Run printed statements in the client program of the database."""
    parsed = make_url(url)
    plain = parsed.set(drivername=parsed.get_backend_name()).render_as_string(hide_password=False)
    command = {
        "postgresql": ["psql", "--quiet", "--set", "ON_ERROR_STOP=1", plain],
        "mysql": [
            "mariadb",
            f"--host={parsed.host}",
            f"--port={parsed.port or 3306}",
            f"--user={parsed.username}",
            str(parsed.database),
        ],
        "sqlite": ["sqlite3", "-bail", str(parsed.database)],
    }[parsed.get_backend_name()]
    find_program(command[0])
    return run_captured(
        command, input=script, env=build_environment(MYSQL_PWD=str(parsed.password or ""))
    )


def test_printed_script_restores_the_schema_before_adoption(create_database, empty_db_url):
    database = create_database(empty_db_url)
    original_names = _list_schema_names(empty_db_url)
    adopt(database, utcnow)
    script = "".join(f"{statement};\n" for statement in list_leave_statements(database))
    # PostgreSQL accepts SET LOCAL only inside a transaction, as printed.
    is_mariadb = database.url.get_backend_name() == "mysql"
    result = _run_script_in_client(
        empty_db_url, script if is_mariadb else f"BEGIN;\n{script}COMMIT;\n"
    )
    assert result.returncode == 0, result.stderr
    assert _list_schema_names(empty_db_url) == original_names


def test_disabled_provider_cache_removes_triggers_and_keeps_tables(create_database, empty_db_url):
    adopt(create_database(empty_db_url), utcnow)
    before = _list_schema_names(empty_db_url)
    with closing(OwnPlacement(empty_db_url, placement__providers_in_memory=False)) as ours:
        _create_provider_with_vcpus(ours)
        assert _list_schema_names(empty_db_url) == before
        without = Database(make_settings(empty_db_url, placement__providers_in_memory=False))
        assert stop_logging(without)
        without.dispose()
        _create_provider_with_vcpus(ours)
    names = _list_schema_names(empty_db_url)
    assert "sched_provider_changes" in names
    assert "sched_allocations_inserted" not in names
