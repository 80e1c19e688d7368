# SPDX-License-Identifier: Apache-2.0
"""Instances on host states, read when a plugin uses them."""

from datetime import timedelta

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.model.instance import HostInstance, NovaCell
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_manager import RecordedInstances, collect_named_instances
from placement_sched.store.compute import cells, services
from tests.conftest import make_settings
from tests.support.scheduling import explain_request, make_report, make_spec, make_uuid
from tests.support.statements import record_statements
from tests.support.states import build_instances, build_spec

pytestmark = pytest.mark.slow

EXPLAIN_PATH = "/scheduler/v1/explain"
INSTANCE_1, INSTANCE_2, INSTANCE_3, NEW_INSTANCE = map(make_uuid, (1, 2, 3, 4))


class RecordingInstanceStore:
    """Instances 1 and 2 on cn1, 3 on cn2, and a list of the reads."""

    def __init__(self):
        self.instances = [
            *build_instances("cn1", INSTANCE_1, INSTANCE_2, project_id="p1").values(),
            *build_instances("cn2", INSTANCE_3).values(),
        ]
        self.reads = []

    def by_hosts(self, hosts):
        self.reads.append("hosts")
        return [entry for entry in self.instances if entry.host in hosts]

    def by_uuids(self, uuids):
        self.reads.append("uuids")
        return [entry for entry in self.instances if entry.uuid in uuids]

    def read(self, *named):
        return RecordedInstances(
            {"cn1", "cn2", "cn3"}, named, by_hosts=self.by_hosts, by_uuids=self.by_uuids
        )


def test_instances_of_all_hosts_are_read_at_the_first_use():
    records = RecordingInstanceStore()
    recorded = records.read()
    first, second, third = (recorded.get_on_host(name) for name in ("cn1", "cn2", "cn3"))
    assert records.reads == []
    assert dict(first) == build_instances("cn1", INSTANCE_1, INSTANCE_2, project_id="p1")
    assert (len(first), INSTANCE_1 in first, INSTANCE_3 in first) == (2, True, False)
    assert first[INSTANCE_2].project_id == "p1"
    assert [list(second), list(third)] == [[INSTANCE_3], []]
    with pytest.raises(KeyError):
        first[INSTANCE_3]
    assert records.reads == ["hosts"]


def test_instances_named_by_the_request_are_read_without_those_of_all_hosts():
    records = RecordingInstanceStore()
    recorded = records.read(INSTANCE_1, INSTANCE_3, NEW_INSTANCE)
    host, other_host = recorded.get_on_host("cn1"), recorded.get_on_host("cn2")
    presence = (
        INSTANCE_1 in host,
        INSTANCE_3 in host,
        NEW_INSTANCE in host,
        INSTANCE_3 in other_host,
    )
    assert presence == (True, False, False, True)
    assert host.keys() & {INSTANCE_1, INSTANCE_3, NEW_INSTANCE} == {INSTANCE_1}
    assert {INSTANCE_3, INSTANCE_1} & other_host.keys() == {INSTANCE_3}
    assert host[INSTANCE_1].uuid == INSTANCE_1
    assert records.reads == ["uuids"]
    assert host.keys() & {INSTANCE_1, INSTANCE_2, INSTANCE_3} == {INSTANCE_1, INSTANCE_2}
    assert records.reads == ["uuids", "hosts"]


def test_instance_added_to_a_node_is_on_all_nodes_of_the_same_host_only():
    records = RecordingInstanceStore()
    recorded = records.read(NEW_INSTANCE, INSTANCE_1)
    # Nodes of a host share its instances.
    host, same_host, other_host = (recorded.get_on_host(name) for name in ("cn1", "cn1", "cn2"))
    host[NEW_INSTANCE] = HostInstance(uuid=NEW_INSTANCE)
    assert NEW_INSTANCE in host
    assert NEW_INSTANCE in same_host
    assert NEW_INSTANCE not in other_host
    assert host[NEW_INSTANCE].host is None
    assert host.keys() & {NEW_INSTANCE, INSTANCE_1} == {NEW_INSTANCE, INSTANCE_1}
    assert (set(host), len(host)) == ({NEW_INSTANCE, INSTANCE_1, INSTANCE_2}, 3)
    del host[NEW_INSTANCE]
    assert NEW_INSTANCE not in host
    with pytest.raises(KeyError):
        del host[INSTANCE_1]


