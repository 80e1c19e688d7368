# SPDX-License-Identifier: Apache-2.0
"""The cloud as request filters see it, as plain values, and what a filter says of a request."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.request_filters import BaseRequestFilter, RequestFilterResult
from tests.support.states import aggregates, settings_with


@dataclass(frozen=True)
class AWorld:
    """Host aggregates, provider aggregates by provider, and what every enabled node has."""

    aggregates: tuple[HostAggregate, ...] = ()
    memberships: Mapping[str, frozenset[str]] = field(default_factory=dict)
    common_traits: frozenset[str] = frozenset()

    @classmethod
    def of(cls, *metadata: dict[str, str]) -> "AWorld":
        """Return the world with one aggregate for each of these metadata."""
        return cls(aggregates(*metadata))

    def host_aggregates(self) -> tuple[HostAggregate, ...]:
        return self.aggregates

    def provider_aggregates(self, uuids: Collection[str]) -> Mapping[str, frozenset[str]]:
        return {uuid: self.memberships[uuid] for uuid in uuids if uuid in self.memberships}

    def all_nodes_have(self, trait: str) -> bool:
        return trait in self.common_traits


NOWHERE = AWorld()


def applied(
    kind: type[BaseRequestFilter], spec: RequestSpec, world: AWorld = NOWHERE, **options: Any
) -> RequestFilterResult | Rejection | None:
    """Return what a filter makes of a request under the default settings, some laid over."""
    return kind.with_settings(settings_with(**options)).apply(spec, world)


def root_required(
    kind: type[BaseRequestFilter], spec: RequestSpec, world: AWorld = NOWHERE, **options: Any
) -> list[str]:
    """Return the traits that a filter asks of the root beside those asked of it already.

    What it reports must be just that.
    """
    outcome = applied(kind, spec, world, **options)
    if outcome is None:
        return []
    assert isinstance(outcome, RequestFilterResult)
    added = sorted(outcome.spec.root_required - spec.root_required)
    assert outcome.changes.get("root_required", []) == added
    return added
