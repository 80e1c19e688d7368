# SPDX-License-Identifier: Apache-2.0
"""Nova's own functions and our scheduler ask placement the same, but for what is explained."""

import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.differential.generate.dice import Dice
from tests.differential.nova.compare import differences
from tests.differential.nova.explained import EXPLANATIONS, Seen, explain
from tests.differential.nova.generate.cloud import Cloud, cloud
from tests.differential.nova.generate.requests import Asked, asked_from, request
from tests.differential.nova.question import question_of
from tests.differential.nova.sides import Answer

pytestmark = pytest.mark.system

CASES_FOLDER = Path(__file__).parent / "cases"
CASES = sorted(CASES_FOLDER.glob("*.json"))
DOCUMENTED = Path(__file__).resolve().parents[3] / "doc" / "source" / "differences.rst"

#: ``make test-only WHAT=differential`` runs many more.
SEED, REQUESTS = 2026, 300

PLAIN = Asked(Cloud(), {"flavor": {"vcpus": 1, "memory_mb": 1, "extra_specs": {}}}, {})


def test_random_requests_ask_placement_the_same(duel):
    tally = duel.run(SEED, REQUESTS)
    assert tally.asked == REQUESTS
    assert [finding.asked.kept() for finding in tally.findings] == []
    assert tally.seen["asks"] > REQUESTS * 0.6
    assert tally.seen["refuses"] > REQUESTS * 0.1


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_once_differed_is_asked_alike_or_explained(duel, path):
    _, _, left = duel.see(asked_from(json.loads(path.read_text())))
    assert left == {}


@pytest.mark.parametrize("explanation", EXPLANATIONS, ids=lambda one: one.name)
def test_every_explanation_has_a_case_that_it_alone_explains(duel, explanation):
    path = CASES_FOLDER / f"{re.sub(r'[^A-Za-z0-9_]+', '-', explanation.name).strip('-')}.json"
    kept = json.loads(path.read_text())
    seen, names, left = duel.see(asked_from(kept))
    assert (names, left) == ([explanation.name], {}), (seen.ours, seen.theirs)


@pytest.mark.parametrize("explanation", EXPLANATIONS, ids=lambda one: one.name)
def test_what_is_explained_is_documented(explanation):
    words = " ".join(DOCUMENTED.read_text().replace("``", "").split())
    assert explanation.name.replace("``", "").casefold() in words.casefold()
    assert " ".join(explanation.reason.replace("``", "").split()) in words


@pytest.mark.parametrize(
    ("ours", "theirs", "aspects"),
    [
        (Answer("asks", "resources=VCPU%3A1"), Answer("asks", "resources=VCPU%3A2"), ["resources"]),
        (Answer("asks", "resources=VCPU%3A1"), Answer("refuses", told="no"), ["verdict"]),
        (Answer("refuses", told="no"), Answer("asks", "resources=VCPU%3A1"), ["verdict"]),
        (Answer("fails", told="oops"), Answer("refuses", told="no"), ["verdict"]),
        (Answer("asks", "limit=1"), Answer("asks", "limit=1&required=CUSTOM_FAST"), ["required"]),
    ],
    ids=["amount", "refused there", "refused here", "failed", "lost trait"],
)
def test_a_difference_that_is_not_meant_is_found(ours, theirs, aspects):
    found = differences(PLAIN, ours, theirs)
    assert list(found) == aspects
    assert explain(Seen(PLAIN, ours, theirs, lambda _asked: theirs), found) == ([], found)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_failure_of_ours_is_found_whatever_else_differs(duel, ours, monkeypatch, path):
    monkeypatch.setattr(ours, "ask", lambda _asked: Answer("fails", told="oops"))
    _, names, left = duel.see(asked_from(json.loads(path.read_text())))
    assert (names, list(left)) == ([], ["verdict"])


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_question_of_ours_for_too_little_is_found_whatever_else_differs(
    duel, ours, monkeypatch, path
):
    def modest(asked):
        answer = honest(asked)
        return replace(answer, query=answer.query.replace("VCPU%3A2", "VCPU%3A1"))

    honest = ours.ask
    monkeypatch.setattr(ours, "ask", modest)
    seen, _, left = duel.see(asked_from(json.loads(path.read_text())))
    comparable = seen.ours.verdict == "asks" and seen.theirs.verdict != "finds nobody"
    assert bool(left) == comparable


def test_a_trait_that_is_lost_is_found_in_most_requests(duel, ours, monkeypatch):
    def forgetful(asked):
        answer = honest(asked)
        return replace(answer, query=answer.query.replace("root_required", "root_member"))

    honest = ours.ask
    monkeypatch.setattr(ours, "ask", forgetful)
    tally = duel.run(SEED, 20)
    assert len(tally.findings) + tally.explained.total() >= tally.seen["asks"] > 10


@pytest.mark.parametrize(
    ("one", "other", "same"),
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
        "order of classes", "nothing asked", "order of aggregates", "suffixes of the flavor",
        "suffixes of devices", "traits of another device", "root", "limit",
    ],
)  # fmt: skip
def test_queries_are_the_same_where_they_ask_the_same(one, other, same):
    assert (question_of(one, {"1", "2"}) == question_of(other, {"1", "2"})) == same


def test_a_seed_makes_the_same_requests_every_time():
    def made():
        dice = Dice(Random(SEED))
        here = cloud(dice)
        return [request(dice, here).kept() for _ in range(50)]

    assert made() == made()
