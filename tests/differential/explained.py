"""Differences that are meant: each with what tells it, and why ours is better for users.

An explanation claims aspects, not whole replies: what it does not claim still has to be the same.
Where it can be proved by asking again (without the limit, with the uuid spelled out), it is.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, quote, unquote, urlencode

from tests.differential.compare import Differences, differences, normal
from tests.differential.exchange import Reply, Request
from tests.differential.generate.dice import SHARES
from tests.differential.oracle import asked, judged, told
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
        claimed = explanation.tells(seen, left) & left.keys() if left else set()
        if claimed:
            names.append(explanation.name)
            left = {aspect: values for aspect, values in left.items() if aspect not in claimed}
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
    ours = seen.ours.detail
    placed = "(at $" in ours and any(words in ours for words in _FAULTS)
    return {"names in detail"} if seen.refused and placed else set()


def _another_fault(seen: Seen, found: Differences) -> set[str]:
    """One parameter of several at fault is told, and in a query all are in one place."""
    several = seen.request.query.count("=") > 1 and seen.request.method == "GET"
    return {"names in detail"} if several and seen.refused and seen.ours.status == 400 else set()


_OBSTACLES = ("Unable to allocate inventory: ", "that does not exist.")


def _one_obstacle(seen: Seen, found: Differences) -> set[str]:
    both = any(words in seen.ours.detail and words in seen.theirs.detail for words in _OBSTACLES)
    return {"names in detail"} if seen.refused and both else set()


def _limit(seen: Seen, found: Differences) -> set[str]:
    """Both cut the same answer, each where its own order has it."""
    pairs = parse_qsl(seen.request.query, keep_blank_values=True)
    limits = [value for key, value in pairs if key == "limit"]
    if "body" not in found or seen.ours.status != 200 or not limits:
        return set()
    rest = urlencode([(key, value) for key, value in pairs if key != "limit"])
    unlimited = replace(seen.request, target=f"{seen.request.path}?{rest}")
    ours, theirs = seen.again(unlimited)
    if explain(
        replace(seen, request=unlimited, ours=ours, theirs=theirs),
        differences(unlimited, ours, theirs),
    )[1]:
        return set()
    every = normal(ours.document)["allocation_requests"]
    cut = normal(seen.ours.document)["allocation_requests"]
    fits = len(cut) == min(int(limits[-1]), len(every)) and all(one in every for one in cut)
    return {"body"} if fits else set()


def _right(seen: Seen) -> bool:
    """Return whether a naive search of the same cloud finds just what we tell."""
    if seen.request.path != "/allocation_candidates" or seen.ours.status != 200:
        return False
    right, ours = judged(seen.our_side, seen.request), told(seen.ours.document)
    limit = asked(seen.request).limit
    return ours == right if limit is None else ours <= right and len(ours) == min(limit, len(right))


def _overlap(request: Request) -> bool:
    """Return whether the group without a suffix and another ask for the same class."""
    groups = asked(request).groups
    plain = {name for group in groups if not group.suffix for name, _ in group.resources}
    suffixed = {name for group in groups if group.suffix for name, _ in group.resources}
    return bool(plain & suffixed)


def _piled_up(seen: Seen, found: Differences) -> set[str]:
    """An amount told is more than any combination asks, or candidates are lost by the same."""
    if seen.theirs.status != 200 or not _right(seen) or not _overlap(seen.request):
        return set()
    return set(found) if told(seen.theirs.document) else set()


def _lost(seen: Seen, found: Differences) -> set[str]:
    """Candidates are missing where something shares, none is wrong."""
    if seen.theirs.status != 200 or not _right(seen):
        return set()
    sharing = get(seen.our_side, f"/resource_providers?required={SHARES}").document
    right = judged(seen.our_side, seen.request)
    missing = told(seen.theirs.document) < right
    return set(found) if sharing["resource_providers"] and missing else set()


def _forbids_only(seen: Seen, found: Differences) -> set[str]:
    if seen.theirs.status != 200 or not _right(seen) or told(seen.theirs.document):
        return set()
    bare = [group for group in asked(seen.request).groups if not group.resources]
    without = any(not (group.traits.required or group.aggregates.member_of) for group in bare)
    return set(found) if without else set()


def _broken(seen: Seen, found: Differences) -> set[str]:
    return set(found) if seen.theirs.status == 500 and _right(seen) else set()


def _modified(seen: Seen, found: Differences) -> set[str]:
    values = found.get("header last-modified")
    unsaid = values == (True, False) and "cache-control" in seen.theirs.headers
    return {"header last-modified"} if unsaid else set()


def _not_served(seen: Seen, found: Differences) -> set[str]:
    early = (seen.ours.status, seen.theirs.status) == (404, 415)
    return set(found) if early and "not served at" in seen.ours.detail else set()


def _failure(seen: Seen, found: Differences) -> set[str]:
    return set(found) if seen.theirs.status == 500 and seen.ours.status == 400 else set()


def _slash(seen: Seen, found: Differences) -> set[str]:
    return set(found) if seen.request.path.startswith("//") and seen.theirs.status == 404 else set()


def _capitals(seen: Seen, found: Differences) -> set[str]:
    kind = seen.request.headers.get("Content-Type") or ""
    refused = seen.theirs.status == 415 and seen.ours.status != 415
    return set(found) if refused and kind.lower() == "application/json" != kind else set()


def _nul(seen: Seen, found: Differences) -> set[str]:
    words = ("NUL character", "they are not in UTF-8")
    refused = seen.ours.status == 400 and any(one in seen.ours.detail for one in words)
    return set(found) if refused else set()


_NO_SUCH = re.compile(r"No such (trait\(s\)|resource class):? (.*)\.$")


def _unknown_name(seen: Seen, found: Differences) -> set[str]:
    """We refuse a name that, as the peer itself says, there is not; it finds nobody."""
    named = _NO_SUCH.search(seen.ours.detail)
    if not named or seen.theirs.status != 200:
        return set()
    nobody = not any(seen.theirs.document.values())
    nouns = "traits" if named[1].startswith("trait") else "resource_classes"
    unknown = all(
        get(seen.their_side, f"/{nouns}/{quote(name)}").status == 404
        for name in named[2].split(", ")
    )
    return set(found) if nobody and unknown else set()


_HEX = re.compile(r"(?i)\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b")


def _spelled(match: re.Match[str]) -> str:
    plain = match[0].replace("-", "").lower()
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))


def oddly_spelled(request: Request) -> bool:
    """Return whether a request writes a uuid in capitals or without hyphens."""
    text = unquote(request.target) + json.dumps(request.as_json())
    return any(_spelled(match) != match[0] for match in _HEX.finditer(text))


#: What keeps consumers, providers or aggregates under the uuids that a request writes.
_KEEPERS = ("/allocations", "/reshaper", "/resource_providers")


def _spelling(seen: Seen, found: Differences) -> set[str]:
    """With the uuids in lower case and with hyphens the peer answers what we answer at once."""
    if not oddly_spelled(seen.request):
        return set()
    if seen.request.method != "GET":
        return set(found) if seen.request.path.startswith(_KEEPERS) else set()
    target = _HEX.sub(_spelled, unquote(seen.request.query))
    pairs = parse_qsl(target, keep_blank_values=True)
    plain = replace(seen.request, target=f"{seen.request.path}?{urlencode(pairs)}")
    theirs = seen.their_side.ask(plain)
    left = differences(plain, seen.ours, theirs)
    return set() if explain(replace(seen, request=plain, theirs=theirs), left)[1] else set(found)


#: Seen only by looking after a refusal, and mended at once.
LEFT_BEHIND = Explanation(
    "no consumer is left behind",
    "The peer keeps a consumer, made for a claim that it then refuses because a provider does not "
    "exist; the client's next try, with the generation null, is a conflict for ever.",
    lambda _seen, _found: set(),
)
#: What a write says may be the same and what it leaves behind not.
SPELLING = Explanation(
    "a uuid is the same however it is spelled",
    "A uuid in capitals or without hyphens names the same thing.",
    _spelling,
)

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        "an error varies with the version too",
        "A cache that is not told so could hand the error of one microversion to another.",
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
        "of several faults in a query another is told",
        "We go by group and parameter, so that the same faults are told whatever the order in "
        "which a client writes them; the peer goes by that order.",
        _another_fault,
    ),
    Explanation(
        "what stands in the way of a claim is told by class, provider and amounts",
        "Where several things do, the one told may be another; of missing inventories the peer "
        "lists all classes and some of the providers asked, as if each lacked each.",
        _one_obstacle,
    ),
    Explanation(
        "the limit keeps others",
        "No order is promised; ours is that of the providers' ids, the same every time.",
        _limit,
    ),
    SPELLING,
    LEFT_BEHIND,
    Explanation(
        "amounts do not pile up",
        "Where the group without a suffix and another ask for the same class, the peer adds the "
        "amounts of one candidate to those of others and loses candidates by it. A naive search of "
        "the same cloud finds what we find.",
        _piled_up,
    ),
    Explanation(
        "no candidate is lost",
        "Where providers share, the peer leaves out candidates of some trees. A naive search of "
        "the same cloud finds what we find.",
        _lost,
    ),
    Explanation(
        "a group without resources may only forbid",
        "Where a group without resources names no trait or aggregate to have, only some to lack or "
        "a tree to be in, the peer finds nobody. A naive search finds what we find.",
        _forbids_only,
    ),
    Explanation(
        "a sound question for candidates is answered",
        "The peer fails (500) on some that several providers together could serve.",
        _broken,
    ),
    Explanation(
        "an answer that may be kept tells since when it holds",
        "Of a provider with a parent, renamed by a body without parent, the peer tells "
        "cache-control and no last-modified.",
        _modified,
    ),
    Explanation(
        "what a version does not serve is not found",
        "The peer looks at the content type of aggregates before it looks at the version.",
        _not_served,
    ),
    Explanation(
        "a malformed request is refused, not failed on",
        "The peer answers some with 500, which tells the client to try again.",
        _failure,
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
    Explanation(
        "what is no text is refused",
        "A NUL character or bytes that are not UTF-8 are told wherever they stand: no database "
        "could keep such text alike, and the peer looks past it or fails, by route.",
        _nul,
    ),
    Explanation(
        "an unknown trait or class is told, always",
        "The peer looks at a group only after others have found somebody, so a misspelled trait "
        "looks like a full cloud.",
        _unknown_name,
    ),
)
