# SPDX-License-Identifier: Apache-2.0
"""OpenStack's placement and ours say the same, but for what is explained."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.differential.exchange import Reply, Request, request_from
from tests.differential.explained import EXPLANATIONS, Seen, explain
from tests.differential.sides import Ours, Peer

pytestmark = pytest.mark.system

CASES_FOLDER = Path(__file__).parent / "cases"
CASES = sorted(CASES_FOLDER.glob("*.json"))
DOCUMENTED = Path(__file__).resolve().parents[2] / "doc" / "source" / "differences.rst"

#: ``make test-only WHAT=differential`` runs many more.
SEED, REQUESTS, QUESTIONS = 2026, 500, 100


def history_of(path):
    return [request_from(kept) for kept in json.loads(path.read_text())]


def with_candidates(reply, candidates):
    body = json.dumps({**reply.document, "allocation_requests": candidates}).encode()
    return replace(reply, body=body, headers={**reply.headers, "content-length": str(len(body))})


def test_random_requests_are_answered_alike(duel):
    tally = duel.run(SEED, REQUESTS)
    assert tally.asked == REQUESTS
    assert tally.findings == []
    assert {200, 204, 400, 404, 409} <= tally.seen.keys()


def test_all_candidates_are_those_of_a_naive_search_and_of_the_peer(candidates):
    tally = candidates.run(SEED, QUESTIONS)
    assert tally.asked == QUESTIONS
    assert tally.findings == []
    assert tally.seen["served"] > QUESTIONS / 4


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_once_differed_is_answered_alike(duel, path):
    assert [left for left in duel.replay(history_of(path)) if left] == []


def test_a_difference_that_is_not_meant_is_found(duel, monkeypatch):
    seen = Seen(Request("GET", "/"), Reply(200, {}, b"{}"), Reply(404, {}, b""), None, None)
    assert explain(seen, {"status": (200, 404)}) == ([], {"status": (200, 404)})


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
def test_a_candidate_that_we_lose_is_found_whatever_the_peer_does(duel, monkeypatch, case):
    dropped = []

    def lossy(side, request):
        reply = honest(side, request)
        if request.path != "/allocation_candidates" or not reply.document["allocation_requests"]:
            return reply
        dropped.append(request)
        return with_candidates(reply, reply.document["allocation_requests"][1:])

    honest = Ours.ask
    monkeypatch.setattr(Ours, "ask", lossy)
    found = [left for left in duel.replay(history_of(CASES_FOLDER / f"{case}.json")) if left]
    assert len(found) == len(dropped) > 0


def test_a_candidate_that_the_peer_makes_up_is_found_whomever_it_lets_in(duel, monkeypatch):
    forbidden = "a0000000-0000-4000-8000-000000000001"
    made_up = set()

    def inventive(side, request):
        reply = honest(side, request)
        if request.path != "/allocation_candidates" or reply.status != 200:
            return reply
        candidates = reply.document["allocation_requests"]
        text = json.dumps(candidates[0])
        for uuid in candidates[0]["allocations"]:
            text = text.replace(uuid, forbidden)
        made_up.add(request.target)
        return with_candidates(reply, [*candidates, json.loads(text)])

    honest = Peer.ask
    monkeypatch.setattr(Peer, "ask", inventive)
    history = history_of(CASES_FOLDER / "sharer-whose-root-is-forbidden.json")
    steps = list(zip(history, duel.replay(history), strict=False))
    assert made_up
    assert [one for one, left in steps if one.target in made_up and not left] == []


@pytest.mark.parametrize("explanation", EXPLANATIONS, ids=lambda one: one.name)
def test_what_is_explained_is_documented(explanation):
    words = " ".join(DOCUMENTED.read_text().replace("``", "").split())
    assert explanation.name.replace("``", "").casefold() in words.casefold()
    assert " ".join(explanation.reason.replace("``", "").split()) in words
