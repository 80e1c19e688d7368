# SPDX-License-Identifier: Apache-2.0
"""Intended differences from the peer, each with a reason and a function that detects it."""

from tests.differential.comparison import Explanation, apply_explanations
from tests.differential.differences import Differences
from tests.differential.explained.answer_pair import AnswerPair
from tests.differential.explained.candidates import CANDIDATES
from tests.differential.explained.errors import ERRORS
from tests.differential.explained.writes import WRITES

EXPLANATIONS: tuple[Explanation, ...] = (*ERRORS, *CANDIDATES, *WRITES)


def explain_differences(both: AnswerPair, found: Differences) -> tuple[list[str], Differences]:
    return apply_explanations(EXPLANATIONS, both, found)
