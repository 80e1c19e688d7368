# SPDX-License-Identifier: Apache-2.0
"""Verdicts on the hosts that the request for an explanation names."""

from dataclasses import dataclass

from placement_sched.explain import phrases
from placement_sched.model.document import Json
from placement_sched.model.rejection import CANDIDATES, Rejection, SuggestedChange


@dataclass(frozen=True, slots=True)
class RejectReason:
    """The reason why a stage rejects a host.

    ``stage`` and ``name`` are family and name of the stage. Each change in ``changes`` avoids the
    rejection.
    """

    stage: str
    name: str
    rejection: Rejection
    changes: tuple[SuggestedChange, ...] = ()

    @property
    def reason(self) -> str:
        """Return the sentence about the rejection."""
        return phrases.describe_rejection(self.rejection)

    @property
    def values(self) -> Json:
        """Return the kind and the values of the rejection, with its filter."""
        name = {} if self.stage == CANDIDATES or not self.name else {"filter": self.name}
        return {**name, **self.rejection.as_json()}

    def as_json(self) -> Json:
        """Return the reason as an entry of ``reasons``."""
        stage = {"stage": self.stage, "name": self.name}
        return {
            **stage,
            **phrases.build_reason(self.rejection),
            **stage,
            "changes": [change.as_json() for change in self.changes],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVerdict:
    """The verdict on a compute node that the request names.

    ``requested`` is the name in the request. If the name is that of a provider without a compute
    node, ``host`` and ``node`` are this name, and ``compute_node_uuid`` is None. ``rank`` is the
    position among ``of`` passing hosts, from 1. ``would_pass`` is true if a rejected host passes
    after the first change of each reason, and None if this was not tested. ``similar_names`` is
    set for an unknown name. If it is empty, ``all_names`` has all existing names if they are few.
    """

    requested: str
    verdict: str
    host: str | None = None
    node: str | None = None
    compute_node_uuid: str | None = None
    rank: int | None = None
    of: int | None = None
    weight: float | None = None
    reasons: tuple[RejectReason, ...] = ()
    would_pass: bool | None = None
    similar_names: tuple[str, ...] = ()
    all_names: tuple[str, ...] = ()

    def as_json(self) -> Json:
        """Return the verdict as an entry of ``verdicts``, with every key."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {
            **fields,
            "reasons": [reason.as_json() for reason in self.reasons],
            "similar_names": list(self.similar_names),
            "all_names": list(self.all_names),
        }
