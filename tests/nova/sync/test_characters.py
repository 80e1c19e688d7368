# SPDX-License-Identifier: Apache-2.0
"""Objects with characters that the database cannot store are skipped."""

import pytest

from placement_sched.db.collations import Characters
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.nova.rpc import SchedulerRpc
from placement_sched.nova.sync.follower import Follower
from placement_sched.operations.prepare import sync
from placement_sched.store.compute import (
    cells,
    compute_nodes,
    host_aggregates,
    instances,
    server_groups,
    services,
)
from tests.conftest import delete_test_rows, make_settings
from tests.nova.scheduling import build_request_spec_primitive, list_selected_hosts
from tests.support.empty_databases import empty_database
from tests.support.nova_clouds import build_flavor_json
from tests.support.scheduling import make_report, make_uuid

pytestmark = pytest.mark.slow

EMOJI = "\N{GRINNING FACE}"


@pytest.fixture(
    scope="module",
    params=[
        ("mysql", "CHARACTER SET utf8mb3", ""),
        ("mysql", "CHARACTER SET utf8mb4", "charset=utf8"),
        ("postgresql", "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0", ""),
    ],
    ids=["utf8mb3", "charset=utf8", "latin1"],
)
def limited_charset_url(request, tmp_path_factory):
    kind, options, more = request.param
    with empty_database(kind, tmp_path_factory.mktemp("narrow"), options) as plain_url:
        separator = "&" if "?" in plain_url else "?"
        url = f"{plain_url}{separator}{more}" if more else plain_url
        database = Database(make_settings(url))
        sync(database, utcnow)
        database.dispose()
        yield url


@pytest.fixture
def limited_charset_database(limited_charset_url):
    delete_test_rows(limited_charset_url)
    database = Database(make_settings(limited_charset_url))
    yield database
    database.dispose()


@pytest.fixture
def limited_charset_follower(limited_charset_url, limited_charset_database, nova):
    settings = make_settings(limited_charset_url).with_overrides(
        {"api_database.connection": nova.api.url}
    )
    follower = Follower(limited_charset_database, settings)
    yield follower
    follower.close()


def test_emoji_in_names_is_stored_as_a_placeholder(
    limited_charset_database, limited_charset_follower, nova
):
    nova.add_host("cn1", disabled=True, disabled_reason=f"fan {EMOJI}")
    group = nova.add_group(f"pair {EMOJI}")
    uuid = nova.add_instance("cn1", group=group, display_name=f"web {EMOJI}")
    number = nova.add_aggregate(f"racks {EMOJI}", ("cn1",), rack="7")
    findings = limited_charset_follower.sync_all()
    with limited_charset_database.read() as connection:
        assert instances.get_by_uuid(connection, uuid).display_name == "web ?"
        assert host_aggregates.find_by_id(connection, number).name == f"racks ? ({number})"
        assert server_groups.find_by_uuid(connection, group).name == "pair ?"
        assert services.map_by_host(connection, ["cn1"])["cn1"].disabled_reason == "fan ?"
    reasons = {issue.place: issue.reason for issue in findings.issues}
    assert "cannot store the character" in reasons[f"instance {uuid}"]
    assert f"server group {group}" in reasons
    assert limited_charset_follower.compare().differing == 0


def test_server_renamed_to_an_emoji_does_not_stop_the_sync(
    limited_charset_database, limited_charset_follower, nova
):
    nova.add_host("cn1")
    first, second = nova.add_instance("cn1"), nova.add_instance("cn1")
    limited_charset_follower.sync_all()
    cell = nova.cells["one"]
    cell.change("instances", {"uuid": first}, display_name=EMOJI)
    cell.change("instances", {"uuid": second}, vm_state="stopped")
    limited_charset_follower.sync_changes()
    with limited_charset_database.read() as connection:
        assert instances.get_by_uuid(connection, first).display_name == "?"
        assert instances.get_by_uuid(connection, second).vm_state == "stopped"


def test_aggregate_with_unstorable_metadata_is_skipped_and_named(
    limited_charset_database, limited_charset_follower, nova
):
    nova.add_host("cn1")
    bad = nova.add_aggregate("bad", ("cn1",), note=EMOJI)
    good = nova.add_aggregate("good", ("cn1",), note="plain")
    findings = limited_charset_follower.sync_all()
    with limited_charset_database.read() as connection:
        assert [aggregate.id for aggregate in host_aggregates.read_snapshot(connection)] == [good]
    (reason,) = [issue.reason for issue in findings.issues if "aggregate bad" in issue.place]
    assert "of its metadata 'note'" in reason
    assert bad != good


def test_names_with_equal_placeholders_stay_distinct(
    limited_charset_database, limited_charset_follower, nova
):
    nova.add_host("cn1")
    first, second = nova.add_aggregate("z😀", ("cn1",)), nova.add_aggregate("z😁")
    for _ in range(2):
        limited_charset_follower.sync_all()
    with limited_charset_database.read() as connection:
        names = {
            aggregate.id: aggregate.name for aggregate in host_aggregates.read_snapshot(connection)
        }
    assert names == {first: f"z? ({first})", second: f"z? ({second})"}
    assert limited_charset_follower.compare().differing == 0


def test_host_with_unstorable_name_is_skipped_everywhere(
    limited_charset_database, limited_charset_follower, nova
):
    bad = f"cn{EMOJI}"
    nova.add_host("cn1")
    nova.add_host(bad, disabled=True)
    nova.add_host("cn3", hypervisor_hostname=bad)
    number = nova.add_aggregate("racks", ("cn1", bad))
    findings = limited_charset_follower.sync_all()
    limited_charset_follower.sync_changes()
    with limited_charset_database.read() as connection:
        nodes = {one.host for one in compute_nodes.search(connection)}
        assert host_aggregates.find_by_id(connection, number).hosts == {"cn1"}
    assert nodes == {"cn1"}
    places = {issue.place.split(" (")[0] for issue in findings.issues}
    assert {f"nova-compute of host {bad}", f"compute node {bad}"} <= places
    assert bad in findings.unread
    assert limited_charset_follower.compare().differing == 0


