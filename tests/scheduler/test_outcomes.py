"""What a request filter may return, and what of it is told to be its fault."""

from dataclasses import replace
from uuid import UUID

import pytest

from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.outcomes import check_outcome
from placement_sched.scheduler.request_filters import (
    Outcome,
    confined,
    forbidding,
    kept_out,
    requiring,
)
from tests.scheduler.states import a_spec

AGGREGATES = [str(UUID(int=number)) for number in (1, 2)]
SPEC = a_spec(
    request_level_params={"root_required": ["CUSTOM_A"], "root_forbidden": ["CUSTOM_B"]},
    requested_destination={"aggregates": AGGREGATES, "forbidden_aggregates": [str(UUID(int=3))]},
)


def params(**changes):
    return Outcome(
        replace(SPEC, request_level_params=replace(SPEC.request_level_params, **changes))
    )


def destination(**changes):
    return Outcome(replace(SPEC, requested_destination=replace(SPEC.destination, **changes)))


@pytest.mark.parametrize(
    "outcome",
    [
        None,
        Refusal("no"),
        Outcome(SPEC),
        Outcome(SPEC, {"found": ["x"], "how": {"many": 2}}),
        requiring(SPEC, "CUSTOM_C"),
        forbidding(SPEC, "CUSTOM_C"),
        confined(SPEC, AGGREGATES),
        kept_out(SPEC, AGGREGATES),
    ],
    ids=range(8),
)
def test_narrower_request_refusal_and_none_are_outcomes(outcome):
    check_outcome(SPEC, outcome)


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (True, "apply returned bool"),
        ("no", "apply returned str"),
        (SPEC, "apply returned RequestSpec"),
        (Outcome(None), "spec is NoneType, no RequestSpec"),
        (Outcome(SPEC, None), None),
        (Outcome(SPEC, [1]), None),
        (Outcome(SPEC, {1: 2}), None),
        (Outcome(SPEC, {"x": object()}), None),
        (Refusal(None), "a refusal's reason is a text, not None"),
        (Refusal(""), "a refusal's reason is a text"),
        (Outcome(replace(SPEC, request_level_params=None)), "request_level_params became NoneType"),
        (Outcome(replace(SPEC, flavor=None)), "flavor became NoneType"),
        (Outcome(replace(SPEC, scheduler_hints=None)), "scheduler_hints became NoneType"),
        (Outcome(replace(SPEC, num_instances=5)), "may not change num_instances"),
        (params(root_required=SPEC.root_required | {5}), "5 is no name of a trait"),
        (confined(SPEC, ["not-a-uuid"]), "badly formed"),
        (confined(SPEC, []), "badly formed"),
        (kept_out(SPEC, ["zz"]), "badly formed"),
        (params(root_required=frozenset()), "became wider: CUSTOM_A"),
        (params(root_forbidden=frozenset()), "became wider: CUSTOM_B"),
        (destination(aggregates=SPEC.destination.aggregates[:1]), f"wider: {AGGREGATES[1]}"),
        (destination(forbidden_aggregates=()), f"became wider: {UUID(int=3)}"),
    ],
    ids=range(22),
)
def test_anything_else_is_the_filters_fault(outcome, told):
    with pytest.raises((TypeError, ValueError), match=told):
        check_outcome(SPEC, outcome)
