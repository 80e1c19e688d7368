# SPDX-License-Identifier: Apache-2.0
"""Differences that are meant: each with what tells it, and why ours is better for users."""

from tests.differential.compare import Differences
from tests.differential.explained.candidates import CANDIDATES
from tests.differential.explained.errors import ERRORS
from tests.differential.explained.seen import AnswerPair, Explanation
from tests.differential.explained.writes import WRITES

EXPLANATIONS: tuple[Explanation, ...] = (*ERRORS, *CANDIDATES, *WRITES)


def explain_differences(seen: AnswerPair, found: Differences) -> tuple[list[str], Differences]:
    names = []
    left = dict(found)
    for explanation in EXPLANATIONS:
        claimed = explanation.tells(seen, left) & left.keys() if left else set()
        if claimed:
            names.append(explanation.name)
            left = {aspect: values for aspect, values in left.items() if aspect not in claimed}
    return names, left
