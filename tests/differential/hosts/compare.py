# SPDX-License-Identifier: Apache-2.0
"""What tells two answers to one case apart."""

from itertools import pairwise
from typing import Any

from tests.differential.hosts.case import Case
from tests.differential.hosts.sides import Answer

#: What is compared: what kind it is, of which class if of one, and of which host if of one.
Aspect = tuple[str, str, str]
#: What differs, by aspect: ours, then nova's.
Differences = dict[Aspect, tuple[Any, Any]]

#: How far apart numbers may be that are the same, of 1 or of the greater of them.
PRECISION = 1e-9


def differences(case: Case, ours: Answer, theirs: Answer) -> Differences:
    found = _differences_of_filters(case, ours, theirs)
    for side, answer in (("our chain", ours), ("nova's chain", theirs)):
        implied = _chain_implied_by_filters(case, answer)
        if not _is_equal_verdict(answer.chain, implied):
            found[side, "", ""] = (answer.chain, implied)
    found |= _differences_of_weighers(case, ours, theirs)
    for side, answer in (("our weights", ours), ("nova's weights", theirs)):
        if isinstance(answer.weights, list) and (wrong := _weight_sums(answer)):
            found[side, "", ""] = wrong
    if not any(kind in _OF_WEIGHERS for kind, _, _ in found):
        found |= _differences_of_order(case, ours, theirs)
    # Of other hosts, or of other weights, everything that comes after is another story.
    return found or _differences_of_rounds(ours, theirs)


def _differences_of_rounds(ours: Answer, theirs: Answer) -> Differences:
    for number, (mine, nova) in enumerate(zip(ours.rounds, theirs.rounds, strict=False)):
        there = dict(nova["weights"])
        alike = mine["left"] == nova["left"] and all(
            is_nearly_equal(weight, there[place]) for place, weight in mine["weights"]
        )
        if not alike:
            return {("instance", str(number), ""): (mine, nova)}
        if (choice := mine["chosen"]) is not None and not is_nearly_equal(
            there[choice], there[nova["chosen"]]
        ):
            return {("choice", str(number), ""): (mine, nova)}
    many = (len(ours.rounds), len(theirs.rounds))
    return {} if many[0] == many[1] else {("instances", "", ""): many}


#: It passes every host of a request that can be.
_ANY = "AllHostsFilter"
_OF_WEIGHERS = ("weigher", "raw", "multipliers", "normalized")


def is_nearly_equal(one: float, other: float) -> bool:
    return abs(one - other) <= PRECISION * max(1.0, abs(one), abs(other))


def _differences_of_filters(case: Case, ours: Answer, theirs: Answer) -> Differences:
    return {
        ("filter", name, case.host_and_node_of(place)): (mine, nova)
        for name, verdicts in ours.filters.items()
        for place, (mine, nova) in enumerate(zip(verdicts, theirs.filters[name], strict=True))
        if not _is_equal_verdict(mine, nova)
    }


def _is_equal_verdict(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str)
    return bool(one == other)


def _chain_implied_by_filters(case: Case, answer: Answer) -> list[int] | str:
    left = list(range(len(case.hosts)))
    whole = answer.filters[_ANY][0]
    if isinstance(whole, str):
        return whole
    for name in case.chain:
        refused = (one for one in answer.filters[name] if _is_rejection(one))
        if rejection := next(refused, None):
            return str(rejection)
    for name in case.chain:
        said = [answer.filters[name][place] for place in left]
        if failure := next((one for one in said if isinstance(one, str)), None):
            return failure
        left = [place for place, passes in zip(left, said, strict=True) if passes]
    return left


def _is_rejection(said: bool | str) -> bool:
    return isinstance(said, str) and said.startswith("refuses")


def _differences_of_weighers(case: Case, ours: Answer, theirs: Answer) -> Differences:
    found: Differences = {}
    for name, mine in ours.weighers.items():
        nova = theirs.weighers[name]
        if isinstance(mine, str) or isinstance(nova, str):
            if not _is_equal_verdict(mine, nova):
                found["weigher", name, ""] = (mine, nova)
            continue
        told: Differences = {}
        for kind in ("raw", "multipliers", "normalized"):
            if kind == "normalized" and told:
                break  # of other weights it is another scale
            values = zip(ours.weighed, mine[kind], nova[kind], strict=True)
            told |= {
                (kind, name, case.host_and_node_of(place)): (here, there)
                for place, here, there in values
                if not is_nearly_equal(here, there)
            }
        found |= told
    return found


def _weight_sums(answer: Answer) -> tuple[Any, Any] | None:
    said = [one for one in answer.weighers.values() if isinstance(one, dict)]
    if len(answer.weighed) < 2 or len(said) < len(answer.weighers):
        return None
    made = {
        place: sum(one["multipliers"][index] * one["normalized"][index] for one in said)
        for index, place in enumerate(answer.weighed)
    }
    told = dict(answer.weights)
    alike = told.keys() == made.keys() and all(
        is_nearly_equal(told[each], made[each]) for each in made
    )
    return None if alike else (told, made)


def _differences_of_order(case: Case, ours: Answer, theirs: Answer) -> Differences:
    if isinstance(ours.weights, str) or isinstance(theirs.weights, str):
        alike = _is_equal_verdict(ours.weights, theirs.weights)
        return {} if alike else {("weights", "", ""): (ours.weights, theirs.weights)}
    there = dict(theirs.weights)
    found: Differences = {
        ("weights", "", case.host_and_node_of(place)): (weight, there.get(place))
        for place, weight in ours.weights
        if place not in there or not is_nearly_equal(weight, there[place])
    }
    mine = [(-weight, case.host_and_node_of(place)) for place, weight in ours.weights]
    nova = [there[place] for place, _ in ours.weights if place in there]
    falling = all(a >= b or is_nearly_equal(a, b) for a, b in pairwise(nova))
    if mine != sorted(mine) or not falling or len(ours.weights) != len(there):
        found["order", "", ""] = (ours.weights, theirs.weights)
    return found
