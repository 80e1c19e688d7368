"""Recorded decisions as they are asked for and shown, over HTTP and at the command line."""

from collections.abc import Mapping

from placement_sched.model.document import Json
from placement_sched.model.results.decision import Decision, DecisionSummary, DecisionsWanted
from placement_sched.schemas import formats

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
