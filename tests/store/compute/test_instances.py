# SPDX-License-Identifier: Apache-2.0
"""The store of instances, and lists of servers by status and power state."""

from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest

from placement_sched.api.compute.servers import derive_power_state
from placement_sched.errors import NotFound
from placement_sched.model.instance import POWER_STATES, STATUSES, UNKNOWN, Instance, derive_status
from placement_sched.store.compute import instances
from placement_sched.store.compute.instances import ServerQuery, search_servers
from tests.support.reports import NOW, node_uuid
from tests.support.statements import record_statements, run_query

pytestmark = pytest.mark.all_databases

HALF_MINUTE_LATER = NOW + timedelta(seconds=30)
TASK_STATES = sorted({task for _, by_task in STATUSES.values() for task in by_task})


def build_instance(number=1, **changes):
    nothing = dict.fromkeys(Instance.__slots__)
    return Instance(
        **{**nothing, "uuid": node_uuid(number), "host": "cn1", "display_name": "one", **changes}
    )


def record_instances(database, *recorded, now=NOW):
    database.write(lambda connection: instances.record(connection, recorded, now))


def read_instance(database, number=1):
    return run_query(database, instances.get_by_uuid, node_uuid(number))


def test_all_fields_of_an_instance_are_stored(database):
    recorded = build_instance(
        node="n",
        project_id="p",
        user_id="u",
        vm_state="active",
        task_state="deleting",
        flavor={"vcpus": 1, "extra_specs": {"é": "ü"}},
        image={"id": "i"},
        server_group=node_uuid(7),
        decision_uuid=node_uuid(8),
    )
    record_instances(database, recorded)
    assert read_instance(database) == replace(recorded, created_at=NOW, updated_at=NOW)


def test_metadata_of_all_instances_is_read_by_one_query_at_first_use(database):
    numbers = range(1, 31)
    new = [build_instance(number, metadata={"n": str(number)}) for number in numbers]
    database.write(lambda connection: instances.record(connection, new, NOW, with_metadata=True))
    with record_statements(database) as statements, database.read() as connection:
        records = instances.list_by_hosts(connection, ["cn1"])
        host_instances = instances.build_host_instances(connection, records)
        assert {record.metadata for record in records} == {None}
        assert host_instances[0].get("display_name") == "one"
        before = len(statements)
        assert [entry.metadata for entry in host_instances] == [
            {"n": str(number)} for number in numbers
        ]
        assert {len(entry.system_metadata) for entry in host_instances} == {0}
    assert not any("metadata" in statement for statement in statements[:before])
    assert len(statements) == before + 1


def test_instance_record_without_metadata_keeps_the_stored_metadata(database):
    new = [build_instance(metadata={"a": "b"}, system_metadata={"c": None})]
    database.write(lambda connection: instances.record(connection, new, NOW, with_metadata=True))
    record_instances(database, build_instance(host="cn2"), now=HALF_MINUTE_LATER)
    with database.read() as connection:
        reader = instances.MetadataReader(connection, [node_uuid(1)])
        assert reader.read(node_uuid(1)) == ({"a": "b"}, {"c": None})
        assert reader.read(node_uuid(2)) == ({}, {})


def test_update_of_an_instance_keeps_creation_time_decision_and_request(database):
    request = {"availability_zone": "az1", "scheduler_hints": {"é": ["ü"]}}
    placed = build_instance(decision_uuid=node_uuid(8), vm_state="building", request=request)
    record_instances(database, placed, build_instance(2))
    record_instances(database, build_instance(host="cn2"), now=HALF_MINUTE_LATER)
    found = read_instance(database)
    both = [node_uuid(1), node_uuid(2)]
    assert run_query(database, instances.map_requests, both) == {node_uuid(1): request}
    assert (found.host, found.vm_state, found.decision_uuid) == ("cn2", None, node_uuid(8))
    assert (found.created_at, found.updated_at) == (NOW, HALF_MINUTE_LATER)
    record_instances(database, build_instance(decision_uuid=node_uuid(9)), build_instance(2))
    assert read_instance(database).decision_uuid == node_uuid(9)
    assert read_instance(database, 2).decision_uuid is None


def test_instances_are_sorted_by_host_and_uuid(database):
    record_instances(
        database,
        build_instance(3, host="b"),
        build_instance(2, host="a"),
        build_instance(1, host="b"),
        build_instance(4, host=None),
    )
    with database.read() as connection:
        records = instances.list_by_hosts(connection, ["a", "b", "c"])
    assert [record.uuid for record in records] == [node_uuid(number) for number in (2, 1, 3)]


def test_removed_instances_are_not_found(database):
    record_instances(database, build_instance(1), build_instance(2))

    def remove_two_instances(connection):
        return instances.remove(connection, [node_uuid(1), node_uuid(3)])

    assert database.write(remove_two_instances) == 1
    with pytest.raises(NotFound):
        read_instance(database, 1)
    assert read_instance(database, 2)


def test_statement_count_of_instance_records_is_independent_of_instances(database):
    counts = []
    for records in ([build_instance(1)], [build_instance(number) for number in range(2, 300)]):
        with record_statements(database) as seen:
            record_instances(database, *records)
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_server_status_filters_match_the_displayed_status(database):
    states = product(
        [*STATUSES, "Active", "mended", None], [*TASK_STATES, "Rebooting", "other", None]
    )
    records = [
        build_instance(number, vm_state=vm_state, task_state=task_state)
        for number, (vm_state, task_state) in enumerate(states, start=1)
    ]
    record_instances(database, *records)

    def search_server_uuids(**filters):
        with database.read() as connection:
            return {server.uuid for server in search_servers(connection, ServerQuery(**filters))}

    statuses = {derive_status(record.vm_state, record.task_state) for record in records}
    assert UNKNOWN in statuses
    for status in statuses:
        expected = {r.uuid for r in records if derive_status(r.vm_state, r.task_state) == status}
        assert search_server_uuids(statuses=frozenset({status})) == expected, status
    for number in {0, *POWER_STATES.values()}:
        expected = {
            record.uuid for record in records if derive_power_state(record.vm_state) == number
        }
        assert search_server_uuids(power_state=number) == expected, number
