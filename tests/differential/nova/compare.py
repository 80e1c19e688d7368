# SPDX-License-Identifier: Apache-2.0
"""What tells two answers to one request apart."""

import re
from typing import Any

from tests.differential.nova.generate.requests import RequestCase
from tests.differential.nova.question import Question, query_as_document
from tests.differential.nova.sides import Answer

#: What differs, by aspect (the verdict, or a parameter): ours, then nova's.
Differences = dict[str, tuple[Any, Any]]

#: The key of an extra spec of a group with a suffix.
SUFFIXED = re.compile(r"(?:resources|trait)([a-zA-Z0-9_-]{1,64}):.*", re.DOTALL)


def differences(asked: RequestCase, ours: Answer, theirs: Answer) -> Differences:
    if ours.verdict != theirs.verdict:
        return {"verdict": (f"{ours.verdict} ({ours.told})", f"{theirs.verdict} ({theirs.told})")}
    if ours.verdict != "asks":
        return {}
    here, there = _query_aspects(asked, ours), _query_aspects(asked, theirs)
    return {
        key: (here.get(key), there.get(key))
        for key in sorted(here.keys() | there.keys())
        if here.get(key) != there.get(key)
    }


def _query_aspects(asked: RequestCase, answer: Answer) -> Question:
    suffixes = suffixes_of(asked)
    second = query_as_document(answer.fallback, suffixes)
    return {
        **query_as_document(answer.query, suffixes),
        **{f"fallback {key}": value for key, value in second.items()},
    }


def suffixes_of(asked: RequestCase) -> set[str]:
    spec = asked.request_spec
    named = {one.get("requester_id", "") for one in spec.get("requested_resources") or ()}
    for key in spec["flavor"]["extra_specs"]:
        if suffixed := SUFFIXED.fullmatch(key):
            named.add(suffixed[1])
    return named
