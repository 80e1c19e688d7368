"""Replay a recorded decision: run its request again on the cloud of now, and say what differs.

It is the run of every request, dry: its random choices come from the uuid of the decision, as they
did then, so that on the same data and under the same settings nothing differs.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid
from placement_sched.model.decision import (
    EXPLAIN,
    Conditions,
    Decision,
    DecisionSeed,
    RunDifference,
    differences,
)
from placement_sched.model.document import Json
from placement_sched.model.explanation import View
from placement_sched.model.request_ids import NO_REQUEST
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.decisions import decided
from placement_sched.scheduler.explain.asked_hosts import asked_hosts
from placement_sched.scheduler.explain.explanation import explained
from placement_sched.scheduler.explain.funnel import funnel_of
from placement_sched.scheduler.explain.verdicts import verdicts
from placement_sched.scheduler.kept_decisions import shown
from placement_sched.scheduler.kept_options import as_overrides
from placement_sched.scheduler.pipeline import Scheduler
from placement_sched.scheduler.what_if.changes import changes_from
from placement_sched.store.compute import server_groups

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
