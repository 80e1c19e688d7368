# SPDX-License-Identifier: Apache-2.0
"""Differences between two results to a request."""

import re
from typing import Any

from tests.differential.nova.generate.requests import RequestCase
from tests.differential.nova.query import QueryDocument, convert_query_to_document
from tests.differential.nova.sides import QueryResult

#: Differing values by aspect (``verdict``, or a parameter): ours, then nova's.
Differences = dict[str, tuple[Any, Any]]

#: The key of an extra spec of a group with a suffix.
GROUP_SUFFIX_PATTERN = re.compile(r"(?:resources|trait)([a-zA-Z0-9_-]{1,64}):.*", re.DOTALL)


def find_differences(case: RequestCase, ours: QueryResult, theirs: QueryResult) -> Differences:
    if ours.verdict != theirs.verdict:
        return {
            "verdict": (f"{ours.verdict} ({ours.reason})", f"{theirs.verdict} ({theirs.reason})")
        }
    if ours.verdict != "query":
        return {}
    mine, nova = _list_query_aspects(case, ours), _list_query_aspects(case, theirs)
    return {
        key: (mine.get(key), nova.get(key))
        for key in sorted(mine.keys() | nova.keys())
        if mine.get(key) != nova.get(key)
    }


def _list_query_aspects(case: RequestCase, result: QueryResult) -> QueryDocument:
    suffixes = find_suffixes(case)
    second = convert_query_to_document(result.fallback, suffixes)
    return {
        **convert_query_to_document(result.query, suffixes),
        **{f"fallback {key}": value for key, value in second.items()},
    }


def find_suffixes(case: RequestCase) -> set[str]:
    spec = case.request_spec
    named = {group.get("requester_id", "") for group in spec.get("requested_resources") or ()}
    for key in spec["flavor"]["extra_specs"]:
        if suffixed := GROUP_SUFFIX_PATTERN.fullmatch(key):
            named.add(suffixed[1])
    return named
