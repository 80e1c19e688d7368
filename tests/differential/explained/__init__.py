# SPDX-License-Identifier: Apache-2.0
"""Intended differences from the peer, and functions that detect them."""

from tests.differential.comparison import Explanations, apply_explanations
from tests.differential.differences import Differences
from tests.differential.explained.answer_pair import AnswerPair
from tests.differential.explained.candidates import CANDIDATES
from tests.differential.explained.errors import ERRORS
from tests.differential.explained.writes import WRITES

EXPLANATIONS: Explanations = {**ERRORS, **CANDIDATES, **WRITES}


def explain_differences(both: AnswerPair, found: Differences) -> tuple[list[str], Differences]:
    return apply_explanations(EXPLANATIONS, both, found)
