"""OpenStack's placement and ours say the same, but for what is explained."""

import json
from pathlib import Path

import pytest

from tests.differential.exchange import Reply, Request, request_from
from tests.differential.explained import EXPLANATIONS, Seen, explain

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
DOCUMENTED = Path(__file__).resolve().parents[2] / "doc" / "source" / "differences.rst"

#: ``make differential`` runs many more.
SEED, REQUESTS = 2026, 500


def test_random_requests_are_answered_alike(duel):
    tally = duel.run(SEED, REQUESTS)
    assert tally.requests == REQUESTS
    assert tally.findings == []
    assert {200, 204, 400, 404, 409} <= tally.statuses.keys()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_once_differed_is_answered_alike(duel, path):
    history = [request_from(kept) for kept in json.loads(path.read_text())]
    assert [left for left in duel.replay(history) if left] == []


def test_a_difference_that_is_not_meant_is_found(duel, monkeypatch):
    seen = Seen(Request("GET", "/"), Reply(200, {}, b"{}"), Reply(404, {}, b""), None, None)
    assert explain(seen, {"status": (200, 404)}) == ([], {"status": (200, 404)})


@pytest.mark.parametrize("explanation", EXPLANATIONS, ids=lambda one: one.name)
def test_what_is_explained_is_documented(explanation):
    words = " ".join(DOCUMENTED.read_text().split())
    assert explanation.name.casefold() in words.casefold()
    assert " ".join(explanation.reason.split()) in words
