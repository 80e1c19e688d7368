# SPDX-License-Identifier: Apache-2.0
"""Nova's PCI pools, filter and weigher decide as ours do, but for what is explained."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from placement_sched.model.hardware import pci_devices
from tests.differential.generate.dice import Dice
from tests.differential.pci.explained import EXPLANATIONS
from tests.differential.pci.generate import Asked, asked

pytestmark = pytest.mark.system

DOCUMENTED = Path(__file__).resolve().parents[3] / "doc" / "source" / "differences.rst"

#: ``make test-only WHAT=differential`` puts many more.
SEED, QUESTIONS = 2026, 2000

POOL = {"vendor_id": "8086", "product_id": "1", "numa_node": 1, "count": 2}
PLACED = {**POOL, "rp_uuid": "a"}


def question(pools, *requests, **fields):
    told = {"sockets": [(0, 0), (1, 0)], "mappings": None, "numa_cells": None, "candidates": [{}]}
    return Asked(pools=pools, requests=list(requests), **(told | fields))


def request(request_id="r", **fields):
    told = {"count": 1, "spec": [{}], "alias_name": "nic", "requester_id": None}
    return {**told, "request_id": request_id, "numa_policy": None, **fields}


def test_random_devices_are_given_to_the_same_requests(duel):
    tally = duel.run(SEED, QUESTIONS)
    assert tally.asked == QUESTIONS
    assert tally.findings == []
    assert tally.explained.total() < QUESTIONS * 0.05
    rare = {"failed"}
    scarce = {name: count for name, count in tally.seen.items() if count < QUESTIONS * 0.03}
    assert set(scarce) <= rare, tally.seen
    assert len(tally.seen.keys() - rare) == 7


@pytest.mark.parametrize(
    ("number", "differing"),
    [
        (0, question([POOL], request(numa_policy="socket"), sockets=None, numa_cells=[0])),
        (1, question([POOL], request(spec=[]))),
        (2, question([PLACED], request("r"), request("r1"), mappings={"r-0": ["a"],
                                                                      "r1-0": ["a"]})),
        (2, question([PLACED], request(None), mappings={"None-0": ["a"]})),
    ],
)  # fmt: skip
def test_every_explanation_has_a_case_that_it_alone_explains(duel, number, differing):
    (ours, theirs), names, left = duel.see(differing)
    assert ours != theirs
    assert left == {}
    assert names == [EXPLANATIONS[number].name]


@pytest.mark.parametrize("explanation", EXPLANATIONS, ids=lambda one: one.name)
def test_what_is_explained_is_documented(explanation):
    words = " ".join(DOCUMENTED.read_text().split())
    assert explanation.name in words
    assert explanation.reason in words


#: Of the six steps, that which heeds placement has a test of its own.
@pytest.mark.parametrize("missing", [0, 1, 2, 3, 5])
def test_rule_that_is_forgotten_is_found(duel, monkeypatch, missing):
    steps = pci_devices._STEPS
    monkeypatch.setattr(pci_devices, "_STEPS", (*steps[:missing], *steps[missing + 1 :]))
    assert duel.run(SEED, 600).findings


def test_placements_choice_that_is_not_heeded_is_found(duel, monkeypatch):
    monkeypatch.setattr(pci_devices, "providers_of", lambda _request, _mappings: Counter())
    assert duel.run(SEED, 600).findings


def test_seed_makes_the_same_questions_every_time():
    def made():
        dice = Dice(Random(SEED))
        return [asked(dice) for _ in range(50)]

    assert made() == made()
