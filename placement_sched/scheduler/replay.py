# SPDX-License-Identifier: Apache-2.0
"""Evaluation of the request of a recorded decision, as of now."""

from placement_sched.model.decision import Conditions, Decision, RunDifference
from placement_sched.model.document import Json
from placement_sched.scheduler.scheduler import Evaluator
from placement_sched.store.compute import server_groups


def find_hosts_now(scheduler: Evaluator, decision: Decision) -> tuple[str, ...]:
    """Choose a host for each instance of a recorded request, as of now.

    Returns no hosts if there is no valid host now. Raises the errors of :meth:`Evaluator.explain`.
    """
    conditions = decision.conditions or Conditions()
    document, _ = build_request(scheduler, decision, conditions)
    request = scheduler.reader.validate(scheduler.reader.read(document))
    with scheduler.source.read() as connection:
        run = scheduler.evaluate(connection, request)
    return tuple(best.service_host for best, *_ in run.selections)


def build_request(
    scheduler: Evaluator, decision: Decision, conditions: Conditions
) -> tuple[Json, list[RunDifference]]:
    """Return the recorded request, and a difference if its group is gone."""
    document = {
        **decision.request,
        "instance_uuids": [place.instance for place in decision.instances],
    }
    if not conditions.names_group:
        return document, []
    group = document["instance_group"]["uuid"]
    with scheduler.source.read() as connection:
        stored = server_groups.find_by_uuid(connection, group)
    if stored is None:
        return document, [RunDifference("server group", group, None)]
    return {**document, "instance_group": group}, []
