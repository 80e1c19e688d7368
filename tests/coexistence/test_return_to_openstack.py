# SPDX-License-Identifier: Apache-2.0
"""The commands of the guide give a database back to OpenStack placement."""

import re
import shutil
from contextlib import closing
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.engine import make_url

from placement_sched.db.migrate import stop_logging
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import adopt
from placement_sched.store.placement import change_log
from tests.coexistence.conftest import OpenStackPlacement, build_peer_url
from tests.coexistence.sent_requests import build_provider_requests, build_request
from tests.conftest import make_settings
from tests.deploy import find_program
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement
from tests.support.commands import run_captured
from tests.support.empty_databases import empty_database
from tests.support.openstack_databases import create_openstack_schema
from tests.support.repository import ROOT
from tests.support.servers import build_environment

pytestmark = pytest.mark.system

STATEMENTS_FOLDER = ROOT / "doc" / "source" / "leaving"
ADOPTION_PAGE = (ROOT / "doc" / "source" / "adopt.rst").read_text()
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


def read_documented_command(program):
    (line,) = re.findall(rf"^   \$ ({program} .*(?:\n    .*)?)", ADOPTION_PAGE, re.MULTILINE)
    return re.sub(r"\\\n\s+", "", line)


def _run_documented_return_command(url, folder=ROOT):
    parsed = make_url(url)
    program = {"postgresql": "psql", "mysql": "mariadb", "sqlite": "sqlite3"}
    name = program[parsed.get_backend_name()]
    command = read_documented_command(name)
    plain = parsed.set(drivername=parsed.get_backend_name()).render_as_string(hide_password=False)
    replacements = {
        "psql": ("postgresql://placement@db.example.com/placement", plain),
        "mariadb": (
            "--host=db.example.com --user=placement --password placement",
            f"--host={parsed.host} --port={parsed.port or 3306} --user={parsed.username} "
            + str(parsed.database),
        ),
        "sqlite3": ("placement.db", str(parsed.database)),
    }
    documented, actual = replacements[name]
    assert documented in command
    find_program(name)
    return run_captured(
        ["bash", "-euo", "pipefail", "-c", command.replace(documented, actual)],
        cwd=folder,
        env=build_environment(MYSQL_PWD=str(parsed.password or "")),
    )


def _create_provider_with_vcpus(side):
    uuid = str(uuid4())
    for request in build_provider_requests(uuid, uuid, inventories={"VCPU": {"total": 4}}):
        assert side.send_request(request).status == 200
    return uuid


def test_documented_return_command_restores_the_schema_before_adoption(empty_db_url):
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
    result = _run_documented_return_command(empty_db_url)
    assert result.returncode == 0, result.stderr
    assert result.stdout == result.stderr == ""
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


def test_documented_return_command_stops_at_the_first_failed_statement(
    create_database, empty_db_url, tmp_path
):
    create_database(empty_db_url)
    statements = tmp_path / "doc" / "source" / "leaving"
    shutil.copytree(STATEMENTS_FOLDER, statements)
    for file in statements.iterdir():
        file.write_text(f"DROP TABLE no_such_table;\nDROP TABLE allocations;\n{file.read_text()}")
    assert _run_documented_return_command(empty_db_url, tmp_path).returncode != 0
    assert "allocations" in _list_schema_names(empty_db_url)


def test_documented_return_command_removes_tables_outside_the_search_path(
    create_database, tmp_path
):
    with empty_database("postgresql", tmp_path) as url:
        database = create_database(url)
        before = _list_schema_names(url)
        adopt(database, utcnow)
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("ALTER SCHEMA public RENAME TO cloud"))
            connection.execute(text("CREATE SCHEMA public"))
        result, again = _run_documented_return_command(url), _run_documented_return_command(url)
        with engine.begin() as connection:
            connection.execute(text("DROP SCHEMA public"))
            connection.execute(text("ALTER SCHEMA cloud RENAME TO public"))
        engine.dispose()
        assert (result.returncode, result.stderr) == (0, "")
        assert _list_schema_names(url) == before
        assert again.returncode != 0
        assert "no schema of this database has tables of placement_sched" in again.stderr


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
