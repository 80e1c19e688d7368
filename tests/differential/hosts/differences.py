# SPDX-License-Identifier: Apache-2.0
"""Differences between two results to a case."""

from itertools import pairwise
from typing import Any

from tests.differential.hosts.case import HostsCase
from tests.differential.hosts.sides import HostsResult

#: A compared value: kind, class of a plugin or "", host or "".
Aspect = tuple[str, str, str]
#: Differing values by aspect: ours, then nova's.
Differences = dict[Aspect, tuple[Any, Any]]

#: Maximum difference of equal numbers, relative to 1 or to the larger number.
MAX_RELATIVE_DIFFERENCE = 1e-9


def find_differences(case: HostsCase, ours: HostsResult, theirs: HostsResult) -> Differences:
    differences = _find_differences_of_filters(case, ours, theirs)
    for side, result in (("our chain", ours), ("nova's chain", theirs)):
        implied = _derive_chain_from_filters(case, result)
        if not _is_equal_verdict(result.chain, implied):
            differences[side, "", ""] = (result.chain, implied)
    differences |= _find_differences_of_weighers(case, ours, theirs)
    for side, result in (("our weights", ours), ("nova's weights", theirs)):
        if isinstance(result.weights, list) and (wrong := _find_wrong_weight_sums(result)):
            differences[side, "", ""] = wrong
    if not any(kind in _WEIGHER_ASPECTS for kind, _, _ in differences):
        differences |= _find_differences_of_order(case, ours, theirs)
    # Rounds after other hosts or other weights cannot be compared.
    return differences or _find_differences_of_rounds(ours, theirs)


def _find_differences_of_rounds(ours: HostsResult, theirs: HostsResult) -> Differences:
    for number, (mine, nova) in enumerate(zip(ours.rounds, theirs.rounds, strict=False)):
        weights = dict(nova["weights"])
        is_equal = mine["left"] == nova["left"] and all(
            is_nearly_equal(weight, weights[place]) for place, weight in mine["weights"]
        )
        if not is_equal:
            return {("instance", str(number), ""): (mine, nova)}
        if (choice := mine["chosen"]) is not None and not is_nearly_equal(
            weights[choice], weights[nova["chosen"]]
        ):
            return {("choice", str(number), ""): (mine, nova)}
    counts = (len(ours.rounds), len(theirs.rounds))
    return {} if counts[0] == counts[1] else {("instances", "", ""): counts}


#: A filter that passes all hosts of a valid request.
_ALL_HOSTS_FILTER = "AllHostsFilter"
_WEIGHER_ASPECTS = ("weigher", "raw", "multipliers", "normalized")


def is_nearly_equal(first: float, second: float) -> bool:
    return abs(first - second) <= MAX_RELATIVE_DIFFERENCE * max(1.0, abs(first), abs(second))


def _find_differences_of_filters(
    case: HostsCase, ours: HostsResult, theirs: HostsResult
) -> Differences:
    return {
        ("filter", name, case.format_host_and_node(place)): (mine, nova)
        for name, verdicts in ours.filters.items()
        for place, (mine, nova) in enumerate(zip(verdicts, theirs.filters[name], strict=True))
        if not _is_equal_verdict(mine, nova)
    }


def _is_equal_verdict(first: Any, second: Any) -> bool:
    if isinstance(first, str) or isinstance(second, str):
        return isinstance(first, str) and isinstance(second, str)
    return bool(first == second)


def _derive_chain_from_filters(case: HostsCase, result: HostsResult) -> list[int] | str:
    left = list(range(len(case.hosts)))
    whole = result.filters[_ALL_HOSTS_FILTER][0]
    if isinstance(whole, str):
        return whole
    for name in case.chain:
        for verdict in result.filters[name]:
            if isinstance(verdict, str) and verdict.startswith("rejects"):
                return verdict
    for name in case.chain:
        verdicts = [result.filters[name][place] for place in left]
        if failure := next((verdict for verdict in verdicts if isinstance(verdict, str)), None):
            return failure
        left = [place for place, passes in zip(left, verdicts, strict=True) if passes]
    return left


def _find_differences_of_weighers(
    case: HostsCase, ours: HostsResult, theirs: HostsResult
) -> Differences:
    differences: Differences = {}
    for name, mine in ours.weighers.items():
        nova = theirs.weighers[name]
        if isinstance(mine, str) or isinstance(nova, str):
            if not _is_equal_verdict(mine, nova):
                differences["weigher", name, ""] = (mine, nova)
            continue
        differing: Differences = {}
        for kind in ("raw", "multipliers", "normalized"):
            if kind == "normalized" and differing:
                break  # other weights have another scale
            values = zip(ours.weighed, mine[kind], nova[kind], strict=True)
            differing |= {
                (kind, name, case.format_host_and_node(place)): (here, there)
                for place, here, there in values
                if not is_nearly_equal(here, there)
            }
        differences |= differing
    return differences


def _find_wrong_weight_sums(hosts_result: HostsResult) -> tuple[Any, Any] | None:
    results = [result for result in hosts_result.weighers.values() if isinstance(result, dict)]
    if len(hosts_result.weighed) < 2 or len(results) < len(hosts_result.weighers):
        return None
    sums = {
        place: sum(result["multipliers"][index] * result["normalized"][index] for result in results)
        for index, place in enumerate(hosts_result.weighed)
    }
    weights = dict(hosts_result.weights)
    is_equal = weights.keys() == sums.keys() and all(
        is_nearly_equal(weights[place], sums[place]) for place in sums
    )
    return None if is_equal else (weights, sums)


def _find_differences_of_order(
    case: HostsCase, ours: HostsResult, theirs: HostsResult
) -> Differences:
    if isinstance(ours.weights, str) or isinstance(theirs.weights, str):
        if _is_equal_verdict(ours.weights, theirs.weights):
            return {}
        return {("weights", "", ""): (ours.weights, theirs.weights)}
    weights = dict(theirs.weights)
    differences: Differences = {
        ("weights", "", case.format_host_and_node(place)): (weight, weights.get(place))
        for place, weight in ours.weights
        if place not in weights or not is_nearly_equal(weight, weights[place])
    }
    mine = [(-weight, case.format_host_and_node(place)) for place, weight in ours.weights]
    nova = [weights[place] for place, _ in ours.weights if place in weights]
    is_sorted = all(a >= b or is_nearly_equal(a, b) for a, b in pairwise(nova))
    if mine != sorted(mine) or not is_sorted or len(ours.weights) != len(weights):
        differences["order", "", ""] = (ours.weights, theirs.weights)
    return differences