def test_node_report_with_an_emoji_is_stored(
    limited_charset_database, limited_charset_follower, nova
):
    texts = {"stats": f'{{"note": "{EMOJI}"}}', "cpu_info": f'{{"model": "{EMOJI}"}}'}
    nova.add_host("cn1", **texts, hypervisor_type=EMOJI)
    assert not limited_charset_follower.sync_all().issues
    with limited_charset_database.read() as connection:
        (node,) = compute_nodes.search(connection)
    for value in (node.stats, node.cpu_info, node.hypervisor_type):
        assert EMOJI in str(value)


def test_instances_with_an_emoji_keep_their_earlier_records(
    limited_charset_database, limited_charset_follower, nova
):
    names = ("project_id", "user_id", "task_state", "image_ref", "node", "host")
    nova.add_host("cn1")
    other, *recorded = (nova.add_instance("cn1") for _ in range(len(names) + 1))
    limited_charset_follower.sync_all()
    new, cell = [], nova.cells["one"]
    for name, uuid in zip(names, recorded, strict=True):
        new.append(nova.add_instance("cn1", **{name: EMOJI}))
        cell.change("instances", {"uuid": uuid}, updated_at=utcnow(), **{name: EMOJI})
    cell.change("instances", {"uuid": other}, updated_at=utcnow(), vm_state="stopped")
    for read in (limited_charset_follower.sync_changes, limited_charset_follower.sync_all):
        findings = read()
        with limited_charset_database.read() as connection:
            hosts = {row.uuid: row.host for row in instances.search(connection)}
            assert instances.get_by_uuid(connection, other).vm_state == "stopped"
        assert hosts == dict.fromkeys((other, *recorded), "cn1")
        places = {issue.place for issue in findings.issues}
        assert places == {f"instance {uuid}" for uuid in (*recorded, *new)}


def test_flavor_with_an_emoji_is_stored_unchanged(
    limited_charset_database, limited_charset_follower, nova
):
    nova.add_host("cn1")
    uuid = nova.add_instance("cn1", flavor=build_flavor_json(f"m1.{EMOJI}"))
    assert not limited_charset_follower.sync_all().issues
    with limited_charset_database.read() as connection:
        assert instances.get_by_uuid(connection, uuid).flavor["name"] == f"m1.{EMOJI}"


def test_unstorable_cell_and_group_are_skipped(
    limited_charset_database, limited_charset_follower, nova
):
    nova.add_host("cn1")
    nova.api.change("cell_mappings", {"name": "one"}, name=f"one {EMOJI}")
    group = nova.add_group("pair")
    nova.api.change("instance_groups", {"uuid": group}, project_id=EMOJI)
    findings = limited_charset_follower.sync_all()
    with limited_charset_database.read() as connection:
        assert [cell.name for cell in cells.list_cells(connection)] == ["one ?"]
        assert server_groups.find_by_uuid(connection, group) is None
    assert len({issue.place for issue in findings.issues}) == 2
    assert limited_charset_follower.compare().differing == 0


def test_request_with_an_emoji_is_placed(
    limited_charset_url, limited_charset_follower, nova, make_app
):
    uuid = nova.add_host("cn1")
    limited_charset_follower.sync_all()
    client = make_app(make_settings(limited_charset_url))
    client.post_json("/scheduler/v1/compute_nodes", [make_report("cn1", uuid=uuid)])
    rpc = SchedulerRpc(
        client.app.services.scheduler,
        limited_charset_follower,
        check_policy_hint=lambda _context: None,
    )
    spec = build_request_spec_primitive(make_uuid(1), scheduler_hints={"note": [EMOJI]})
    data = spec["nova_object.data"]
    data["flavor"]["nova_object.data"]["name"] = f"m1.{EMOJI}"
    data["image"]["nova_object.data"]["name"] = EMOJI
    context = {"user_id": "ann", "project_id": "demo", "roles": ["member"]}
    sent = {"spec_obj": spec, "instance_uuids": [make_uuid(1)], "return_objects": True}
    assert list_selected_hosts(rpc.select_destinations(context, **sent)) == ["cn1"]
    (decision,) = client.get("/scheduler/v1/decisions").json["decisions"]
    assert decision["flavor"] == "m1.?"


def test_metadata_with_nul_is_skipped_on_postgresql_only(follower, nova, database):
    nova.add_host("cn1")
    nova.add_aggregate("bad", ("cn1",), note="a\0b")
    nova.add_aggregate("good", ("cn1",), note="plain")
    follower.sync_all()
    with database.read() as connection:
        names = {aggregate.name for aggregate in host_aggregates.read_snapshot(connection)}
    has_nul = database.url.get_backend_name() != "postgresql"
    assert names == ({"good", "bad"} if has_nul else {"good"})


def test_emoji_is_found_to_be_unstorable_in_a_limited_character_set(limited_charset_database):
    with limited_charset_database.read() as connection:
        characters = Characters.read_from(connection)
    assert characters.find_unstorable("plain") is None
    assert characters.find_unstorable(f"a{EMOJI}b") == EMOJI
    assert characters.replace_unstorable(f"a{EMOJI}b") == "a?b"


def test_utf8_database_stores_every_character(database):
    with database.read() as connection:
        assert Characters.read_from(connection).find_unstorable(EMOJI) is None
