# SPDX-License-Identifier: Apache-2.0
"""Intended differences from the peer, and functions that detect them."""

from tests.differential.comparison import Explanations, apply_explanations
from tests.differential.differences import Differences
from tests.differential.explained.candidates import CANDIDATES_EXPLANATIONS
from tests.differential.explained.errors import ERROR_EXPLANATIONS
from tests.differential.explained.response_pair import ResponsePair
from tests.differential.explained.writes import WRITE_EXPLANATIONS

EXPLANATIONS: Explanations = {**ERROR_EXPLANATIONS, **CANDIDATES_EXPLANATIONS, **WRITE_EXPLANATIONS}


def explain_differences(
    pair: ResponsePair, differences: Differences
) -> tuple[list[str], Differences]:
    return apply_explanations(EXPLANATIONS, pair, differences)
