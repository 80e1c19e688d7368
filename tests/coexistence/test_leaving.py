"""A database can be given back to OpenStack placement: with the statements of the guide."""

from pathlib import Path
from uuid import uuid4

from sqlalchemy import create_engine, inspect, text

from placement_sched.db.migrate import stop_logging
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import adopt
from placement_sched.store.placement import change_log
from tests.coexistence.conftest import OpenStack, peer_url
from tests.coexistence.test_alternating import asked
from tests.conftest import make_settings
from tests.differential.sides import Ours, Peer

STATEMENTS = Path(__file__).parents[2] / "doc" / "source" / "leaving"
_TRIGGERS = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": (
        "SELECT proname FROM pg_proc WHERE proname LIKE 'sched%' "
        "UNION SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
    ),
    "mysql": (
        "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()"
    ),
}


def _names(url):
    """Return the names of all tables, indexes, triggers and functions."""
    engine = create_engine(url)
    with engine.connect() as connection:
        inspector = inspect(connection)
        tables = inspector.get_table_names()
        indexes = [one["name"] for table in tables for one in inspector.get_indexes(table)]
        triggers = list(connection.scalars(text(_TRIGGERS[connection.dialect.name])))
    engine.dispose()
    return sorted(map(str, (*tables, *indexes, *triggers)))


def _leave(url):
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    kind = {"mysql": "mariadb"}.get(engine.dialect.name, engine.dialect.name)
    lines = (STATEMENTS / f"{kind}.sql").read_text().splitlines()
    with engine.connect() as connection:
        for line in lines:
            if not line.startswith("--"):
                connection.exec_driver_sql(line)
    engine.dispose()


def _make_provider(side):
    uuid = str(uuid4())
    made = side.ask(asked("POST", "/resource_providers", {"uuid": uuid, "name": uuid}))
    assert made.status == 200, made
    stock = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}}
    assert side.ask(asked("PUT", f"/resource_providers/{uuid}/inventories", stock)).status == 200
    return uuid


def test_database_is_as_it_was_before_it_was_adopted(empty_url):
    OpenStack(empty_url).manage("db", "sync")
    before = _names(empty_url)
    database = Database(make_settings(empty_url, placement__providers_in_memory=True))
    adopt(database, utcnow)
    with database.read() as connection:
        assert change_log.why_not_kept(connection) is None
    database.dispose()
    ours, peer = Ours(empty_url), Peer(peer_url(empty_url))
    kept = [_make_provider(ours), _make_provider(peer)]
    ours.close()
    _leave(empty_url)
    assert _names(empty_url) == before
    kept.append(_make_provider(peer))
    found = peer.ask(asked("GET", "/resource_providers")).document["resource_providers"]
    peer.close()
    assert {one["uuid"] for one in found} == set(kept)


def test_option_turned_off_leaves_the_tables_and_removes_the_triggers(empty_url):
    """A start removes nothing; db sync does, so that writers no longer log anything."""
    OpenStack(empty_url).manage("db", "sync")
    logging = Database(make_settings(empty_url, placement__providers_in_memory=True))
    adopt(logging, utcnow)
    made = _names(empty_url)
    ours = Ours(empty_url, placement__providers_in_memory=False)
    _make_provider(ours)
    assert _names(empty_url) == made
    without = Database(make_settings(empty_url))
    assert stop_logging(without)
    peer = Peer(peer_url(empty_url))
    for side in (ours, peer):
        _make_provider(side)
        side.close()
    left = _names(empty_url)
    assert "sched_provider_changes" in left
    assert "sched_allocations_inserted" not in left
    without.dispose()
    logging.dispose()
