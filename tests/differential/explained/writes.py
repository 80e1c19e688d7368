# SPDX-License-Identifier: Apache-2.0
"""Differences in writes and in accepted spellings."""

from urllib.parse import unquote

from tests.differential.comparison import Explanation
from tests.differential.differences import Differences, with_short_ratios
from tests.differential.explained.answer_pair import AnswerPair, explained_elsewhere


def _last_modified_missing(both: AnswerPair, found: Differences) -> set[str]:
    values = found.get("header last-modified")
    is_missing = values == (True, False) and "cache-control" in both.theirs.headers
    renamed = both.request.method == "PUT" and unquote(both.request.path).startswith(
        "/resource_providers/"
    )
    return {"header last-modified"} if is_missing and renamed else set()


def _double_slash_path(both: AnswerPair, found: Differences) -> set[str]:
    return set(found) if both.request.path.startswith("//") and both.theirs.status == 404 else set()


def _uppercase_content_type(both: AnswerPair, found: Differences) -> set[str]:
    kind = both.request.headers.get("Content-Type") or ""
    refused = both.theirs.status == 415 and both.ours.status != 415
    return set(found) if refused and kind.lower() == "application/json" != kind else set()


def _ratio_with_six_digits(both: AnswerPair, found: Differences) -> set[str]:
    if not getattr(both.our_side, "has_short_ratios", False):
        return set()
    return {
        aspect
        for aspect, (ours, theirs) in found.items()
        if with_short_ratios(ours) == with_short_ratios(theirs)
    }


#: Detected by a query of the database, which also deletes the consumer.
LEFT_BEHIND = Explanation(
    "a claim that allocates nothing keeps no consumer",
    "The peer keeps the consumer, and its type, of an accepted claim for nothing, and of a claim "
    "that it refused because a provider does not exist. The client's next claim, with the "
    "generation null, is then a conflict each time.",
    explained_elsewhere,
)
#: Detected by a repetition of all requests to the peer in canonical spelling.
SPELLING = Explanation(
    "a uuid may be written in any form",
    "A uuid in capitals, in braces, as a URN or without hyphens names the same object. It is "
    "found in a path, as a parent and, in capitals at least, in a filter, on every database, and "
    "it is not stored twice.",
    explained_elsewhere,
)

WRITES = (
    SPELLING,
    LEFT_BEHIND,
    Explanation(
        "the first PUT of a child provider has last-modified",
        "If a provider was created with a parent and has not changed since, the peer answers its "
        "first PUT with cache-control and without last-modified, so that a client could not ask "
        "whether its copy is current.",
        _last_modified_missing,
    ),
    Explanation(
        "a path may begin with two slashes",
        "An endpoint that is written with a slash at its end works.",
        _double_slash_path,
    ),
    Explanation(
        "a media type may be written in capitals",
        "RFC 9110 says that its case does not matter.",
        _uppercase_content_type,
    ),
    Explanation(
        "on MariaDB an allocation ratio has six digits",
        "Its FLOAT shows no more, to either service; SQLite and PostgreSQL keep all digits.",
        _ratio_with_six_digits,
    ),
)
