"""A database that lacks characters of nova's: one bad object is left out, the rest goes on."""

import pytest

from placement_sched.db.collations import Characters
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.nova.sync.follower import Follower
from placement_sched.operations.prepare import sync
from placement_sched.store.compute import host_aggregates, instances, server_groups, services
from tests.conftest import make_settings
from tests.empty_databases import empty_database

pytestmark = pytest.mark.slow

EMOJI = "\N{GRINNING FACE}"


@pytest.fixture(
    params=[
        ("mysql", "CHARACTER SET utf8mb3", ""),
        ("mysql", "CHARACTER SET utf8mb4", "charset=utf8"),
        ("postgresql", "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0", ""),
    ],
    ids=["utf8mb3", "charset=utf8", "latin1"],
)
def small(request, tmp_path):
    """A database that has no emoji."""
    kind, options, more = request.param
    with empty_database(kind, tmp_path, options) as url:
        separator = "&" if "?" in url else "?"
        database = Database(make_settings(f"{url}{separator}{more}" if more else url))
        sync(database, utcnow)
        yield database
        database.dispose()


@pytest.fixture
def small_follower(small, nova):
    url = small.url.render_as_string(hide_password=False)
    settings = make_settings(url).overridden({"api_database.connection": nova.api.url})
    made = Follower(small, settings)
    yield made
    made.close()


def test_names_with_an_emoji_are_recorded_with_a_placeholder(small, small_follower, nova):
    nova.add_host("cn1", disabled=True, disabled_reason=f"fan {EMOJI}")
    group = nova.add_group(f"pair {EMOJI}")
    uuid = nova.add_instance("cn1", group=group, display_name=f"web {EMOJI}")
    number = nova.add_aggregate(f"racks {EMOJI}", ("cn1",), rack="7")
    findings = small_follower.full()
    with small.read() as connection:
        assert instances.by_uuid(connection, uuid).display_name == "web ?"
        assert host_aggregates.by_id(connection, number).name == "racks ?"
        assert server_groups.by_uuid(connection, group).name == "pair ?"
        assert services.by_hosts(connection, ["cn1"])["cn1"].disabled_reason == "fan ?"
    reasons = {misfit.place: misfit.reason for misfit in findings.misfits}
    assert "cannot store the character" in reasons[f"instance {uuid}"]
    assert f"server group {group}" in reasons
    assert small_follower.compare().differing == 0


def test_server_that_is_renamed_to_an_emoji_does_not_stop_a_round(small, small_follower, nova):
    nova.add_host("cn1")
    first, second = nova.add_instance("cn1"), nova.add_instance("cn1")
    small_follower.full()
    cell = nova.cells["one"]
    cell.change("instances", {"uuid": first}, display_name=EMOJI)
    cell.change("instances", {"uuid": second}, vm_state="stopped")
    small_follower.round()
    with small.read() as connection:
        assert instances.by_uuid(connection, first).display_name == "?"
        assert instances.by_uuid(connection, second).vm_state == "stopped"


def test_aggregate_whose_metadata_cannot_be_stored_is_left_out_and_named(
    small, small_follower, nova
):
    nova.add_host("cn1")
    bad = nova.add_aggregate("bad", ("cn1",), note=EMOJI)
    good = nova.add_aggregate("good", ("cn1",), note="plain")
    findings = small_follower.full()
    with small.read() as connection:
        assert [one.id for one in host_aggregates.snapshot(connection)] == [good]
    (reason,) = [misfit.reason for misfit in findings.misfits if "aggregate bad" in misfit.place]
    assert "of its metadata 'note'" in reason
    assert bad != good


def test_nul_in_metadata_is_left_out_on_postgresql_alone(follower, nova, database):
    nova.add_host("cn1")
    nova.add_aggregate("bad", ("cn1",), note="a\0b")
    nova.add_aggregate("good", ("cn1",), note="plain")
    follower.full()
    with database.read() as connection:
        names = {one.name for one in host_aggregates.snapshot(connection)}
    has_nul = database.url.get_backend_name() != "postgresql"
    assert names == ({"good", "bad"} if has_nul else {"good"})


def test_characters_of_a_database_are_those_of_its_character_set(small):
    with small.read() as connection:
        characters = Characters.of(connection)
    assert characters.missing("plain") is None
    assert characters.missing(f"a{EMOJI}b") == EMOJI
    assert characters.shown(f"a{EMOJI}b") == "a?b"


def test_database_of_utf8_stores_every_character(database):
    with database.read() as connection:
        assert Characters.of(connection).missing(EMOJI) is None