def test_instances_named_by_a_request_include_group_members_and_hints():
    request = build_spec(
        instance_uuids=[INSTANCE_1],
        instance_group={"policy": "affinity", "members": [INSTANCE_2.upper()]},
        scheduler_hints={
            "same_host": INSTANCE_3.upper(),
            "different_host": [NEW_INSTANCE],
            "query": "x",
        },
    )
    assert collect_named_instances(request) == {INSTANCE_1, INSTANCE_2, INSTANCE_3, NEW_INSTANCE}


def test_recorded_image_with_invalid_properties_has_none():
    image = {"id": "i", "properties": {"hw_disk_bus": "no such bus"}}
    image_meta = HostInstance(uuid=INSTANCE_1, image=image).image_meta
    assert (image_meta.id, dict(image_meta.properties)) == ("i", {})


class InstanceReadingFilter(BaseHostFilter):
    """A third-party filter that uses instances without a declaration."""

    def host_passes(self, host_state, _spec):
        flavors = {entry.flavor.name for entry in host_state.instances.values()}
        return flavors <= {"m1"} and len(host_state.instances) < 2


def make_cloud_with_filters(url, make_app, *enabled, size=3):
    available = [
        "placement_sched.scheduler.filters.all_filters",
        f"{__name__}.InstanceReadingFilter",
    ]
    app = make_app(
        make_settings(
            url,
            filter_scheduler__available_filters=available,
            filter_scheduler__enabled_filters=list(enabled),
        )
    )
    app.post_json(
        "/scheduler/v1/compute_nodes", [make_report(f"cn{n}") for n in range(1, size + 1)]
    )
    return app


def record_instance(app, number, host, flavor=None):
    record = {"host": host, "node": host, "flavor": flavor or {"name": "m1"}, "image": None}
    app.put_json(f"/scheduler/v1/instances/{make_uuid(number)}", record)


@pytest.mark.all_databases
@pytest.mark.parametrize(
    ("hints", "hosts"),
    [
        ({"different_host": INSTANCE_1}, ["cn2", "cn3"]),
        ({"different_host": [INSTANCE_1, INSTANCE_2]}, ["cn3"]),
        ({"same_host": [INSTANCE_1.upper(), INSTANCE_2]}, ["cn1", "cn2"]),
        ({"same_host": [INSTANCE_1, INSTANCE_2], "different_host": INSTANCE_1}, ["cn2"]),
        ({"same_host": NEW_INSTANCE}, []),
        ({}, ["cn1", "cn2", "cn3"]),
    ],
    ids=str,
)
def test_same_and_different_host_hints_select_hosts_on_every_database(
    database_url, make_app, hints, hosts
):
    app = make_cloud_with_filters(database_url, make_app, "DifferentHostFilter", "SameHostFilter")
    record_instance(app, 1, "cn1")
    record_instance(app, 2, "cn2")
    response = app.post_json(EXPLAIN_PATH, {"request_spec": make_spec(scheduler_hints=hints)}).json
    assert sorted(host["host"] for host in response["hosts"]) == hosts


STATEMENTS_BY_FILTER = {
    "InstanceReadingFilter": 1,
    "TypeAffinityFilter": 1,
    "SameHostFilter": 1,
    "AllHostsFilter": 0,
}


@pytest.mark.parametrize("enabled", STATEMENTS_BY_FILTER)
@pytest.mark.parametrize("size", [3, 30], ids="{} hosts".format)
def test_instances_are_read_in_one_sql_statement_for_filters_that_use_them(
    sqlite_url, make_app, enabled, size
):
    app = make_cloud_with_filters(sqlite_url, make_app, enabled, size=size)
    for number in range(1, size + 1):
        record_instance(app, number, f"cn{number}")
    hints = {"same_host": [make_uuid(n) for n in range(1, size + 1)]}
    body = {"request_spec": make_spec(scheduler_hints=hints)}
    app.post_json(EXPLAIN_PATH, body)
    with record_statements(app.app.services.database) as statements:
        app.post_json(EXPLAIN_PATH, body)
    reading = [statement for statement in statements if "sched_instances" in str(statement)]
    assert len(reading) == STATEMENTS_BY_FILTER[enabled]


