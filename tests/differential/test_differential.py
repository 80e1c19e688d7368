# SPDX-License-Identifier: Apache-2.0
"""Responses of OpenStack's placement equal ours, or the difference is explained."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.differential.exchange import Reply, Request, build_request_from_json
from tests.differential.explained import ResponsePair, explain_differences
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement

pytestmark = pytest.mark.system

CASES_FOLDER = Path(__file__).parent / "cases"
CASE_FILES = sorted(CASES_FOLDER.glob("*.json"))

#: ``make test-only WHAT=differential`` runs more requests.
RANDOM_SEED, REQUEST_COUNT, QUERY_COUNT = 2026, 500, 100


def load_requests(path):
    return [build_request_from_json(saved) for saved in json.loads(path.read_text())]


def build_reply_with_candidates(reply, candidates):
    body = json.dumps({**reply.document, "allocation_requests": candidates}).encode()
    return replace(reply, body=body, headers={**reply.headers, "content-length": str(len(body))})


def test_random_requests_get_equal_or_explained_responses(comparison):
    tally = comparison.run_random_cases(RANDOM_SEED, REQUEST_COUNT)
    assert tally.count == REQUEST_COUNT
    assert tally.findings == []
    assert {200, 204, 400, 404, 409} <= tally.coverage.keys()


def test_candidates_equal_the_naive_search_and_the_peer(candidates_comparison):
    tally = candidates_comparison.run_random_cases(RANDOM_SEED, QUERY_COUNT)
    assert tally.count == QUERY_COUNT
    assert tally.findings == []
    assert tally.coverage["served"] > QUERY_COUNT / 4


@pytest.mark.parametrize("path", CASE_FILES, ids=lambda path: path.stem)
def test_saved_differences_are_equal_or_explained(comparison, path):
    assert list(filter(None, comparison.replay_history(load_requests(path)))) == []


def test_comparison_reports_an_unexplained_difference(comparison, monkeypatch):
    responses = ResponsePair(
        Request("GET", "/"), Reply(200, {}, b"{}"), Reply(404, {}, b""), None, None
    )
    assert explain_differences(responses, {"status": (200, 404)}) == ([], {"status": (200, 404)})


@pytest.mark.parametrize(
    "case",
    [
        "amounts-that-pile-up",
        "candidates-lost-where-providers-share",
        "group-without-resources",
        "limit-and-summaries-before-trees",
        "sharer-that-only-a-mapping-names",
        "sharer-whose-root-is-forbidden",
    ],
)
def test_candidate_missing_in_our_response_is_always_reported_as_unexplained(
    comparison, monkeypatch, case
):
    dropped = []

    def drop_candidate(side, request):
        reply = original(side, request)
        if request.path != "/allocation_candidates" or not reply.document["allocation_requests"]:
            return reply
        dropped.append(request)
        return build_reply_with_candidates(reply, reply.document["allocation_requests"][1:])

    original = OwnPlacement.send_request
    monkeypatch.setattr(OwnPlacement, "send_request", drop_candidate)
    history = load_requests(CASES_FOLDER / f"{case}.json")
    found = list(filter(None, comparison.replay_history(history)))
    assert len(found) == len(dropped) > 0


def test_wrong_candidate_in_the_peer_response_is_always_reported_as_unexplained(
    comparison, monkeypatch
):
    forbidden = "a0000000-0000-4000-8000-000000000001"
    changed = set()

    def add_candidate(side, request):
        reply = original(side, request)
        if request.path != "/allocation_candidates" or reply.status != 200:
            return reply
        candidates = reply.document["allocation_requests"]
        text = json.dumps(candidates[0])
        for uuid in candidates[0]["allocations"]:
            text = text.replace(uuid, forbidden)
        changed.add(request.target)
        return build_reply_with_candidates(reply, [*candidates, json.loads(text)])

    original = OpenStackPlacementPeer.send_request
    monkeypatch.setattr(OpenStackPlacementPeer, "send_request", add_candidate)
    history = load_requests(CASES_FOLDER / "sharer-whose-root-is-forbidden.json")
    steps = list(zip(history, comparison.replay_history(history), strict=False))
    assert changed
    assert [request for request, found in steps if request.target in changed and not found] == []
