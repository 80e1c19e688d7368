# SPDX-License-Identifier: Apache-2.0
"""What is least to change for a request that found no host: each sentence is true of real runs."""

import logging
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement_sched.operations import aggregates
from tests.conftest import make_settings
from tests.scheduler.test_scheduler import explain, select
from tests.support.clouds import NOW, uuid_of
from tests.support.scheduling import flavor, report, spec
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.slow

#: The sentence about one host that has stopped reporting.
SILENT = r"cn4 would fit, but its nova-compute last reported \d+ years ago"
OLD = "2020-01-01T00:00:00Z"
LICENSED = "CUSTOM_LICENSED_WINDOWS"
ISOLATING = {"scheduler.enable_isolated_aggregate_filtering": True}


def would_fit(app, request, **more):
    return explain(app, request, **more)["funnel"].get("would_fit", [])


def passed(app, request, **more):
    return sorted(one["host"] for one in explain(app, request, **more)["hosts"])


@pytest.fixture
def cloud(sqlite_app):
    """Six hosts with 16 to 48 GB; cn5 and cn6 in win-lic, cn4 silent."""
    sizes = {"cn1": 16384, "cn2": 32768, "cn3": 32768, "cn4": 49152, "cn5": 49152, "cn6": 49152}
    reports = [
        report(name, memory_mb=size, **({"last_seen_up": OLD} if name == "cn4" else {}))
        for name, size in sizes.items()
    ]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    sqlite_app.put(f"/placement/traits/{LICENSED}", headers=LATEST_HEADERS)

    def make(connection):
        made = aggregates.create(connection, uuid_of("win-lic"), "win-lic", None, NOW)
        aggregates.set_metadata(connection, made.id, {f"trait:{LICENSED}": "required"}, NOW)
        aggregates.add_hosts(connection, made.id, ["cn5", "cn6"], NOW)

    sqlite_app.app.services.database.write(make)
    return sqlite_app


def test_the_amount_named_is_the_largest_that_any_host_is_selected_for(cloud):
    """cn4 has most memory and is silent: it is not counted."""
    (one,) = would_fit(cloud, spec(flavor=flavor(memory_mb=65536), ignore_hosts=["cn5", "cn6"]))
    assert one["words"] == "2 hosts would fit with MEMORY_MB:32768 instead of 65536"
    assert (one["hosts"], one["exact"], one["examples"]) == (2, True, ["cn2", "cn3"])
    assert one["change"]["amount"] == 32768


def test_the_amount_is_the_same_on_every_database_and_obeys_step_size(app):
    """cn1 has steps of 1000 and room for 15; cn2 has less; both have something in use."""
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    for name, total, step in (("cn1", 15500, 1000), ("cn2", 14999, 1)):
        provider = f"/placement/resource_providers/{uuid_of(name)}"
        generation = app.get(provider, headers=LATEST_HEADERS).json["generation"]
        body = {"resource_provider_generation": generation, "total": total, "step_size": step}
        app.put_json(f"{provider}/inventories/MEMORY_MB", body, headers=LATEST_HEADERS)
    select(app, spec(force_hosts=["cn1"], flavor=flavor(memory_mb=1000)))
    (one,) = would_fit(app, spec(flavor=flavor(memory_mb=20000)))
    assert one["words"] == "cn2 would fit with MEMORY_MB:14999 instead of 20000"
    (one,) = would_fit(app, spec(flavor=flavor(memory_mb=20000), force_hosts=["cn1"]))
    assert one["words"] == "cn1 would fit with MEMORY_MB:14000 instead of 20000"


def test_hosts_of_reserved_aggregates_are_named_with_the_trait_that_opens_them(cloud):
    wanted = spec(flavor=flavor(memory_mb=40000))
    found = [one["words"] for one in would_fit(cloud, wanted, overrides=ISOLATING)]
    reserved, amount, silent = found
    assert amount == "2 hosts would fit with MEMORY_MB:32768 instead of 40000"
    assert reserved == f"2 hosts fit but are in win-lic, which needs trait {LICENSED}"
    assert re.fullmatch(SILENT, silent)
    assert passed(cloud, wanted) == ["cn5", "cn6"]


def test_a_single_host_that_a_filter_rejects_is_named_with_the_reason(cloud):
    wanted = spec(flavor=flavor(memory_mb=40000), ignore_hosts=["cn5", "cn6"])
    words = [one["words"] for one in would_fit(cloud, wanted)]
    assert any(re.fullmatch(SILENT, one) for one in words)
    silent = next(one for one in would_fit(cloud, wanted) if one["words"].startswith("cn4"))
    assert silent["change"]["action"] == "report_in"
    cloud.post_json("/scheduler/v1/compute_nodes", [report("cn4", memory_mb=49152)])
    assert passed(cloud, wanted) == ["cn4"]