CELL_1_UUID, CELL_2_UUID = (
    "c0000000-0000-0000-0000-000000000001",
    "c0000000-0000-0000-0000-000000000002",
)
CONNECTION_ERROR = "connection refused"


@pytest.fixture
def cloud(app):
    """A host in each of two cells, and a host without a cell."""
    reports = [
        make_report("cn1", cell_uuid=CELL_1_UUID),
        make_report("cn2", cell_uuid=CELL_2_UUID),
        make_report("cn3"),
    ]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    return app


def record_cells(app, *nova_cells):
    def put_cells(connection):
        cells.put(connection, nova_cells, utcnow())

    app.app.services.database.write(put_cells)


def record_unavailable_cell_database(app, uuid, seconds):
    """Record that the database of a cell has been unavailable for seconds."""
    since = utcnow() - timedelta(seconds=seconds)
    app.app.services.database.write(
        lambda connection: cells.record_failure(connection, uuid, CONNECTION_ERROR, since)
    )


def read_cell_rejections(explanation):
    """Return the reasons of rejections by cell, by host."""
    stages = [
        entry for entry in explanation["funnel"]["filters"] if entry["name"] == "enabled_cells"
    ]
    return {
        rejection["host"]: rejection["reason"]
        for stage in stages
        for rejection in stage["rejected"]
    }


def list_passing_hosts(explanation):
    return sorted(host["host"] for host in explanation["hosts"])


def test_hosts_of_a_cell_disabled_in_nova_are_rejected(cloud):
    record_cells(cloud, NovaCell(uuid=CELL_1_UUID, name="one"), NovaCell(uuid=CELL_2_UUID))
    response = explain_request(cloud, make_spec())
    assert list_passing_hosts(response) == ["cn1", "cn2", "cn3"]
    assert "enabled_cells" not in {stage["name"] for stage in response["funnel"]["filters"]}
    record_cells(
        cloud, NovaCell(uuid=CELL_1_UUID, name="one", disabled=True), NovaCell(uuid=CELL_2_UUID)
    )
    response = explain_request(cloud, make_spec())
    assert read_cell_rejections(response) == {"cn1": "its cell is disabled"}
    assert list_passing_hosts(response) == ["cn2", "cn3"]
    assert explain_request(cloud, make_spec(force_hosts=["cn1"]))["outcome"] == "no_valid_host"


def test_move_within_a_cell_disabled_in_nova_finds_its_hosts(cloud):
    record_cells(cloud, NovaCell(uuid=CELL_1_UUID, disabled=True))
    response = explain_request(
        cloud, make_spec(requested_destination={"cell": CELL_1_UUID.upper()})
    )
    assert list_passing_hosts(response) == ["cn1"]
    overrides = {"scheduler.disabled_cells": [CELL_1_UUID]}
    response = explain_request(
        cloud, make_spec(requested_destination={"cell": CELL_1_UUID}), overrides=overrides
    )
    assert read_cell_rejections(response) == {"cn1": "its cell is disabled"}


@pytest.mark.all_databases
def test_hosts_of_a_cell_with_an_unavailable_database_are_rejected(cloud):
    record_cells(cloud, NovaCell(uuid=CELL_1_UUID, name="one"), NovaCell(uuid=CELL_2_UUID))
    record_unavailable_cell_database(cloud, CELL_1_UUID, 93)
    record_unavailable_cell_database(cloud, CELL_2_UUID, 3600)
    response = explain_request(cloud, make_spec(requested_destination={"cell": CELL_2_UUID}))
    reasons = read_cell_rejections(response)
    head, _, rest = reasons["cn1"].partition(" has not answered for ")
    seconds, _, failure = rest.partition(" s: ")
    assert (head, failure) == ("the database of cell one", CONNECTION_ERROR)
    assert 93 <= int(seconds) < 3600
    assert reasons["cn2"].startswith(f"the database of cell {CELL_2_UUID} has not answered for 36")
    assert response["outcome"] == "no_valid_host"
    cloud.app.services.database.write(
        lambda connection: cells.record_read(connection, [CELL_1_UUID, CELL_2_UUID], utcnow())
    )
    assert list_passing_hosts(explain_request(cloud, make_spec())) == ["cn1", "cn2", "cn3"]


