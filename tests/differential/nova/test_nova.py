# SPDX-License-Identifier: Apache-2.0
"""Candidates queries of nova equal the queries of our scheduler, or are explained."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.differential.nova.comparison import NovaComparison
from tests.differential.nova.differences import find_differences
from tests.differential.nova.explained import EXPLANATIONS, NovaResults, explain_differences
from tests.differential.nova.generate.cloud import Cloud
from tests.differential.nova.generate.requests import RequestCase, build_case_from_json
from tests.differential.nova.query import convert_query_to_document
from tests.differential.nova.sides import QueryResult

pytestmark = pytest.mark.system
COMPARISON = NovaComparison

CASES_FOLDER = Path(__file__).parent / "cases"
CASE_FILES = sorted(CASES_FOLDER.glob("*.json"))

#: ``make test-only WHAT=differential`` runs more requests.
RANDOM_SEED, REQUEST_COUNT = 2026, 300

SMALL_FLAVOR_CASE = RequestCase(
    Cloud(), {"flavor": {"vcpus": 1, "memory_mb": 1, "extra_specs": {}}}, {}
)


def test_random_requests_get_equal_or_explained_candidate_queries(comparison):
    tally = comparison.run_random_cases(RANDOM_SEED, REQUEST_COUNT)
    assert tally.count == REQUEST_COUNT
    assert [finding.case.to_saved_json() for finding in tally.findings] == []
    assert tally.coverage["query"] > REQUEST_COUNT * 0.6
    assert tally.coverage["rejected"] > REQUEST_COUNT * 0.1


@pytest.mark.parametrize("path", CASE_FILES, ids=lambda path: path.stem)
def test_saved_differences_are_equal_or_explained(comparison, path):
    _, _, left = comparison.compare_responses(build_case_from_json(json.loads(path.read_text())))
    assert left == {}


@pytest.mark.parametrize("explanation", EXPLANATIONS)
def test_every_explanation_has_a_saved_case_that_only_it_explains(comparison, explanation):
    path = CASES_FOLDER / f"{re.sub(r'[^A-Za-z0-9_]+', '-', explanation).strip('-')}.json"
    saved = json.loads(path.read_text())
    results, names, left = comparison.compare_responses(build_case_from_json(saved))
    assert (names, left) == ([explanation], {}), (results.ours, results.theirs)


@pytest.mark.parametrize(
    ("ours", "theirs", "aspects"),
    [
        (
            QueryResult("query", "resources=VCPU%3A1"),
            QueryResult("query", "resources=VCPU%3A2"),
            ["resources"],
        ),
        (
            QueryResult("query", "resources=VCPU%3A1"),
            QueryResult("rejected", reason="no"),
            ["verdict"],
        ),
        (
            QueryResult("rejected", reason="no"),
            QueryResult("query", "resources=VCPU%3A1"),
            ["verdict"],
        ),
        (QueryResult("failed", reason="oops"), QueryResult("rejected", reason="no"), ["verdict"]),
        (
            QueryResult("query", "limit=1"),
            QueryResult("query", "limit=1&required=CUSTOM_FAST"),
            ["required"],
        ),
    ],
    ids=["amount", "rejected by nova", "rejected by us", "failed", "lost trait"],
)
def test_comparison_reports_an_unexplained_difference(ours, theirs, aspects):
    found = find_differences(SMALL_FLAVOR_CASE, ours, theirs)
    assert list(found) == aspects
    assert explain_differences(
        NovaResults(SMALL_FLAVOR_CASE, ours, theirs, lambda _case: theirs), found
    ) == ([], found)


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", CASE_FILES, ids=lambda path: path.stem)
def test_failure_of_our_side_is_always_an_unexplained_difference(
    comparison, our_side, monkeypatch, path
):
    monkeypatch.setattr(our_side, "build_query", lambda _case: QueryResult("failed", reason="oops"))
    _, names, left = comparison.compare_responses(
        build_case_from_json(json.loads(path.read_text()))
    )
    assert (names, list(left)) == ([], ["verdict"])


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", CASE_FILES, ids=lambda path: path.stem)
def test_too_small_amount_in_our_query_is_always_an_unexplained_difference(
    comparison, our_side, monkeypatch, path
):
    def result_with_smaller_amount(case):
        result = original(case)
        return replace(result, query=result.query.replace("VCPU%3A2", "VCPU%3A1"))

    original = our_side.build_query
    monkeypatch.setattr(our_side, "build_query", result_with_smaller_amount)
    results, _, left = comparison.compare_responses(
        build_case_from_json(json.loads(path.read_text()))
    )
    comparable = results.ours.verdict == "query" and results.theirs.verdict != "no host"
    assert bool(left) == comparable


def test_comparison_detects_a_lost_trait_in_most_requests(comparison, our_side, monkeypatch):
    def result_without_trait(case):
        result = original(case)
        return replace(result, query=result.query.replace("root_required", "root_member"))

    original = our_side.build_query
    monkeypatch.setattr(our_side, "build_query", result_without_trait)
    tally = comparison.run_random_cases(RANDOM_SEED, 20)
    assert len(tally.findings) + tally.explained.total() >= tally.coverage["query"] > 10


@pytest.mark.parametrize(
    ("first", "second", "is_equal"),
    [
        ("resources=B%3A1%2CA%3A2", "resources=A%3A2%2CB%3A1", True),
        ("resources=&in_tree=x", "in_tree=x", True),
        ("member_of=in%3Ab%2Ca&member_of=c", "member_of=c&member_of=in%3Aa%2Cb", True),
        ("resources1=A%3A1", "resources2=A%3A1", False),
        ("resourcesr-0=A%3A1&resourcesr-1=B%3A1", "resourcesx=B%3A1&resourcesy=A%3A1", True),
        ("resourcesr-0=A%3A1&requiredr-0=T", "resourcesr-0=A%3A1&requiredr-1=T", False),
        ("root_required=A", "required=A", False),
        ("limit=1", "limit=2", False),
    ],
    ids=[
        "order of classes", "empty resources", "order of aggregates", "suffixes of the flavor",
        "suffixes of devices", "traits of another device", "root", "limit",
    ],
)  # fmt: skip
def test_only_equivalent_queries_compare_equal(first, second, is_equal):
    suffixes = {"1", "2"}
    documents = [convert_query_to_document(query, suffixes) for query in (first, second)]
    assert (documents[0] == documents[1]) == is_equal
