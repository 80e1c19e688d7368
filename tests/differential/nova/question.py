# SPDX-License-Identifier: Apache-2.0
"""A query string as a value: equal for two queries that ask placement the same."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import parse_qsl

#: What is asked, by parameter; the groups of devices are named ``device 1``, ``device 2``, ...
Question = dict[str, Any]

_GROUP = re.compile(r"(resources|required|member_of|in_tree)(.*)", re.DOTALL)


def query_as_document(query: str, suffixes: Collection[str]) -> Question:
    """Return what a query asks.

    ``suffixes`` are those that the request names. What has another one is a group for a PCI
    device: nova makes their names at random, so they are named anew, in the order of what they
    ask for.
    """
    asked: Question = {}
    groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for key, value in parse_qsl(query, keep_blank_values=True):
        member = _GROUP.fullmatch(key)
        if member is None:
            asked.setdefault(key, []).append(_sort_terms(value))
        elif value:  # an empty one is nova's way to ask for nothing
            groups[member[2]][member[1]].append(_sort_terms(value))
    names = dict(_canonical_suffixes(groups, suffixes))
    for suffix, group in groups.items():
        for key, values in group.items():
            asked[f"{key}{names[suffix]}"] = sorted(values)
    return {key: sorted(values) for key, values in asked.items()}


def _sort_terms(value: str) -> str:
    prefix, colon, terms = value.partition("in:")
    if not colon or prefix not in {"", "!"}:
        prefix, colon, terms = "", "", value
    return prefix + colon + ",".join(sorted(terms.split(",")))


def _canonical_suffixes(
    groups: dict[str, dict[str, list[str]]], suffixes: Collection[str]
) -> Iterator[tuple[str, str]]:
    devices = []
    for suffix, group in groups.items():
        if suffix == "" or suffix in suffixes:
            yield suffix, suffix
        else:
            devices.append((sorted(group.items()), suffix))
    for number, (_, suffix) in enumerate(sorted(devices), start=1):
        yield suffix, f" of device {number}"
