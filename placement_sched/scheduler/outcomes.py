"""What a request filter returns, checked: strangers write them, and no host is to answer for it."""

from collections import Counter
from dataclasses import fields

import orjson

from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.groups.requested import aggregate_terms
from placement_sched.scheduler.request_filters import Outcome

#: What a request filter leaves as it is.
_KEPT = ("flavor", "image", "num_instances", "instance_uuids", "force_hosts", "force_nodes")


def check_outcome(spec: RequestSpec, outcome: object) -> None:
    """Raise :class:`TypeError` or :class:`ValueError` for what a filter of ``spec`` may not return.

    Neither of them is anything but an outcome, a refusal or None; a refusal says why; the request
    of an outcome is of the types it was of, for the same instances, and never wider.
    """
    if isinstance(outcome, Outcome):
        orjson.dumps(dict(outcome.changes))  # explanations tell it
        _check_spec(spec, outcome.spec)
    elif isinstance(outcome, Refusal):
        if not (isinstance(outcome.reason, str) and outcome.reason):
            raise TypeError(f"a refusal's reason is a text, not {outcome.reason!r}")
    elif outcome is not None:
        raise TypeError(f"apply returned {type(outcome).__name__}, no Outcome, Refusal or None")


def _check_spec(before: RequestSpec, after: RequestSpec) -> None:
    if after is before:
        return
    if not isinstance(after, RequestSpec):
        raise TypeError(f"the outcome's spec is {type(after).__name__}, no RequestSpec")
    for field in fields(RequestSpec):
        was, now = getattr(before, field.name), getattr(after, field.name)
        if was is not None and not isinstance(now, type(was)):
            raise TypeError(f"{field.name} became {type(now).__name__}")
        if field.name in _KEPT and now != was:
            raise ValueError(f"a request filter may not change {field.name}")
    for trait in after.root_required | after.root_forbidden:
        if not isinstance(trait, str):
            raise TypeError(f"{trait!r} is no name of a trait")
    _check_places(before, after)


def _check_places(before: RequestSpec, after: RequestSpec) -> None:
    """Raise :class:`ValueError` where a request may go to more hosts than it might before."""
    was, now = before.destination, after.destination
    aggregate_terms(
        (joined.split(",") for joined in now.aggregates), now.forbidden_aggregates
    )  # each is a uuid
    lost = (
        before.root_required - after.root_required
        or before.root_forbidden - after.root_forbidden
        or Counter(was.aggregates) - Counter(now.aggregates)
        or set(was.forbidden_aggregates) - set(now.forbidden_aggregates)
    )
    if lost:
        raise ValueError(f"the request became wider: {', '.join(sorted(lost))} was asked before")
