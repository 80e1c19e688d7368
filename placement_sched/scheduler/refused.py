"""Which recorded decisions rejected a host, as far as what they keep of their funnels says.

A funnel is kept with a bounded number of the hosts that each stage rejected, and that of a plain
selection without the steps of the candidates search. Where a host is not listed and might have been
among those that are not kept, it is not known whether it was rejected: such decisions are counted.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from placement_sched.db.sql import batches
from placement_sched.db.transaction import Connection
from placement_sched.model.decision import DecisionSummary, DecisionsWanted, KeptFunnel
from placement_sched.model.document import Json
from placement_sched.model.explanation import CANDIDATES, FILTERS, RejectReason
from placement_sched.scheduler.kept_decisions import summary_of
from placement_sched.store import decisions

#: How many decisions are examined for one page, and how many funnels are read at once.
MOST_EXAMINED, _AT_ONCE = 1000, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusingPage:
    """Decisions that rejected a host, each with the stages that did.

    ``examined`` is how many were looked at; of ``unknown`` of them it is not known whether they
    rejected it. ``following`` is the marker of what was not looked at, None where nothing is left.
    """

    found: tuple[tuple[DecisionSummary, tuple[RejectReason, ...]], ...]
    examined: int
    unknown: int
    following: str | None

    def as_json(self) -> Json:
        """Return the page as a list shows it."""
        return {
            "decisions": [
                summary_of(one) | {"rejections": [asdict(reason) for reason in reasons]}
                for one, reasons in self.found
            ],
            "refused": {"examined": self.examined, "unknown": self.unknown},
            "next": self.following,
        }


def refusing(
    connection: Connection, wanted: DecisionsWanted, host: str, *, marker: str | None, limit: int
) -> RefusingPage:
    """Return the decisions, the newest first, that are known to have rejected a host or node.

    At most :data:`MOST_EXAMINED` are examined, those that ``wanted`` asks for.
    """
    some = decisions.search(connection, wanted, marker=marker, limit=MOST_EXAMINED)
    found: list[tuple[DecisionSummary, tuple[RejectReason, ...]]] = []
    examined = unknown = 0
    for batch in batches(some, _AT_ONCE):
        funnels = decisions.funnels(connection, [one.uuid for one in batch])
        for one in batch:
            if len(found) == limit:
                break
            examined += 1
            kept = funnels.get(one.uuid, KeptFunnel(None))
            if reasons := tuple(rejections(kept, host)):
                found.append((one, reasons))
            elif host not in {place.host for place in one.places} and not is_known(kept, host):
                unknown += 1
    left = examined < len(some) or len(some) == MOST_EXAMINED
    return RefusingPage(
        found=tuple(found),
        examined=examined,
        unknown=unknown,
        following=some[examined - 1].uuid if left else None,
    )


def rejections(kept: KeptFunnel, host: str) -> Iterator[RejectReason]:
    """Yield each stage of a kept funnel that lists this host, or node, among those it rejected."""
    for family, stage in _stages(kept):
        for one in stage.get("rejected", ()):
            if host in {one["host"], one["node"]}:
                name = stage.get("name") or f"{stage['constraint']} {stage['detail']}".strip()
                yield RejectReason(family, name, one["reason"])


def is_known(kept: KeptFunnel, host: str) -> bool:
    """Return whether a host that no stage lists is known not to have been rejected."""
    if kept.funnel is None:
        return False
    if any(host in {one["host"], one["node"]} for one in kept.best):
        return True
    found = kept.funnel[CANDIDATES]
    counted = bool(found.get("steps")) or not found["hosts"]
    return counted and all(
        stage["before"] - stage["after"] == len(stage.get("rejected", ()))
        for _, stage in _stages(kept)
    )


def _stages(kept: KeptFunnel) -> Iterator[tuple[str, Json]]:
    funnel = kept.funnel or {}
    found = funnel.get(CANDIDATES, {})
    for steps in (found.get("steps", ()), found.get("fallback", {}).get("steps", ())):
        for step in steps:
            yield CANDIDATES, step
    for report in funnel.get(FILTERS, ()):
        yield FILTERS, report
    for report in funnel.get("later_instance", {}).get("filters", ()):
        yield "later_instance", report
