# SPDX-License-Identifier: Apache-2.0
"""Differences in writes and in accepted spellings."""

from functools import partial
from urllib.parse import unquote

from tests.differential.comparison import Explanations, add_explanation
from tests.differential.differences import Differences, round_numbers_to_six_digits
from tests.differential.explained.response_pair import ResponsePair

#: Detected by a query of the database, which also deletes the consumer.
EMPTY_CONSUMER_EXPLANATION = "a claim that allocates nothing keeps no consumer"
#: Detected by a repetition of all requests to the peer in canonical spelling.
UUID_SPELLING_EXPLANATION = "a uuid may be written in any form"
WRITE_EXPLANATIONS: Explanations = {
    name: lambda _both, _found: set()
    for name in (UUID_SPELLING_EXPLANATION, EMPTY_CONSUMER_EXPLANATION)
}
register_explanation = partial(add_explanation, WRITE_EXPLANATIONS)


@register_explanation("the first PUT of a child provider has last-modified")
def _last_modified_of_the_peer_is_missing(pair: ResponsePair, differences: Differences) -> set[str]:
    values = differences.get("header last-modified")
    is_missing = values == (True, False) and "cache-control" in pair.theirs.headers
    renamed = pair.request.method == "PUT" and unquote(pair.request.path).startswith(
        "/resource_providers/"
    )
    return {"header last-modified"} if is_missing and renamed else set()


@register_explanation("a path may begin with two slashes")
def _peer_rejects_double_slash_path(pair: ResponsePair, differences: Differences) -> set[str]:
    return (
        set(differences)
        if pair.request.path.startswith("//") and pair.theirs.status == 404
        else set()
    )


@register_explanation("a media type may be written in capitals")
def _peer_rejects_uppercase_content_type(pair: ResponsePair, differences: Differences) -> set[str]:
    kind = pair.request.headers.get("Content-Type") or ""
    rejected = pair.theirs.status == 415 and pair.ours.status != 415
    return set(differences) if rejected and kind.lower() == "application/json" != kind else set()


@register_explanation("on MariaDB an allocation ratio has six digits")
def _ratio_is_rounded_to_six_digits(pair: ResponsePair, differences: Differences) -> set[str]:
    if not getattr(pair.our_side, "has_short_ratios", False):
        return set()
    return {
        aspect
        for aspect, (ours, theirs) in differences.items()
        if round_numbers_to_six_digits(ours) == round_numbers_to_six_digits(theirs)
    }
