"""What nova did with the instances of a request that was evaluated beside it, and the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from placement_sched.model.request_ids import NO_REQUEST, RequestIds

#: What nova did is not known yet.
PENDING = "pending"
#: nova chose the host that was chosen here.
SAME_HOST = "same_host"
#: nova chose another of the hosts that weigh as much as the one chosen here: it draws among them.
EQUAL_WEIGHT = "equal_weight"
#: Neither found a host.
BOTH_NO_HOST = "both_no_host"
#: nova chose a host that weighs less here, or that a stage refused here.
OTHER_HOST = "other_host"
#: Only nova found a host, or only this service did.
ONLY_NOVA, ONLY_OURS = "only_nova", "only_ours"
#: The request could not be evaluated here.
FAILED = "failed"
#: The instance is on the host of a later attempt of nova, and its first choice is not known.
ALTERNATE = "alternate"
#: What nova did was not found out, or cannot be compared.
UNKNOWN = "unknown"

AGREEING = (SAME_HOST, EQUAL_WEIGHT, BOTH_NO_HOST)
DISAGREEING = (OTHER_HOST, ONLY_NOVA, ONLY_OURS, FAILED)
#: Those that say neither.
OPEN = (ALTERNATE, UNKNOWN, PENDING)
#: All verdicts, the one first that a request of several instances takes from any of them.
VERDICTS = (
    *(FAILED, ONLY_NOVA, ONLY_OURS, OTHER_HOST),
    *(PENDING, UNKNOWN, ALTERNATE),
    *(EQUAL_WEIGHT, SAME_HOST, BOTH_NO_HOST),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowResult:
    """The verdict on one instance of an evaluated request.

    ``position`` is where in the request. ``detail`` are facts by which the verdict can be found or
    explained. ``request_ids``, ``flavor`` and ``created_at`` are read from the decision.
    """

    decision: str
    position: int
    instance: str
    verdict: str = PENDING
    our_host: str | None = None
    nova_host: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    request_ids: RequestIds = NO_REQUEST
    flavor: str | None = None
    created_at: datetime | None = None
