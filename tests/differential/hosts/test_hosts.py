# SPDX-License-Identifier: Apache-2.0
"""Verdicts and weights of nova's filters and weighers equal ours, or are explained."""

import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from placement_sched.scheduler.filters import all_filters
from placement_sched.scheduler.weights import all_weighers
from tests.differential.generate.random_values import RandomSource
from tests.differential.hosts.case import FILTERS, UNCOMPARED_PLUGINS, WEIGHERS, HostsCase
from tests.differential.hosts.comparison import HostsComparison
from tests.differential.hosts.differences import find_differences
from tests.differential.hosts.explained import EXPLANATIONS, HostResults, explain_differences
from tests.differential.hosts.generate.cases import random_case
from tests.differential.hosts.sides import HostsResult

pytestmark = pytest.mark.system
COMPARISON = HostsComparison

CASES_FOLDER = Path(__file__).parent / "cases"
CASE_FILES = sorted(CASES_FOLDER.glob("*.json"))

#: ``make test-only WHAT=differential`` runs more cases.
RANDOM_SEED, CASE_COUNT = 2026, 150
#: Filters that reject no host.
FILTERS_WITHOUT_REJECTION = {"AllHostsFilter"}


def load_case(path):
    return HostsCase.from_saved_json(json.loads(path.read_text()))


@pytest.fixture(scope="module")
def case_with_equal_results(our_side, peer_side):
    """Return a case with several rounds and equal results, and the result."""
    rng = RandomSource(Random(RANDOM_SEED))
    cases = (random_case(rng) for _ in range(CASE_COUNT))
    results = ((case, peer_side.run_plugins_for_case(case)) for case in cases if case.chain)
    return next(
        (case, result)
        for case, result in results
        if len(result.weighed) > 2
        and len(result.rounds) > 1
        and len(result.rounds[-1]["left"]) > 1
        and "instance_group" not in case.request_spec
        and not isinstance(result.chain, str)
        and not isinstance(result.weights, str)
        and find_differences(case, our_side.run_plugins_for_case(case, result), result) == {}
    )


def test_random_hosts_get_equal_or_explained_verdicts_and_weights(comparison):
    tally = comparison.run_random_cases(RANDOM_SEED, CASE_COUNT)
    assert tally.count == CASE_COUNT
    assert [finding.case.to_saved_json() for finding in tally.findings] == []
    verdicts = {(name, verdict) for name in FILTERS for verdict in ("passes", "rejects")}
    assert verdicts - tally.coverage.keys() == {
        (name, "rejects") for name in FILTERS_WITHOUT_REJECTION
    }
    assert {name for name in WEIGHERS if not tally.coverage[name, "separates"]} == set()
    assert tally.coverage["later instances"] > CASE_COUNT * 0.2


@pytest.mark.parametrize("path", CASE_FILES, ids=lambda path: path.stem)
def test_saved_differences_are_equal_or_explained(comparison, path):
    _, _, left = comparison.compare_responses(load_case(path))
    assert left == {}


@pytest.mark.parametrize("explanation", EXPLANATIONS)
def test_every_explanation_has_a_saved_case_that_only_it_explains(comparison, explanation):
    path = CASES_FOLDER / f"{re.sub(r'[^A-Za-z0-9_]+', '-', explanation).strip('-')}.json"
    results, names, left = comparison.compare_responses(load_case(path))
    assert (names, left) == ([explanation], {}), (results.ours, results.theirs)


def test_every_nova_plugin_is_compared_or_listed_as_missing(peer_side):
    classes = peer_side.list_plugin_classes()
    assert sorted((*classes["filters"], *classes["weighers"])) == sorted(
        (*FILTERS, *WEIGHERS, *UNCOMPARED_PLUGINS)
    )