def test_a_request_that_finds_a_host_has_no_sentences(cloud):
    assert "would_fit" not in explain(cloud, spec())["funnel"]


def test_a_selection_asks_for_no_sentences(cloud):
    answer = select(cloud, spec(flavor=flavor(memory_mb=65536)), status=409)
    assert "would_fit" not in answer["errors"][0]["funnel"]


def test_in_trees_the_amount_is_that_of_a_provider_that_serves(cloud):
    child = {"name": "pci", "parent_provider_uuid": uuid_of("cn1")}
    cloud.post_json("/placement/resource_providers", child, headers=LATEST_HEADERS)
    (one,) = would_fit(cloud, spec(flavor=flavor(memory_mb=65536), ignore_hosts=["cn5", "cn6"]))
    assert one["words"] == "2 hosts would fit with MEMORY_MB:32768 instead of 65536"


def test_what_the_search_counts_is_not_said_to_fit(cloud):
    """The silent cn4 meets the constraints of the search, and fits for no request."""
    funnel = explain(cloud, spec(flavor=flavor(vcpus=17)))["funnel"]
    assert funnel["obstacle"]["reason"] == "6 hosts meet all constraints but resources VCPU:17"
    assert [one["words"] for one in funnel["would_fit"]] == [
        "5 hosts would fit with VCPU:16 instead of 17"
    ]


def test_an_explanation_of_single_hosts_leaves_the_rest_of_the_cloud_alone(cloud):
    """Its verdicts say what would have to change; the counts of the stages are those of the run."""
    wanted = spec(flavor=flavor(memory_mb=65536))
    whole, single = explain(cloud, wanted), explain(cloud, wanted, hosts=["cn1"])
    assert whole["funnel"]["would_fit"]
    assert "would_fit" not in single["funnel"]
    assert single["funnel"]["obstacle"] == whole["funnel"]["obstacle"]
    counts = [
        [(one["before"], one["after"]) for one in each["funnel"]["allocation_candidates"]["steps"]]
        for each in (single, whole)
    ]
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"memory_mb": 65536}, "2 hosts would fit with MEMORY_MB:32768 instead of 65536"),
        ({"vcpus": 17}, "3 hosts would fit with VCPU:16 instead of 17"),
        ({"root_gb": 5000}, "3 hosts would fit with DISK_GB:1000 instead of 5000"),
        (
            {"root_gb": 4000, "ephemeral_gb": 900, "swap": 102400},
            "3 hosts would fit with DISK_GB:1000 instead of 5000",
        ),
    ],
    ids=["RamFilter", "CoreFilter", "DiskFilter", "DiskFilter and all disks"],
)
def test_filters_that_go_by_the_flavor_see_the_amount_that_is_named(cloud, asked, words):
    """They are asked for the flavor with that amount, as the request would be."""
    filters = ["ComputeFilter", "RamFilter", "CoreFilter", "DiskFilter"]
    overrides = {"filter_scheduler.enabled_filters": filters}
    wanted = spec(flavor=flavor(**asked), ignore_hosts=["cn5", "cn6"])
    (one,) = would_fit(cloud, wanted, overrides=overrides)
    assert one["words"] == words
    name, change = one["change"]["resource_class"], one["change"]
    part = {"MEMORY_MB": "memory_mb", "VCPU": "vcpus", "DISK_GB": "root_gb"}[name]
    for more, hosts in ((0, one["hosts"]), (1, 0)):
        amount = change["amount"] + more
        if name == "DISK_GB":
            changed = {**asked, "root_gb": amount, "ephemeral_gb": 0, "swap": 0}
        else:
            changed = {**asked, part: amount}
        assert len(passed(cloud, {**wanted, "flavor": flavor(**changed)})) == hosts


#: What every sentence is made of.
_HOST = r"(?:cn\d|\d+ hosts)"
_SO = (
    r"(?:the request asks to ignore (?:it|them)"
    r"|its nova-compute last reported \d+ \w+ ago"
    r"|their nova-compute last reported over \d+ s ago)"
)
SENTENCE = (
    rf"{_HOST} (?:would fit with [A-Z_]+:\d+ instead of \d+"
    rf"|would fit(?: without [A-Z_]+:\d+(?:(?:, [A-Z_]+:\d+)* and [A-Z_]+:\d+)?)?"
    rf"(?:, but {_SO}(?:(?:, {_SO})* and {_SO})?)?)"
)

