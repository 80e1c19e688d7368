"""Differences that are meant: each with what tells it, and why ours is better for users."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.differential.nova.compare import Differences
from tests.differential.nova.generate.requests import Asked
from tests.differential.nova.sides import Answer


@dataclass(frozen=True)
class Seen:
    """A request and both answers."""

    asked: Asked
    ours: Answer
    theirs: Answer

    def verdicts(self, ours: str, theirs: str) -> bool:
        """Return whether these are the verdicts."""
        return (self.ours.verdict, self.theirs.verdict) == (ours, theirs)


@dataclass(frozen=True)
class Explanation:
    """``tells`` returns which of the aspects that differ are explained by it."""

    name: str
    reason: str
    tells: Callable[[Seen, Differences], set[str]]


def _not_let_in(seen: Seen, found: Differences) -> set[str]:
    """Nova's API would refuse an extra spec; ours names it and refuses the request."""
    key = seen.theirs.unsaid.get("key")
    named = key is not None and repr(key) in seen.ours.told
    return {"verdict"} if named and seen.verdicts("refuses", "asks") else set()


def _no_such_node(seen: Seen, found: Differences) -> set[str]:
    """Nova finds nobody without asking, ours asks and finds nobody."""
    told = seen.theirs.told.startswith("NoValidHost") and seen.ours.told.endswith("no_valid_host")
    return {"verdict"} if told and seen.verdicts("asks", "finds nobody") else set()


def _unknown_zone(seen: Seen, found: Differences) -> set[str]:
    zone = seen.asked.request_spec.get("availability_zone")
    zones = {one["metadata"].get("availability_zone") for one in seen.asked.cloud.aggregates}
    told = zone not in zones and "availability zone" in seen.ours.told
    return {"verdict"} if told and seen.verdicts("finds nobody", "asks") else set()


def _default_zone(seen: Seen, found: Differences) -> set[str]:
    """The hosts of all other zones are kept out, and nothing else differs of the aggregates."""
    if seen.asked.request_spec.get("availability_zone") != "nova" or "member_of" not in found:
        return set()
    zoned = {
        one["uuid"]
        for one in seen.asked.cloud.aggregates
        if one["metadata"].get("availability_zone")
    }
    ours, theirs = (_forbidden(values) for values in found["member_of"])
    same = [_required(values) for values in found["member_of"]]
    return {"member_of"} if ours == theirs | zoned and same[0] == same[1] else set()


def _required(values: list[str] | None) -> list[str]:
    return [value for value in values or () if not value.startswith("!")]


def _forbidden(values: list[str] | None) -> set[str]:
    return {
        uuid
        for value in values or ()
        if value.startswith("!in:")
        for uuid in value.removeprefix("!in:").split(",")
    }


def _no_format(seen: Seen, found: Differences) -> set[str]:
    told = seen.theirs.told.startswith("NotImplementedError: Cannot load 'disk_format'")
    without = not (seen.asked.request_spec["image"] or {}).get("disk_format")
    return {"verdict"} if told and without and seen.verdicts("asks", "refuses") else set()


EXPLANATIONS = (
    Explanation(
        "what no flavor can say is refused",
        "An extra spec that nova's API lets nobody write is 400 and named where a request brings "
        "it along; nova's scheduler, which looks at it no more, may go on without it.",
        _not_let_in,
    ),
    Explanation(
        "a host that is not there is asked for all the same",
        "A request for a host or node that nobody has reported shows the query that it would "
        "have; nova ends before it makes one.",
        _no_such_node,
    ),
    Explanation(
        "a zone that no aggregate has finds nobody",
        "It is told before anything is asked. nova's API looks at zones before its scheduler does, "
        "and the scheduler asks for candidates anywhere.",
        _unknown_zone,
    ),
    Explanation(
        "the default zone is what is in no other",
        "A request for default_availability_zone is kept out of the aggregates of other zones; "
        "nova asks for candidates anywhere and leaves the rest to a host filter.",
        _default_zone,
    ),
    Explanation(
        "an image may have no disk format",
        "Such an image is one that asks for no support of a format; nova fails on it where "
        "query_placement_for_image_type_support is set.",
        _no_format,
    ),
)


def explain(seen: Seen, found: Differences) -> tuple[list[str], Differences]:
    """Return the names of the explanations that hold, and the aspects that none explains."""
    names, left = [], dict(found)
    for explanation in EXPLANATIONS:
        claimed = explanation.tells(seen, left) & left.keys() if left else set()
        if claimed:
            names.append(explanation.name)
            left = {aspect: values for aspect, values in left.items() if aspect not in claimed}
    return names, left
