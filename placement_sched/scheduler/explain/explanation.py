"""The explanation of a run, with a verdict on each host that is asked about."""

from collections.abc import Iterable
from dataclasses import replace

from placement_sched.candidates.explain_stages import stages_of
from placement_sched.db.transaction import Connection
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.decision import NO_VALID_HOST, SELECTED
from placement_sched.model.document import Json
from placement_sched.model.explanation import (
    CANDIDATES,
    COMPUTE_NODES,
    FILTERS,
    REQUEST_FILTERS,
    HostVerdict,
    View,
    hosts_as_json,
)
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.explain.asked_hosts import asked_hosts
from placement_sched.scheduler.explain.funnel import funnel_of
from placement_sched.scheduler.explain.trials import first_instance
from placement_sched.scheduler.explain.verdicts import asked_searches, verdicts
from placement_sched.scheduler.explain.would_fit import would_fit


def explained(connection: Connection, run: Run, view: View) -> Json:
    """Return how a run went; where the view is of some hosts, with a verdict on each of them."""
    judged: Json = {}
    chosen = run.request.chosen
    hosts = run.choice.first.host_reports() if run.choice else ()
    if view.hosts is None:
        funnel = funnel_of(run, connection, view)
    else:
        asked = asked_hosts(connection, view.hosts)
        nodes = (one.node for some in asked.values() for one in some)
        view = View(frozenset([*asked, *nodes]), view.max_rejected)
        # Whatever is shown of it, verdicts may need what it says of each host.
        funnel = funnel_of(run, connection, replace(view, max_rejected=0))
        found = verdicts(connection, run, asked, funnel)
        judged = {"verdicts": [one.as_json() for one in found], "stages": stages_of_run(run, found)}
    if view.hosts is None:  # what is least to change in the whole cloud; verdicts say it of a host
        misses = funnel.allocation_candidates.nearest_misses
        funnel = replace(funnel, would_fit=would_fit(connection, run, misses))
    return {
        "outcome": SELECTED if run.selections else NO_VALID_HOST,
        "policy": chosen.policy.name if chosen else DEFAULT_POLICY,
        **judged,
        "funnel": funnel.as_json(view),
        "hosts": hosts_as_json(hosts, view),
        "selections": [[one.as_json() for one in some] for some in run.selections],
    }


def stages_of_run(run: Run, verdicts: Iterable[HostVerdict]) -> list[Json]:
    """Return family and name of each stage that hosts were asked by, in order, each once.

    A host that is not rejected by one of them passes it. Those that no constraint or plugin stands
    for (``limit``, ``combination``) are there where they reject a host.
    """
    found = [(REQUEST_FILTERS, report.name) for report in run.narrowed.reports if report.applied]
    found += [(REQUEST_FILTERS, one.name) for one in run.narrowed.reports if one.refusal]
    for before, asked in asked_searches(run):
        steps = stages_of(asked.search)
        found += [(CANDIDATES, f"{before}{one.kind} {one.detail}".strip()) for one in steps]
    after = [(FILTERS, name) for name in run.chooser.stage_names(first_instance(run))]
    others = [(one.stage, one.name) for verdict in verdicts for one in verdict.reasons if one.name]
    before_filters = [one for one in others if one[0] != FILTERS]
    every = dict.fromkeys([*found, *before_filters, (FILTERS, COMPUTE_NODES), *after, *others])
    if (FILTERS, COMPUTE_NODES) not in others:
        del every[FILTERS, COMPUTE_NODES]
    return [{"stage": stage, "name": name} for stage, name in every]