def test_verdict_names_the_cell_with_an_unavailable_database(cloud):
    record_cells(cloud, NovaCell(uuid=CELL_1_UUID, disabled=True))
    record_unavailable_cell_database(cloud, CELL_1_UUID, 5)
    response = explain_request(cloud, make_spec(ignore_hosts=["cn1"]), hosts=["cn1"])
    (verdict,) = response["verdicts"]
    reasons = {reason["name"]: reason["reason"] for reason in verdict["reasons"]}
    assert reasons["enabled_cells"].startswith(
        f"the database of cell {CELL_1_UUID} has not answered for"
    )
    assert reasons["ignore_hosts"] == "ignore_hosts of the request names it"


def record_statements_of_selection(app, number):
    """Return the statements of a request with filled caches."""
    ask = {"request_spec": make_spec(make_uuid(number)), "claim": False}
    app.post_json("/scheduler/v1/select_destinations", ask)
    with record_statements(app.app.services.database) as seen:
        app.post_json("/scheduler/v1/select_destinations", ask)
    return seen


def test_disabled_and_unavailable_cells_are_read_in_at_most_one_sql_statement(cloud):
    record_cells(cloud, *(NovaCell(uuid=f"c0000000-0000-0000-0000-{n:012}") for n in range(50)))
    record_unavailable_cell_database(cloud, CELL_2_UUID, 5)
    assert sum("sched_cells" in entry for entry in record_statements_of_selection(cloud, 1)) == 1
    cloud.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    assert sum("sched_cells" in item for item in record_statements_of_selection(cloud, 2)) == 0


DOWN_TIME = {"DEFAULT.service_down_time": 60}


def record_reading(app, minutes):
    """Set the time of the last reading, and of all heartbeats."""
    at = utcnow() - timedelta(minutes=minutes)

    def write(connection):
        cells.record_read(connection, [CELL_1_UUID, CELL_2_UUID], at)
        ids = [service.id for service in services.search(connection)]
        services.set_last_seen(connection, dict.fromkeys(ids, at), at)

    app.app.services.database.write(write)


@pytest.mark.all_databases
def test_heartbeats_are_judged_at_the_time_of_the_last_reading(cloud):
    record_cells(cloud, NovaCell(uuid=CELL_1_UUID, name="one"), NovaCell(uuid=CELL_2_UUID))
    record_reading(cloud, 22)
    response = explain_request(cloud, make_spec(), overrides=DOWN_TIME)
    assert list_passing_hosts(response) == ["cn1", "cn2"]  # cn3 reports itself, and is down
    (warning,) = response["funnel"]["warnings"]
    assert warning["source"] == "nova"
    assert warning["detail"].startswith("nova's databases were last read 22 minutes ago")
    record_reading(cloud, 0)
    response = explain_request(cloud, make_spec(), overrides=DOWN_TIME)
    assert "warnings" not in response["funnel"]
    assert list_passing_hosts(response) == ["cn1", "cn2", "cn3"]


def test_host_that_was_down_at_the_last_reading_stays_down(cloud):
    record_cells(cloud, NovaCell(uuid=CELL_1_UUID), NovaCell(uuid=CELL_2_UUID))
    record_reading(cloud, 22)
    at = utcnow() - timedelta(minutes=22, seconds=93)

    def write(connection):
        (row,) = services.search(connection, host="cn1")
        services.set_last_seen(connection, {row.id: at}, at)

    cloud.app.services.database.write(write)
    response = explain_request(cloud, make_spec(), overrides=DOWN_TIME, hosts=["cn1"])
    assert list_passing_hosts(explain_request(cloud, make_spec(), overrides=DOWN_TIME)) == ["cn2"]
    (reason,) = response["verdicts"][0]["reasons"]
    assert reason["name"] == "ComputeFilter"
    assert reason["reason"].startswith("no heartbeat for 9")
