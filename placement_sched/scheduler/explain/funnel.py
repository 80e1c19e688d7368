"""The funnel of a run: what each stage took in, let out and rejected."""

from dataclasses import replace

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
    View,
)
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.explain.named_hosts import unknown_hosts
from placement_sched.scheduler.question import AnsweredSearch
from placement_sched.store.compute import services
from placement_sched.store.placement import resource_providers

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
