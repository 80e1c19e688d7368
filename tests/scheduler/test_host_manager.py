# SPDX-License-Identifier: Apache-2.0
"""Instances on host states: read when a plugin looks at them, and no more of them than it asks."""

import pytest

from placement_sched.model.instance import HostInstance
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_manager import RecordedInstances, named_instances
from tests.conftest import make_settings
from tests.support.scheduling import hosts_of, instance, report, spec
from tests.support.statements import counted
from tests.support.states import a_spec, instances_on

pytestmark = [pytest.mark.all_databases, pytest.mark.slow]

SELECT = "/scheduler/v1/select_destinations"
EXPLAIN = "/scheduler/v1/explain"
ONE, TWO, THREE, NEW = map(instance, (1, 2, 3, 4))


class Records:
    """Instances 1 and 2 on cn1, 3 on cn2, and what was asked of them."""

    def __init__(self):
        self.every = [
            *instances_on("cn1", ONE, TWO, project_id="p1").values(),
            *instances_on("cn2", THREE).values(),
        ]
        self.asked = []

    def by_hosts(self, hosts):
        self.asked.append("hosts")
        return [one for one in self.every if one.host in hosts]

    def by_uuids(self, uuids):
        self.asked.append("uuids")
        return [one for one in self.every if one.uuid in uuids]

    def of(self, *named):
        return RecordedInstances(
            {"cn1", "cn2", "cn3"}, named, by_hosts=self.by_hosts, by_uuids=self.by_uuids
        )


def test_mapping_tells_what_is_on_the_host():
    here = Records().of().on("cn1")
    assert dict(here) == instances_on("cn1", ONE, TWO, project_id="p1")
    assert (len(here), ONE in here, THREE in here) == (2, True, False)
    assert here[TWO].project_id == "p1"
    assert not Records().of().on("cn3")
    with pytest.raises(KeyError):
        here[THREE]


def test_nothing_is_read_until_somebody_looks_and_then_once_for_all_hosts():
    records = Records()
    recorded = records.of()
    hosts = [recorded.on(name) for name in ("cn1", "cn2")]
    assert records.asked == []
    assert [list(host) for host in hosts] == [[ONE, TWO], [THREE]]
    assert [next(iter(host.values())).host for host in hosts] == ["cn1", "cn2"]
    assert records.asked == ["hosts"]


def test_what_the_request_names_is_read_without_the_others():
    records = Records()
    recorded = records.of(ONE, THREE, NEW)
    here, there = recorded.on("cn1"), recorded.on("cn2")
    assert (ONE in here, THREE in here, NEW in here, THREE in there) == (True, False, False, True)
    assert here.keys() & {ONE, THREE, NEW} == {ONE}
    assert {THREE, ONE} & there.keys() == {THREE}
    assert here[ONE].uuid == ONE
    assert records.asked == ["uuids"]
    assert here.keys() & {ONE, TWO, THREE} == {ONE, TWO}
    assert records.asked == ["uuids", "hosts"]


def test_what_is_added_stays_with_one_host_and_may_be_taken_away():
    records = Records()
    recorded = records.of(NEW, ONE)
    # A host may have several nodes; what one of them is given is on the host.
    here, same, there = (recorded.on(name) for name in ("cn1", "cn1", "cn2"))
    here[NEW] = HostInstance(uuid=NEW)
    assert NEW in here
    assert NEW in same
    assert NEW not in there
    assert here[NEW].host is None
    assert here.keys() & {NEW, ONE} == {NEW, ONE}
    assert (set(here), len(here)) == ({NEW, ONE, TWO}, 3)
    del here[NEW]
    assert NEW not in here
    with pytest.raises(KeyError):
        del here[ONE]


def test_request_names_its_instances_members_of_its_group_and_those_of_hints():
    asked = a_spec(
        instance_uuids=[ONE],
        instance_group={"policy": "affinity", "members": [TWO.upper()]},
        scheduler_hints={"same_host": THREE.upper(), "different_host": [NEW], "query": "x"},
    )
    assert named_instances(asked) == {ONE, TWO, THREE, NEW}


