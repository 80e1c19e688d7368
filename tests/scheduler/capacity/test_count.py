# SPDX-License-Identifier: Apache-2.0
"""Counts of capacity by filling hosts, compared with counts in rounds."""

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
from tests.scheduler.capacity.placements import CAPACITY, read_capacity
from tests.scheduler.capacity.test_capacity_equals_placements import (
    ALL_FILTERS,
    FAST,
    GPU,
    NODES,
    draw_hosts,
)
from tests.scheduler.capacity.test_report import make_zone
from tests.scheduler.providers import PROVIDERS, share_pool
from tests.support.scheduling import flavor, instance, report, spec
from tests.support.versions import LATEST_HEADERS

EXAMPLES = examples(
    max_examples=draws(15), suppress_health_check=[HealthCheck.function_scoped_fixture]
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
def prepare_run(services, **fields):
    """Yield the run of a request without a limit of candidates."""
    scheduler = services.scheduler
    request = scheduler.reader.validate(scheduler.reader.read(spec(**fields)))
    with services.database.read() as connection:
        seed = DecisionSeed.drawn(scheduler.random)
        yield scheduler.prepare_run(connection, request, seed, unlimited=True)


def count_by_node(app, **fields):
    doubts = []
    with prepare_run(app.app.services, **fields) as run:
        counters, are_apart = count_hosts(run, Deadline.after(0), doubts)
    assert (doubts, are_apart) == ([], True)
    return {
        counter.uuid: (counter.instances, counter.stop, counter.open_candidates, counter.free)
        for counter in counters
    }


@EXAMPLES
@given(seed=st.integers(0, 2**32), sizes=SIZES)
def test_filling_a_host_equals_counting_in_rounds(make_new_app, seed, sizes):
    reports = list(draw_hosts(Random(seed)).values())
    fields = {"flavor": flavor(**sizes)}
    filled = make_new_app(filter_scheduler__enabled_filters=PLAIN)
    by_rounds = make_new_app(
        filter_scheduler__enabled_filters=[*PLAIN, "NumInstancesFilter"],
        filter_scheduler__max_instances_per_host=10_000,
    )
    for app in (filled, by_rounds):
        app.post_json(NODES, reports)
    assert count_by_node(filled, **fields) == count_by_node(by_rounds, **fields)


@EXAMPLES
@given(seed=st.integers(0, 2**32), flavors=st.lists(SIZES, min_size=2, max_size=4))
def test_count_of_several_flavors_equals_that_of_each(make_new_app, seed, flavors):
    random = Random(seed)
    app = make_new_app(filter_scheduler__enabled_filters=ALL_FILTERS, pci__alias=[GPU])
    reports = draw_hosts(random)
    app.post_json(NODES, list(reports.values()))
    make_zone(app, "az1", *random.sample(sorted(reports), random.randint(1, len(reports))))
    extra = [{}, {"hw:numa_nodes": "1"}, {"pci_passthrough:alias": "gpu:1"}]
    several = [flavor(**sizes, extra_specs=random.choice(extra)) for sizes in flavors]
    per = random.choice(["zone", "host", "aggregate", "cell"])
    body = {"request_spec": {"project_id": "p1"}, "flavors": several, "per": per}
    reports_together = app.post_json(CAPACITY, body).json["flavors"]
    reports_alone = [read_capacity(app, query={"per": per}, flavor=item) for item in several]
    assert [{**entry, "flavor": "m1"} for entry in reports_alone] == reports_together


@pytest.mark.parametrize("in_memory", [False, True], ids=["from_database", "in_memory"])
def test_flavors_are_counted_on_every_database(database_url, log_of_changes, make_app, in_memory):
    settings = make_settings(database_url, placement__providers_in_memory=in_memory)
    app = make_app(settings, in_memory=in_memory)
    hosts = [report("cn1", memory_mb=4096), report("cn2", vcpus=1), report("cn3", memory_mb=512)]
    app.post_json(NODES, hosts)
    make_zone(app, "az1", "cn1", "cn3")
    body = {
        "request_spec": {"availability_zone": "az1"},
        "flavors": [flavor(), flavor(vcpus=2, memory_mb=512), flavor(memory_mb=131072)],
    }
    for _ in range(2):  # the second count reads filled caches
        answers = app.post_json(CAPACITY, body).json["flavors"]
        assert [answer["capacity"] for answer in answers] == [4, 8 + 1, 0]
        assert [
            {entry["reason"]: entry["hosts"] for entry in item["limited_by"]} for item in answers
        ] == [{"MEMORY_MB": 2, "member_of": 1}, {"MEMORY_MB": 2, "VCPU": 1}, {"MEMORY_MB": 3}]


def test_large_amounts_are_counted_exactly(sqlite_app):
    sqlite_app.post_json(NODES, [report("cn1"), report("cn2")])
    sqlite_app.put("/placement/resource_classes/CUSTOM_BYTES", headers=LATEST_HEADERS)
    for name in ("cn1", "cn2"):
        url = f"{PROVIDERS}/{report(name)['uuid']}"
        result = sqlite_app.get(f"{url}/inventories", headers=LATEST_HEADERS).json
        capacity = {"total": 2**31 - 1, "allocation_ratio": 1e8}
        result["inventories"] |= {"CUSTOM_BYTES": capacity}
        sqlite_app.put_json(f"{url}/inventories", result, headers=LATEST_HEADERS)
    request = {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}
    extra = {**request, "resources:CUSTOM_BYTES": "1"}
    answer = read_capacity(sqlite_app, query={"per": "host"}, flavor=flavor(extra_specs=extra))
    assert answer["capacity"] == 2 * int((2**31 - 1) * 1e8)
    assert [entry["capacity"] for entry in answer["per"]] == 2 * [int((2**31 - 1) * 1e8)]


@pytest.mark.parametrize(("total", "reason"), [(7, "CUSTOM_FAST"), (100, "MEMORY_MB")])
def test_hosts_are_limited_by_their_pool_only_if_it_is_full(sqlite_app, total, reason):
    names = ["cn1", "cn2"]
    sqlite_app.post_json(NODES, [report(name, memory_mb=4096) for name in names])
    share_pool(sqlite_app, instance(1), instance(11), names, CUSTOM_FAST=total)
    answer = read_capacity(sqlite_app, **FAST)
    assert answer["limited_by"] == [{"reason": reason, "hosts": 2}]
