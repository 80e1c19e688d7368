"""The funnel of a run: what each stage took in, let out and rejected."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import os_traits

from placement_sched.candidates.constraints import ROOT_REQUIRED
from placement_sched.candidates.explain import SearchRun, explain
from placement_sched.db.transaction import Connection
from placement_sched.model.compute_node import why_disabled
from placement_sched.model.explanation import (
    COMPUTE_NODES,
    CandidatesReport,
    FilterReport,
    Funnel,
    LaterReport,
    Rejected,
    RoomReport,
    StepReport,
    UnknownHost,
    View,
)
from placement_sched.model.names import suggested
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.request_stats import RequestStats
from placement_sched.scheduler.resource_request import AnsweredSearch
from placement_sched.scheduler.selection import Run
from placement_sched.store.compute import compute_nodes, services
from placement_sched.store.placement import resource_providers

#: So many unknown names are reported one by one. Each is compared with all names of the cloud,
#: which takes milliseconds; one request may name thousands.
_MOST = 10


class _Named(NamedTuple):
    """A name in a list of the request spec; ``is_host`` is false for a node."""

    key: str
    position: int
    name: str
    is_host: bool


def unknown_hosts(connection: Connection, spec: RequestSpec) -> tuple[UnknownHost, ...]:
    """Return the hosts and nodes that the request forces or ignores and that are not there.

    Nothing is read where it names none. As in nova's filters, case does not count. Of more than
    ten, the last one returned says how many more there are.
    """
    named = list(_named(spec))
    if not named:
        return ()
    hosts = {one.name for one in named if one.is_host}
    nodes = {one.name for one in named if not one.is_host}
    found = compute_nodes.named(connection, hosts=hosts, nodes=nodes)
    here = {True: {one.host for one in found}, False: {one.hypervisor_hostname for one in found}}
    missing = [one for one in named if one.name not in here[one.is_host]]
    if not missing:
        return ()
    pairs = compute_nodes.names_by_uuid(connection).values()
    known = {True: {host for host, _ in pairs}, False: {node for _, node in pairs}}
    folded = {kind: {name.casefold() for name in names} for kind, names in known.items()}
    unknown = [one for one in missing if one.name.casefold() not in folded[one.is_host]]
    said = [
        UnknownHost(one.key, one.position, _said(one, known[one.is_host]))
        for one in unknown[:_MOST]
    ]
    if more := unknown[_MOST:]:
        detail = f"and {len(more)} more names that are not there, the first {more[0].name!r}"
        said.append(UnknownHost(more[0].key, more[0].position, detail))
    return tuple(said)


def _named(spec: RequestSpec) -> Iterator[_Named]:
    for key in ("force_hosts", "ignore_hosts", "force_nodes"):
        for position, name in enumerate(getattr(spec, key) or ()):
            yield _Named(key, position, name, is_host=key != "force_nodes")


def _said(one: _Named, known: set[str]) -> str:
    noun = "host" if one.is_host else "node"
    return f"there is no {noun} {one.name!r}{suggested(noun, one.name, known)}"


#: Why a candidate on no known compute node is left out: the same words for all, so that they are
#: shown once.
NOT_REPORTED = "no compute node is reported under the uuid of this resource provider"

_DISABLED = f"!{os_traits.COMPUTE_STATUS_DISABLED}"


def funnel_of(run: Run, connection: Connection | None, view: View | None = None) -> Funnel:
    """Return what each stage of a run took in, let out and rejected, for its first instance.

    Without a connection it costs no statement: it lacks the steps of the candidates search, which
    the run itself did not count, and has uuids for the names of providers without a compute node.
    """
    searches, choice, unreported = run.searches, run.choice, run.unreported
    names: dict[str, str] = {}
    unknown = () if connection is None else unknown_hosts(connection, run.narrowed.spec)
    query = searches.query.querystring() if searches.query else ""
    candidates = CandidatesReport(query=query)
    if connection is None:
        candidates = CandidatesReport(query=query, hosts=len(searches.roots))
    elif searches.asked is not None:
        candidates = _candidates_report(connection, run, view or View())
        names = dict(resource_providers.names_of(connection, unreported)) if unreported else {}
    filters = list(choice.first.filters) if choice else []
    if unreported:  # the stage that leaves out providers without a compute node
        shown = (names.get(uuid, uuid) for uuid in unreported)
        before = len(searches.roots)
        left_out = FilterReport(
            name=COMPUTE_NODES,
            before=before,
            after=before - len(unreported),
            rejected=tuple(Rejected(name, name, NOT_REPORTED) for name in shown),
        )
        filters.insert(0, left_out)
    later = room = None
    if choice and choice.later:
        later = LaterReport(
            placed=choice.placed,
            asked=run.narrowed.spec.num_instances,
            filters=choice.later.filters,
        )
    if choice and choice.room_for is not None:
        number = run.narrowed.spec.num_instances
        room = RoomReport(instances=number, at_most=choice.room_for)
    return Funnel(
        request_filters=run.narrowed.reports,
        allocation_candidates=candidates,
        filters=tuple(filters),
        weighers=choice.first.weighed.reports if choice else (),
        states_age=run.cloud.states_age,
        policy=run.request.chosen.report if run.request.chosen else None,
        later=later,
        room=room,
        selected=bool(run.selections),
        warnings=(*searches.ignored, *unknown),
    )


def _candidates_report(connection: Connection, run: Run, view: View) -> CandidatesReport:
    searches = run.searches
    reports = [
        with_reasons(connection, explain(search_run(connection, run, one), view))
        for one in (searches.asked, searches.fallback)
        if one is not None
    ]
    only, *others = reports
    return replace(only, fallback=others[0], hosts=len(searches.roots)) if others else only


def search_run(connection: Connection, run: Run, searched: AnsweredSearch) -> SearchRun:
    """Return a search of a run, to be explained."""
    cloud, settings = run.cloud, run.request.settings
    names = cloud.memory.node_names
    return SearchRun(connection, cloud.providers, searched.search, searched.found, settings, names)


def with_reasons(connection: Connection, report: CandidatesReport) -> CandidatesReport:
    """Return the report with what the operator gave as the reason of each disabled host.

    One statement, where it lists such hosts: the trait that keeps them out does not say why. A
    provider that has the trait without a disabled service keeps the reason that names the trait.
    """

    def is_of_disabled(step: StepReport) -> bool:
        return step.constraint == ROOT_REQUIRED and step.detail == _DISABLED

    listed = {one.host for step in report.steps if is_of_disabled(step) for one in step.rejected}
    if not listed:
        return report
    known = services.by_hosts(connection, listed)

    def explained(rejected: Rejected) -> Rejected:
        service = known.get(rejected.host)
        if service is None or not service.disabled:
            return rejected
        return replace(rejected, reason=why_disabled(service.disabled_reason))

    steps = [
        replace(step, rejected=tuple(map(explained, step.rejected)))
        if is_of_disabled(step)
        else step
        for step in report.steps
    ]
    return replace(report, steps=tuple(steps))


def spent_by(stats: RequestStats) -> dict[str, Any]:
    """Return what a request did, as fields of a log line.

    They are the number of its SQL ``statements`` and of the ``candidates`` that it found, how many
    milliseconds each stage of scheduling took, the ``decision`` with its ``outcome``, and a summary
    of the ``funnel``; None where there was none.
    """
    made = stats.made
    return {
        "statements": stats.statements,
        "candidates": stats.candidates,
        "stages_ms": {name: round(one * 1000, 1) for name, one in stats.stages.items()},
        "decision": made and made.uuid,
        "outcome": made and made.outcome,
        "funnel": funnel_summary(stats.funnel) if stats.funnel else None,
    }


def sentence_of(spent: Mapping[str, Any]) -> str:
    """Return what :func:`spent_by` found in words, as far as there is something to say."""
    return "; ".join(_parts(spent))


def _parts(spent: Mapping[str, Any]) -> Iterator[str]:
    yield f"{spent['statements']} SQL statements"
    if spent["candidates"] is not None:
        yield f"{spent['candidates']} candidates"
    if spent["stages_ms"]:
        longest = sorted(spent["stages_ms"].items(), key=lambda one: -one[1])
        yield ", ".join(f"{name} {took:.0f} ms" for name, took in longest)
    if spent["funnel"]:
        yield f"hosts {spent['funnel']}"
    if spent["decision"]:
        yield f"{spent['outcome']}, decision {spent['decision']}"


def funnel_summary(funnel: Mapping[str, Any]) -> str:
    """Return how many hosts came in, and how many each stage that removed any let through."""
    candidates = funnel.get("allocation_candidates") or {}
    steps = [(one["constraint"], one) for one in candidates.get("steps", ())]
    steps += [(one["name"], one) for one in funnel.get("filters", ())]
    if not steps:
        return ""
    removing = [f"{name} {one['after']}" for name, one in steps if one["after"] < one["before"]]
    return " > ".join([str(steps[0][1]["before"]), *removing])