def test_recorded_image_that_cannot_be_has_no_properties():
    image = {"id": "i", "properties": {"hw_disk_bus": "no such bus"}}
    kept = HostInstance(uuid=ONE, image=image).image_meta
    assert (kept.id, dict(kept.properties)) == ("i", {})


class LooksAtAll(BaseHostFilter):
    """A stranger's filter, which declares nothing and counts."""

    def host_passes(self, host_state, _spec):
        flavors = {one.flavor.name for one in host_state.instances.values()}
        return flavors <= {"m1"} and len(host_state.instances) < 2


def cloud_with(url, make_app, *enabled, size=3):
    available = ["placement_sched.scheduler.filters.all_filters", f"{__name__}.LooksAtAll"]
    app = make_app(
        make_settings(
            url,
            filter_scheduler__available_filters=available,
            filter_scheduler__enabled_filters=list(enabled),
        )
    )
    app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{n}") for n in range(1, size + 1)])
    return app


def placed(app, number, host, flavor=None):
    record = {"host": host, "node": host, "flavor": flavor or {"name": "m1"}, "image": None}
    app.put_json(f"/scheduler/v1/instances/{instance(number)}", record)


@pytest.mark.parametrize(
    ("hints", "hosts"),
    [
        ({"different_host": ONE}, ["cn2", "cn3"]),
        ({"different_host": [ONE, TWO]}, ["cn3"]),
        ({"same_host": [ONE.upper(), TWO]}, ["cn1", "cn2"]),
        ({"same_host": [ONE, TWO], "different_host": ONE}, ["cn2"]),
        ({"same_host": NEW}, []),
        ({}, ["cn1", "cn2", "cn3"]),
    ],
    ids=str,
)
def test_hints_are_followed_on_every_database(database_url, make_app, hints, hosts):
    app = cloud_with(database_url, make_app, "DifferentHostFilter", "SameHostFilter")
    placed(app, 1, "cn1")
    placed(app, 2, "cn2")
    answer = app.post_json(EXPLAIN, {"request_spec": spec(scheduler_hints=hints)}).json
    assert sorted(one["host"] for one in answer["hosts"]) == hosts


def test_strangers_filter_sees_records_and_what_the_request_placed_in_its_group(
    database_url, make_app
):
    app = cloud_with(database_url, make_app, "LooksAtAll")
    placed(app, 1, "cn1", {"name": "other"})
    placed(app, 2, "cn2")
    group = {"policy": "soft-affinity"}
    body = {"request_spec": spec(*map(instance, (11, 12, 13)), instance_group=group)}
    assert sorted(hosts_of(app.post_json(SELECT, body).json)) == ["cn2", "cn3", "cn3"]


def test_strangers_filter_sees_records_alone_without_a_group(database_url, make_app):
    app = cloud_with(database_url, make_app, "LooksAtAll")
    placed(app, 1, "cn1", {"name": "other"})
    placed(app, 2, "cn2")
    body = {"request_spec": spec(*map(instance, range(11, 16)))}
    assert set(hosts_of(app.post_json(SELECT, body).json)) == {"cn2", "cn3"}


COUNTS = {"LooksAtAll": 1, "TypeAffinityFilter": 1, "SameHostFilter": 1, "AllHostsFilter": 0}


@pytest.mark.parametrize("enabled", COUNTS)
@pytest.mark.parametrize("size", [3, 300], ids="{} hosts".format)
def test_instances_take_one_statement_where_a_plugin_looks_and_none_elsewhere(
    sqlite_url, make_app, enabled, size
):
    app = cloud_with(sqlite_url, make_app, enabled, size=size)
    for number in range(1, size + 1):
        placed(app, number, f"cn{number}")
    hints = {"same_host": [instance(n) for n in range(1, size + 1)]}
    body = {"request_spec": spec(scheduler_hints=hints)}
    app.post_json(EXPLAIN, body)
    with counted(app.app.services.database) as statements:
        app.post_json(EXPLAIN, body)
    reading = [one for one in statements if "sched_instances" in str(one)]
    assert len(reading) == COUNTS[enabled]
