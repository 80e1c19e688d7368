# SPDX-License-Identifier: Apache-2.0
"""The store of instances."""

from dataclasses import replace
from datetime import timedelta

import pytest

from placement_sched.errors import NotFound
from placement_sched.model.instance import Instance
from placement_sched.store.compute import instances
from tests.support.reports import NOW, node_uuid
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases

LATER = NOW + timedelta(seconds=30)


def an_instance(number=1, **changes):
    nothing = dict.fromkeys(Instance.__slots__)
    return Instance(
        **{**nothing, "uuid": node_uuid(number), "host": "cn1", "display_name": "one", **changes}
    )


def record(database, *recorded, now=NOW):
    database.write(lambda connection: instances.record(connection, recorded, now))


def kept(database, number=1):
    with database.read() as connection:
        return instances.by_uuid(connection, node_uuid(number))


def test_record_is_kept_whole(database):
    recorded = an_instance(
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
    record(database, recorded)
    assert kept(database) == replace(recorded, created_at=NOW, updated_at=NOW)


def test_next_record_keeps_birth_and_decision(database):
    record(database, an_instance(decision_uuid=node_uuid(8), vm_state="building"))
    record(database, an_instance(host="cn2"), now=LATER)
    found = kept(database)
    assert (found.host, found.vm_state, found.decision_uuid) == ("cn2", None, node_uuid(8))
    assert (found.created_at, found.updated_at) == (NOW, LATER)


def test_next_decision_replaces_the_last(database):
    record(database, an_instance(decision_uuid=node_uuid(8)), an_instance(2))
    record(database, an_instance(decision_uuid=node_uuid(9)), an_instance(2))
    assert kept(database, 1).decision_uuid == node_uuid(9)
    assert kept(database, 2).decision_uuid is None


def test_instances_of_hosts_come_by_host_then_uuid(database):
    record(
        database,
        an_instance(3, host="b"),
        an_instance(2, host="a"),
        an_instance(1, host="b"),
        an_instance(4, host=None),
    )
    with database.read() as connection:
        found = instances.by_hosts(connection, ["a", "b", "c"])
    assert [one.uuid for one in found] == [node_uuid(number) for number in (2, 1, 3)]


def test_removed_instances_are_gone(database):
    record(database, an_instance(1), an_instance(2))

    def remove(connection):
        return instances.remove(connection, [node_uuid(1), node_uuid(3)])

    assert database.write(remove) == 1
    with pytest.raises(NotFound):
        kept(database, 1)
    assert kept(database, 2)


def test_many_records_cost_what_few_cost(database):
    counts = []
    for some in ([an_instance(1)], [an_instance(number) for number in range(2, 300)]):
        with record_statements(database) as seen:
            record(database, *some)
        counts.append(len(seen))
    assert counts[0] == counts[1]
