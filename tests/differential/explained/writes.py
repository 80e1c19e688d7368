# SPDX-License-Identifier: Apache-2.0
"""Differences in writes and in accepted spellings."""

from functools import partial
from urllib.parse import unquote

from tests.differential.comparison import Explanations, add_explanation
from tests.differential.differences import Differences, round_numbers_to_six_digits
from tests.differential.explained.answer_pair import AnswerPair

#: Detected by a query of the database, which also deletes the consumer.
LEFT_BEHIND = "a claim that allocates nothing keeps no consumer"
#: Detected by a repetition of all requests to the peer in canonical spelling.
SPELLING = "a uuid may be written in any form"
WRITES: Explanations = {name: lambda _both, _found: set() for name in (SPELLING, LEFT_BEHIND)}
explains = partial(add_explanation, WRITES)


@explains("the first PUT of a child provider has last-modified")
def _last_modified_of_the_peer_is_missing(both: AnswerPair, found: Differences) -> set[str]:
    values = found.get("header last-modified")
    is_missing = values == (True, False) and "cache-control" in both.theirs.headers
    renamed = both.request.method == "PUT" and unquote(both.request.path).startswith(
        "/resource_providers/"
    )
    return {"header last-modified"} if is_missing and renamed else set()


@explains("a path may begin with two slashes")
def _peer_rejects_double_slash_path(both: AnswerPair, found: Differences) -> set[str]:
    return set(found) if both.request.path.startswith("//") and both.theirs.status == 404 else set()


@explains("a media type may be written in capitals")
def _peer_rejects_uppercase_content_type(both: AnswerPair, found: Differences) -> set[str]:
    kind = both.request.headers.get("Content-Type") or ""
    refused = both.theirs.status == 415 and both.ours.status != 415
    return set(found) if refused and kind.lower() == "application/json" != kind else set()


@explains("on MariaDB an allocation ratio has six digits")
def _ratio_is_rounded_to_six_digits(both: AnswerPair, found: Differences) -> set[str]:
    if not getattr(both.our_side, "has_short_ratios", False):
        return set()
    return {
        aspect
        for aspect, (ours, theirs) in found.items()
        if round_numbers_to_six_digits(ours) == round_numbers_to_six_digits(theirs)
    }
