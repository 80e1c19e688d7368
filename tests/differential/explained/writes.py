"""Differences in what is written, kept and taken."""

from urllib.parse import unquote

from tests.differential.compare import Differences
from tests.differential.explained.seen import Explanation, Seen, told_elsewhere


def _modified(seen: Seen, found: Differences) -> set[str]:
    values = found.get("header last-modified")
    unsaid = values == (True, False) and "cache-control" in seen.theirs.headers
    renamed = seen.request.method == "PUT" and unquote(seen.request.path).startswith(
        "/resource_providers/"
    )
    return {"header last-modified"} if unsaid and renamed else set()


def _slash(seen: Seen, found: Differences) -> set[str]:
    return set(found) if seen.request.path.startswith("//") and seen.theirs.status == 404 else set()


def _capitals(seen: Seen, found: Differences) -> set[str]:
    kind = seen.request.headers.get("Content-Type") or ""
    refused = seen.theirs.status == 415 and seen.ours.status != 415
    return set(found) if refused and kind.lower() == "application/json" != kind else set()


#: Seen only by looking after a refusal, and mended at once.
LEFT_BEHIND = Explanation(
    "no consumer is left behind",
    "The peer keeps a consumer, made for a claim that it then refuses because a provider does not "
    "exist; the client's next try, with the generation null, is a conflict for ever.",
    told_elsewhere,
)
#: Shown by asking the peer once more, from the beginning, in the plain spelling.
SPELLING = Explanation(
    "a uuid is the same however it is spelled",
    "A uuid in capitals, in braces, as a URN or without hyphens names the same thing, so it is "
    "found in a path, as a parent and, in capitals at least, in a filter, on every database, and "
    "not kept twice.",
    told_elsewhere,
)

WRITES = (
    SPELLING,
    LEFT_BEHIND,
    Explanation(
        "an answer that may be kept tells since when it holds",
        "Of a provider with a parent, renamed by a body without parent, the peer tells "
        "cache-control and no last-modified, so nobody could ask whether it holds still.",
        _modified,
    ),
    Explanation(
        "a slash too many is forgiven",
        "An endpoint written with a slash at its end works.",
        _slash,
    ),
    Explanation(
        "a media type may be written in capitals",
        "RFC 9110 says that its case does not matter.",
        _capitals,
    ),
)
