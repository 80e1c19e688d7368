# SPDX-License-Identifier: Apache-2.0
"""Filling a host comes to the same as placing one by one, and flavors share one cloud."""

from contextlib import contextmanager
from random import Random

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from placement_sched.model.decision import DecisionSeed
from placement_sched.scheduler.capacity.count import Deadline, count_hosts
from tests.conftest import make_settings
from tests.exploring import draws
from tests.scheduler.capacity.placed import CAPACITY, asked
from tests.scheduler.capacity.test_capacity_is_placing import (
    GPU,
    LOOKING,
    NODES,
    PROVIDERS,
    drawn_hosts,
)
from tests.scheduler.capacity.test_report import in_zone
from tests.support.scheduling import flavor, report, spec
from tests.support.versions import LATEST_HEADERS

EXAMPLES = examples(
    max_examples=draws(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
PLAIN = ["ComputeFilter", "AggregateInstanceExtraSpecsFilter", "ImagePropertiesFilter"]
SIZES = st.fixed_dictionaries(
    {
        "vcpus": st.integers(1, 8),
        "memory_mb": st.sampled_from([1, 256, 500, 512, 2048]),
        "root_gb": st.integers(0, 400),
    }
)


@contextmanager
def looked(services, **fields):
    """Give the run of a request that asks for every candidate."""
    scheduler = services.scheduler
    request = scheduler.reader.validate(scheduler.reader.read(spec(**fields)))
    with services.database.read() as connection:
        seed = DecisionSeed.drawn(scheduler.random)
        yield scheduler.prepare_run(connection, request, seed, unlimited=True)


def counted(app, **fields):
    """Return all that is counted, by node."""
    doubts = []
    with looked(app.app.services, **fields) as run:
        ledgers, are_apart = count_hosts(run, Deadline.after(0), doubts)
    assert (doubts, are_apart) == ([], True)
    return {one.uuid: (one.instances, one.stop, one.left, one.free) for one in ledgers}


@EXAMPLES
@given(seed=st.integers(0, 2**32), sizes=SIZES)
def test_filling_a_host_comes_to_what_placing_one_by_one_does(on_new, seed, sizes):
    """A filter that looks at the instances of a host is asked before each."""
    reports = list(drawn_hosts(Random(seed)).values())
    fields = {"flavor": flavor(**sizes)}
    filled = on_new(filter_scheduler__enabled_filters=PLAIN)
    by_rounds = on_new(
        filter_scheduler__enabled_filters=[*PLAIN, "NumInstancesFilter"],
        filter_scheduler__max_instances_per_host=10_000,
    )
    for app in (filled, by_rounds):
        app.post_json(NODES, reports)
    assert counted(filled, **fields) == counted(by_rounds, **fields)


@EXAMPLES
@given(seed=st.integers(0, 2**32), flavors=st.lists(SIZES, min_size=2, max_size=4))
def test_flavors_of_one_question_are_counted_as_each_alone(on_new, seed, flavors):
    """Also where one of them is placed virtually between the others."""
    random = Random(seed)
    app = on_new(filter_scheduler__enabled_filters=LOOKING, pci__alias=[GPU])
    reports = drawn_hosts(random)
    app.post_json(NODES, list(reports.values()))
    in_zone(app, "az1", *random.sample(sorted(reports), random.randint(1, len(reports))))
    extra = [{}, {"hw:numa_nodes": "1"}, {"pci_passthrough:alias": "gpu:1"}]
    several = [flavor(**sizes, extra_specs=random.choice(extra)) for sizes in flavors]
    per = random.choice(["zone", "host", "aggregate", "cell"])
    body = {"request_spec": {"project_id": "p1"}, "flavors": several, "per": per}
    together = app.post_json(CAPACITY, body).json["flavors"]
    alone = [asked(app, question={"per": per}, flavor=one) for one in several]
    assert [{**one, "flavor": "m1"} for one in alone] == together


@pytest.mark.parametrize("in_memory", [False, True], ids=["from_database", "in_memory"])
def test_flavors_are_counted_on_every_database(database_url, log_of_changes, make_app, in_memory):
    """The reasons of hosts without room come from columns, too."""
    settings = make_settings(database_url, placement__providers_in_memory=in_memory)
    app = make_app(settings, in_memory=in_memory)
    hosts = [report("cn1", memory_mb=4096), report("cn2", vcpus=1), report("cn3", memory_mb=512)]
    app.post_json(NODES, hosts)
    in_zone(app, "az1", "cn1", "cn3")
    body = {
        "request_spec": {"availability_zone": "az1"},
        "flavors": [flavor(), flavor(vcpus=2, memory_mb=512), flavor(memory_mb=131072)],
    }
    for _ in range(2):  # the second time all that is remembered is there
        answers = app.post_json(CAPACITY, body).json["flavors"]
        assert [one["capacity"] for one in answers] == [4, 8 + 1, 0]
        assert [
            {one["reason"]: one["hosts"] for one in each["limited_by"]} for each in answers
        ] == [{"MEMORY_MB": 2, "member_of": 1}, {"MEMORY_MB": 2, "VCPU": 1}, {"MEMORY_MB": 3}]


def test_amounts_beyond_what_columns_hold_are_counted_exactly(sqlite_app):
    sqlite_app.post_json(NODES, [report("cn1"), report("cn2")])
    sqlite_app.put("/placement/resource_classes/CUSTOM_BYTES", headers=LATEST_HEADERS)
    for name in ("cn1", "cn2"):
        url = f"{PROVIDERS}/{report(name)['uuid']}"
        found = sqlite_app.get(f"{url}/inventories", headers=LATEST_HEADERS).json
        stock = {"total": 2**31 - 1, "allocation_ratio": 1e8}
        found["inventories"] |= {"CUSTOM_BYTES": stock}
        sqlite_app.put_json(f"{url}/inventories", found, headers=LATEST_HEADERS)
    wanted = {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}
    extra = {**wanted, "resources:CUSTOM_BYTES": "1"}
    answer = asked(sqlite_app, question={"per": "host"}, flavor=flavor(extra_specs=extra))
    assert answer["capacity"] == 2 * int((2**31 - 1) * 1e8)
    assert [one["capacity"] for one in answer["per"]] == 2 * [int((2**31 - 1) * 1e8)]
