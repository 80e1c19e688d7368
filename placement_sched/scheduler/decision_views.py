"""Recorded decisions as they are asked for and shown, over HTTP and at the command line."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from placement_sched.db.sql import batches
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.decision import (
    EXPLAIN,
    Conditions,
    Decision,
    DecisionSeed,
    DecisionSummary,
    DecisionsWanted,
    KeptFunnel,
    RunDifference,
    differences,
)
from placement_sched.model.document import Json
from placement_sched.model.explanation import CANDIDATES, FILTERS, RejectReason, View
from placement_sched.model.names import suggested
from placement_sched.model.request_ids import NO_REQUEST
from placement_sched.scheduler.decisions import as_overrides, decided
from placement_sched.scheduler.explain.explanation import explained
from placement_sched.scheduler.explain.funnel import funnel_of
from placement_sched.scheduler.explain.verdicts import asked_hosts, verdicts
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.selection import Run
from placement_sched.scheduler.simulation import changes_from
from placement_sched.schemas import formats
from placement_sched.store import decisions
from placement_sched.store.compute import compute_nodes, flavors, server_groups

#: What of the decisions wanted is taken as it is given.
_PLAIN = ("outcome", "kind", "project_id", "flavor", "host", "request_id", "global_request_id")
_TIMES = ("since", "until")


def decisions_wanted(asked: Mapping[str, str | None]) -> DecisionsWanted:
    """Return which decisions the parameters of a list ask for.

    Raises :class:`Invalid` naming the one that is not a uuid or a time.
    """
    policy, instance = asked.get("policy"), asked.get("instance")
    plain: Json = {name: asked.get(name) for name in _PLAIN}
    for name in _TIMES:
        if (time := asked.get(name)) is not None:
            plain[name] = formats.read(formats.moment, time, name)
    return DecisionsWanted(
        **plain,
        policy=None if policy is None else policy.lower(),  # as the names of sections are
        instance=None if instance is None else formats.read(formats.uuid, instance, "instance"),
    )


def unknown_names(
    connection: Connection, asked: Mapping[str, str], policies: Policies
) -> list[Json]:
    """Return what of a list's parameters names nothing that there is, nor any recorded decision.

    Each has the ``key`` of the parameter and a ``detail``, a sentence with the names that may be
    meant. Names of what was deleted are known as long as a decision has them; projects are free.
    """
    return list(_unknown(connection, asked, policies))


def _unknown(
    connection: Connection, asked: Mapping[str, str], policies: Policies
) -> Iterator[Json]:
    def of_flavors() -> Collection[str]:
        return [one.name for one in flavors.all_flavors(connection)]

    def of_policies() -> Collection[str]:
        return [DEFAULT_POLICY, *policies.names]

    def of_hosts() -> Collection[str]:
        return {host for host, _ in compute_nodes.names_by_uuid(connection).values()}

    def of_hosts_and_nodes() -> Collection[str]:
        return compute_nodes.all_names(connection)

    nouns: Mapping[str, tuple[str, str, Callable[[], Collection[str]]]] = {
        "flavor": ("flavor", "flavor", of_flavors),
        "policy": ("policy", "policy", of_policies),
        "host": ("host", "host", of_hosts),
        "refused": ("host", "host", of_hosts_and_nodes),
    }
    for key, (noun, column, known) in nouns.items():
        if (name := asked.get(key)) is None:
            continue
        recorded = decisions_wanted({column: name})
        if decisions.search(connection, recorded, limit=1):
            continue
        name = recorded.policy if key == "policy" and recorded.policy else name
        names = {*known(), *decisions.recent_names(connection, column)}
        if name not in names and not (key == "policy" and policies.usable(name)):
            detail = f"there is no {noun} {name!r}{suggested(noun, name, names)}"
            yield {"key": key, "detail": detail}


def shown(decision: Decision) -> Json:
    """Return a decision with its request, its funnel and what was chosen."""
    conditions = decision.conditions
    return summary_of(decision) | {
        "request": decision.request,
        "funnel": decision.funnel,
        "best": decision.best,
        "selections": decision.answer["selections"],
        "conditions": None if conditions is None else conditions.as_json(),
    }


def summary_of(decision: DecisionSummary) -> Json:
    """Return what a list shows of a decision."""
    ids, names = decision.request_ids, ("uuid", "outcome", "kind", "flavor", "project_id")
    return {name: getattr(decision, name) for name in (*names, "created_at", "policy")} | {
        "request_id": ids.request_id,
        "global_request_id": ids.global_request_id,
        "instances": [{"uuid": place.instance, "host": place.host} for place in decision.places],
    }


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


#: The settings to replay with: those in effect now, or those that the decision was made under.
NOW, THEN = "now", "then"
#: Of how many hosts chosen then, and not now, the verdict of now is given.
MOST_JUDGED = 10


def replay(
    scheduler: Scheduler, decision: Decision, *, settings: str = NOW, view: View | None = None
) -> Json:
    """Return a decision, how its request fares now, and what differs (contract §4).

    The overrides and the changes of an explanation are part of what was asked, and hold in both
    ``settings``. For hosts that were chosen then and are not now, ``verdicts`` say why. Raises
    :class:`Invalid` for settings of then that were not recorded or cannot be used any more, and
    what :meth:`Scheduler.explain` raises.
    """
    changes = changes_from(decision.conditions.changes if decision.conditions else ())

    def answer(other: Scheduler, *_: object) -> Json:
        return _replayed(other, decision, settings, view or View())

    return scheduler.supposing(changes, answer) if changes else answer(scheduler)


def _replayed(scheduler: Scheduler, decision: Decision, settings: str, view: View) -> Json:
    then = decision.conditions or Conditions()
    document, differing = _document(scheduler, decision, then)
    request = scheduler.reader.read(
        document,
        alternates=then.alternates,
        policy=then.policy,
        overrides=_overrides(scheduler, decision, settings),
    )
    seed = DecisionSeed(decision.uuid, then.attempt)
    with scheduler.evaluated(scheduler.reader.checked(request), seed=seed) as (connection, run):
        now = explained(connection, run, view)
        funnel = funnel_of(run, connection)
        again = shown(decided(run, funnel, EXPLAIN, NO_REQUEST, then.changes))
        now |= _verdicts(connection, run, decision)
    before = shown(decision)
    if decision.conditions is None:
        again["conditions"] = None
    for key in then.left_out:
        again["conditions"]["options"].pop(key, None)
    differing += list(differences(before, again))
    return {"then": before, "now": now, "differences": [asdict(one) for one in differing]}


def _document(
    scheduler: Scheduler, decision: Decision, then: Conditions
) -> tuple[Json, list[RunDifference]]:
    """Return the request to read again: its instances as they were, its stored group as it is."""
    document = {**decision.request, "instance_uuids": [place.instance for place in decision.places]}
    if not then.names_group:
        return document, []
    group = document["instance_group"]["uuid"]
    with scheduler.source.read() as connection:
        stored = server_groups.by_uuid(connection, group)
    if stored is None:
        return document, [RunDifference("server group", group, None)]
    return {**document, "instance_group": group}, []


def _overrides(scheduler: Scheduler, decision: Decision, settings: str) -> Mapping[str, Any]:
    then = decision.conditions
    if settings == NOW:
        return then.overrides if then else {}
    if then is None:
        raise Invalid(
            f"the settings of decision {decision.uuid} were not recorded, as it was made by an "
            f"earlier release; replay it with the settings of {NOW!r}"
        )
    return as_overrides(then, scheduler.live.settings())


def _verdicts(connection: Connection, run: Run, decision: Decision) -> Json:
    """Return the verdicts of now on hosts that were chosen then, where they are not chosen now."""
    chosen = {best.service_host for best, *_ in run.selections}
    hosts = dict.fromkeys(place.host for place in decision.places if place.host is not None)
    lost = [host for host in hosts if host not in chosen][:MOST_JUDGED]
    if not lost:
        return {}
    judged = verdicts(connection, run, asked_hosts(connection, lost))
    return {"verdicts": [one.as_json() for one in judged]}