def test_every_compared_plugin_exists():
    here = {kind.__name__ for kind in (*all_filters(), *all_weighers())}
    assert {*FILTERS, *WEIGHERS} - here == set()


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("wrong", ["inverted", "fails: oops", "rejects: no"])
def test_comparison_detects_a_wrong_verdict(case_with_equal_results, name, wrong):
    case, result = case_with_equal_results
    first, *others = result.filters[name]
    verdicts = [not first if wrong == "inverted" else wrong, *others]
    ours = replace(result, filters={**result.filters, name: verdicts})
    assert ("filter", name, case.format_host_and_node(0)) in find_unexplained_differences(
        case, ours, result
    )


@pytest.mark.parametrize("name", WEIGHERS)
@pytest.mark.parametrize("kind", ["raw", "multipliers", "normalized"])
@pytest.mark.parametrize(("by", "found"), [(1.0, True), (1e-7, True), (1e-13, False)])
def test_comparison_detects_a_wrong_weight(case_with_equal_results, name, kind, by, found):
    case, result = case_with_equal_results
    weights = result.weighers[name]
    first, *others = weights[kind]
    changed = {**weights, kind: [first + by * max(1.0, abs(first)), *others]}
    ours = replace(result, weighers={**result.weighers, name: changed})
    aspect = (kind, name, case.format_host_and_node(result.weighed[0]))
    assert (aspect in find_unexplained_differences(case, ours, result)) == found


@pytest.mark.parametrize("name", WEIGHERS)
def test_comparison_detects_a_failing_weigher(case_with_equal_results, name):
    case, result = case_with_equal_results
    ours = replace(result, weighers={**result.weighers, name: "fails: oops"})
    assert ("weigher", name, "") in find_unexplained_differences(case, ours, result)


def test_comparison_detects_a_wrong_result_of_the_filter_chain(case_with_equal_results):
    case, result = case_with_equal_results
    ours = replace(result, chain=[place for place in result.chain if place] or [0])
    assert ("our chain", "", "") in find_unexplained_differences(case, ours, result)


def test_comparison_detects_a_wrong_sum_or_order_of_weights(case_with_equal_results):
    case, result = case_with_equal_results
    (best, most), *others = result.weights
    heavier = replace(result, weights=[[best, most + 1.0], *others])
    assert ("our weights", "", "") in find_unexplained_differences(case, heavier, result)
    reversed_order = replace(result, weights=result.weights[::-1])
    assert ("order", "", "") in find_unexplained_differences(case, reversed_order, result)
    incomplete = replace(result, weights=others)
    assert ("our weights", "", "") in find_unexplained_differences(case, incomplete, result)


def test_comparison_detects_wrong_hosts_or_weights_of_a_later_instance(case_with_equal_results):
    case, result = case_with_equal_results
    *earlier, last = result.rounds
    (best, most), *others = last["weights"]
    number = str(len(earlier))
    for changed in (
        {**last, "left": last["left"][1:]},
        {**last, "weights": [[best, most + 1.0], *others]},
    ):
        ours = replace(result, rounds=[*earlier, changed])
        assert list(find_unexplained_differences(case, ours, result)) == [("instance", number, "")]
    ours = replace(result, rounds=earlier)
    assert list(find_unexplained_differences(case, ours, result)) == [("instances", "", "")]


def test_only_our_side_must_order_equal_weights_by_name():
    report = {"hypervisor_hostname": "n"}
    hosts = tuple({"report": {**report, "host": name}} for name in ("b", "a"))
    case = HostsCase(hosts=hosts, request_spec={})
    result = HostsResult({"AllHostsFilter": [True, True]}, [0, 1], [0, 1], {}, [])
    by_name = replace(result, weights=[[1, 0.0], [0, 0.0]])
    by_place = replace(result, weights=[[0, 0.0], [1, 0.0]])
    assert find_differences(case, by_name, by_place) == {}
    assert list(find_differences(case, by_place, by_name)) == [("order", "", "")]


def find_unexplained_differences(case, ours, theirs):
    found = find_differences(case, ours, theirs)
    return explain_differences(HostResults(case, ours, theirs), found)[1]
