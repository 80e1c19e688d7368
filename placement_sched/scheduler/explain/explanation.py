"""The explanation of a run, with a verdict on each host that is asked about."""

from dataclasses import replace

from placement_sched.db.transaction import Connection
from placement_sched.model.document import Json
from placement_sched.model.host_aggregate import DEFAULT_POLICY
from placement_sched.model.results.decision import NO_VALID_HOST, SELECTED
from placement_sched.model.results.funnel import hosts_as_json
from placement_sched.model.results.stages import View
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.explain.asked_hosts import asked_hosts
from placement_sched.scheduler.explain.funnel import funnel_of
from placement_sched.scheduler.explain.verdicts import stages_of_run, verdicts
from placement_sched.scheduler.explain.would_fit import would_fit


def explained(connection: Connection, run: Run, view: View) -> Json:
    """Return how a run went; where the view is of some hosts, with a verdict on each of them."""
    judged: Json = {}
    if view.hosts is not None:
        asked = asked_hosts(connection, view.hosts)
        nodes = (one.node for some in asked.values() for one in some)
        view = View(frozenset([*asked, *nodes]), view.max_rejected)
        found = verdicts(connection, run, asked)
        judged = {"verdicts": [one.as_json() for one in found], "stages": stages_of_run(run, found)}
    chosen = run.request.chosen
    hosts = run.choice.first.host_reports() if run.choice else ()
    funnel = funnel_of(run, connection, view)
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
