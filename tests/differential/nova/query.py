# SPDX-License-Identifier: Apache-2.0
"""Candidates queries as documents, equal for equivalent query strings."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import parse_qsl

#: Values by parameter. Groups of devices have the suffixes `` of device 1``, `` of device 2``, ...
QueryDocument = dict[str, Any]

_GROUP_PARAMETER_PATTERN = re.compile(r"(resources|required|member_of|in_tree)(.*)", re.DOTALL)


def convert_query_to_document(query: str, suffixes: Collection[str]) -> QueryDocument:
    """Return the parameters of a query, with canonical suffixes for groups of PCI devices.

    The request itself contains the ``suffixes``. nova invents random suffixes for PCI devices, so
    this function replaces them by numbers in the order of the groups' values.
    """
    parameters: QueryDocument = {}
    groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for key, value in parse_qsl(query, keep_blank_values=True):
        member = _GROUP_PARAMETER_PATTERN.fullmatch(key)
        if member is None:
            parameters.setdefault(key, []).append(_sort_terms(value))
        elif value:  # nova sends an empty parameter for a group without resources
            groups[member[2]][member[1]].append(_sort_terms(value))
    names = dict(_assign_canonical_suffixes(groups, suffixes))
    for suffix, group in groups.items():
        for key, values in group.items():
            parameters[f"{key}{names[suffix]}"] = sorted(values)
    return {key: sorted(values) for key, values in parameters.items()}


def _sort_terms(value: str) -> str:
    prefix, colon, terms = value.partition("in:")
    if not colon or prefix not in {"", "!"}:
        prefix, colon, terms = "", "", value
    # Placement strips the names, so that "trait: CUSTOM_A" requires CUSTOM_A.
    return prefix + colon + ",".join(sorted(map(str.strip, terms.split(","))))


def _assign_canonical_suffixes(
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
