"""Differences that are meant: each with what tells it, and why ours is better for users.

An explanation claims aspects, not whole replies: what it does not claim still has to be the same.
Where it can be proved by asking again (without the limit, with the uuid spelled out), it is.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

from tests.differential.compare import Differences, differences, normal
from tests.differential.exchange import Reply, Request
from tests.differential.sides import Side
from tests.differential.state import get


@dataclass(frozen=True)
class Seen:
    """A request, both replies, and both sides, to ask further."""

    request: Request
    ours: Reply
    theirs: Reply
    our_side: Side
    their_side: Side

    @property
    def refused(self) -> bool:
        """Return whether both refuse, with the same status."""
        return self.ours.status == self.theirs.status >= 400

    def again(self, request: Request) -> tuple[Reply, Reply]:
        """Return what both say to another request."""
        return self.our_side.ask(request), self.their_side.ask(request)


@dataclass(frozen=True)
class Explanation:
    """``tells`` returns which of the aspects that differ are explained by it."""

    name: str
    reason: str
    tells: Callable[[Seen, Differences], set[str]]


def explain(seen: Seen, found: Differences) -> tuple[list[str], Differences]:
    """Return the names of the explanations that hold, and the aspects that none explains."""
    names = []
    left = dict(found)
    for explanation in EXPLANATIONS:
        told = explanation.tells(seen, left) & left.keys() if left else set()
        if told:
            names.append(explanation.name)
            left = {aspect: values for aspect, values in left.items() if aspect not in told}
    return names, left


def _vary(seen: Seen, found: Differences) -> set[str]:
    values = found.get("header vary")
    unsaid = values and values[1] is None and values[0] == "openstack-api-version"
    return {"header vary"} if unsaid and seen.theirs.status >= 400 else set()


def _json_errors(seen: Seen, found: Differences) -> set[str]:
    kind = seen.theirs.headers.get("content-type", "")
    if not seen.refused or not kind.startswith(("text/html", "text/plain")):
        return set()
    if seen.ours.headers.get("content-type") != "application/json":
        return set()
    return {"body", "header content-type", "names in detail"} | {
        aspect for aspect in found if aspect.startswith("error ")
    }


_FAULTS = ("JSON does not validate", "Invalid query string parameters")


def _fault_told_by_place(seen: Seen, found: Differences) -> set[str]:
    both = all(
        any(words in reply.detail for words in _FAULTS) for reply in (seen.ours, seen.theirs)
    )
    return {"names in detail"} if seen.refused and both and "(at $" in seen.ours.detail else set()


_LEFT_BEHIND = re.compile(r"consumer generation conflict - expected 0 but got (None|\d+)")


def _consumer_left_behind(seen: Seen, found: Differences) -> set[str]:
    """The peer knows a consumer that holds nothing, from a request that it refused."""
    writes = seen.request.path.startswith(("/allocations", "/reshaper"))
    if not writes or seen.theirs.status != 409 or not _LEFT_BEHIND.search(seen.theirs.detail):
        return set()
    named = {seen.request.path.rpartition("/")[2], *_consumers(seen.request.document)}
    shown = [get(seen.their_side, f"/allocations/{uuid}").document for uuid in named]
    return set(found) if any(one == {"allocations": {}} for one in shown) else set()


def _consumers(document: Any) -> list[str]:
    if not isinstance(document, dict):
        return []
    claims = document["allocations"] if "inventories" in document else document
    return [key for key in claims if isinstance(key, str) and "/" not in key]


def _limit(seen: Seen, found: Differences) -> set[str]:
    """Both cut the same answer, each where its own order has it."""
    pairs = parse_qsl(seen.request.query, keep_blank_values=True)
    limits = [value for key, value in pairs if key == "limit"]
    if "body" not in found or seen.ours.status != 200 or not limits:
        return set()
    rest = urlencode([(key, value) for key, value in pairs if key != "limit"])
    unlimited = replace(seen.request, target=f"{seen.request.path}?{rest}")
    ours, theirs = seen.again(unlimited)
    if explain(replace(seen, request=unlimited, ours=ours, theirs=theirs),
               differences(unlimited, ours, theirs))[1]:
        return set()
    every = normal(ours.document)["allocation_requests"]
    cut = normal(seen.ours.document)["allocation_requests"]
    fits = len(cut) == min(int(limits[-1]), len(every)) and all(one in every for one in cut)
    return {"body"} if fits else set()


_HEX = re.compile(r"(?i)\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b")


def _spelled(match: re.Match[str]) -> str:
    plain = match[0].replace("-", "").lower()
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))


def _spelling(seen: Seen, found: Differences) -> set[str]:
    """With the uuids in lower case and with hyphens the peer answers what we answer at once."""
    target = _HEX.sub(_spelled, unquote(seen.request.query))
    if seen.request.method != "GET" or target == unquote(seen.request.query):
        return set()
    pairs = parse_qsl(target, keep_blank_values=True)
    plain = replace(seen.request, target=f"{seen.request.path}?{urlencode(pairs)}")
    theirs = seen.their_side.ask(plain)
    left = differences(plain, seen.ours, theirs)
    return set() if explain(replace(seen, request=plain, theirs=theirs), left)[1] else set(found)


EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        "an error varies with the version too",
        "A cache that is not told so could hand an error of one microversion to a client of another.",
        _vary,
    ),
    Explanation(
        "errors are JSON, whatever is accepted",
        "Clients parse the errors of this API as JSON; the peer sends HTML or text to whoever "
        "accepts it, and then neither code nor request id.",
        _json_errors,
    ),
    Explanation(
        "a fault is told by its place",
        "The first fault with its JSON path, not the whole schema and the whole document after it.",
        _fault_told_by_place,
    ),
    Explanation(
        "no consumer is left behind",
        "The peer keeps a consumer, made for a claim that it then refuses because a provider does "
        "not exist; the client's next try with the generation null is a conflict for ever.",
        _consumer_left_behind,
    ),
    Explanation(
        "the limit keeps others",
        "No order is promised; ours is that of the providers' ids, the same every time.",
        _limit,
    ),
    Explanation(
        "a uuid is the same however it is spelled",
        "A uuid in capitals or without hyphens names the same thing.",
        _spelling,
    ),
)
