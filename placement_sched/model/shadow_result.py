# SPDX-License-Identifier: Apache-2.0
"""Results of shadow evaluation: nova's hosts compared with our hosts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from placement_sched.model.context import NO_REQUEST, RequestIds

#: nova's choice is not known yet.
PENDING = "pending"
#: nova chose the same host.
SAME_HOST = "same_host"
#: nova chose another host of equal weight. nova chooses at random among hosts of equal weight.
EQUAL_WEIGHT = "equal_weight"
#: Neither nova nor this service found a host.
BOTH_NO_HOST = "both_no_host"
#: nova chose a host that has a lower weight or was rejected here.
OTHER_HOST = "other_host"
#: Only nova, or only this service, found a host.
ONLY_NOVA, ONLY_OURS = "only_nova", "only_ours"
#: The request could not be evaluated here.
FAILED = "failed"
#: nova's choice could not be determined or compared.
UNKNOWN = "unknown"

AGREEING = (SAME_HOST, EQUAL_WEIGHT, BOTH_NO_HOST)
DISAGREEING = (OTHER_HOST, ONLY_NOVA, ONLY_OURS, FAILED)
#: Verdicts that are neither agreement nor disagreement.
OPEN = (UNKNOWN, PENDING)
#: All verdicts, by precedence for a request of several instances.
VERDICTS = (
    *(FAILED, ONLY_NOVA, ONLY_OURS, OTHER_HOST),
    *(PENDING, UNKNOWN),
    *(EQUAL_WEIGHT, SAME_HOST, BOTH_NO_HOST),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowResult:
    """The comparison of nova's host and our host for an instance.

    ``position`` is the index of the instance in the request. ``detail`` has the facts of the
    verdict. ``request_ids``, ``flavor`` and ``created_at`` are the decision's.
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