SIZES = st.lists(st.sampled_from((4096, 8192, 12000, 16384, 30000)), min_size=6, max_size=6)
SUBSETS = st.sets(st.sampled_from(range(6)), max_size=3)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(sizes=SIZES, silent=SUBSETS, reserved=SUBSETS, asked=st.sampled_from((9000, 16384, 65536)))
def test_every_sentence_is_exact_and_minimal(sqlite_app, sizes, silent, reserved, asked):
    """Held against real runs with the change made, and with one unit more."""
    app = sqlite_app
    names = [f"cn{at}" for at in range(6)]
    reports = [
        report(name, memory_mb=size, **({"last_seen_up": OLD} if at in silent else {}))
        for at, (name, size) in enumerate(zip(names, sizes, strict=True))
    ]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    wanted = spec(flavor=flavor(memory_mb=asked), ignore_hosts=[names[at] for at in reserved])
    answer = explain(app, wanted)
    fits = {
        name
        for at, (name, size) in enumerate(zip(names, sizes, strict=True))
        if size >= asked and at not in silent and at not in reserved
    }
    assert {one["host"] for one in answer["hosts"]} == fits
    sentences = answer["funnel"].get("would_fit", [])
    if fits:
        assert sentences == []
        return
    for one in sentences:
        assert re.fullmatch(SENTENCE, one["words"])
        assert one["words"].startswith("cn") == (one["hosts"] == 1)
        stages = [each["name"] for each in one["without"]]
        if "amount" in (one["change"] or {}):
            amount = one["change"]["amount"]
            assert len(passed(app, {**wanted, "flavor": flavor(memory_mb=amount)})) == one["hosts"]
            assert passed(app, {**wanted, "flavor": flavor(memory_mb=amount + 1)}) == []
        elif stages == ["ComputeFilter"]:
            overrides = {"filter_scheduler.enabled_filters": ["ImagePropertiesFilter"]}
            assert len(passed(app, wanted, overrides=overrides)) == one["hosts"]
        elif stages == ["ignore_hosts"]:
            assert len(passed(app, {**wanted, "ignore_hosts": []})) == one["hosts"]
    # Where changing one thing is enough for a host, no sentence names two.
    enough = any(
        (size < asked) + (at in silent) + (at in reserved) == 1 for at, size in enumerate(sizes)
    )
    assert enough == (bool(sentences) and len(sentences[0]["without"]) == 1)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    sizes=SIZES,
    silent=SUBSETS,
    ignored=SUBSETS,
    asked=st.sampled_from((9000, 16384, 65536)),
    vcpus=st.sampled_from((1, 17)),
)
def test_each_host_is_accounted_for_once_and_each_reason_is_true(
    sqlite_app, sizes, silent, ignored, asked, vcpus
):
    """Held against predicates of their own, which know nothing of the search and the filters."""
    names = [f"cn{at}" for at in range(6)]
    reports = [
        report(name, memory_mb=size, **({"last_seen_up": OLD} if at in silent else {}))
        for at, (name, size) in enumerate(zip(names, sizes, strict=True))
    ]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    wanted = spec(
        flavor=flavor(memory_mb=asked, vcpus=vcpus), ignore_hosts=[names[at] for at in ignored]
    )
    answer = explain(sqlite_app, wanted, hosts=names, max_rejected=0)
    predicates = {
        f"resources MEMORY_MB:{asked}": lambda at: sizes[at] < asked,
        f"resources VCPU:{vcpus}": lambda _at: vcpus > 16,
        "ignore_hosts": lambda at: at in ignored,
        "ComputeFilter": lambda at: at in silent,
    }
    for at, one in enumerate(answer["verdicts"]):
        true = {name for name, holds in predicates.items() if holds(at)}
        assert {reason["name"] for reason in one["reasons"]} == true
        assert one["verdict"] == ("rejected" if true else "passed")
        assert one["would_pass"] is (True if true else None)
        assert {name for name in true if name in {s["name"] for s in answer["stages"]}} == true
    funnel = answer["funnel"]
    stages = [*funnel["allocation_candidates"]["steps"], *funnel["filters"]]
    rejected = [entry["host"] for stage in stages for entry in stage["rejected"]]
    assert sorted([*rejected, *(one["host"] for one in answer["hosts"])]) == names


@pytest.mark.parametrize(("asked", "words"), [({}, None), ({"hosts": ["cn1"]}, "not evaluated")])
def test_failure_of_a_filter_that_the_run_did_not_reach_is_no_error(
    make_app, sqlite_url, caplog, asked, words
):
    app = make_app(make_settings(sqlite_url, filter_scheduler__enabled_filters=["JsonFilter"]))
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    wrong = spec(ignore_hosts=["cn1"], scheduler_hints={"query": '["<", "$host", 5]'})
    caplog.set_level(logging.DEBUG)
    answer = explain(app, wrong, **asked)
    assert words is None or words in str(answer)
    ours = [one for one in caplog.records if "JsonFilter failed" in one.getMessage()]
    assert {one.levelname for one in ours} == {"DEBUG"}
