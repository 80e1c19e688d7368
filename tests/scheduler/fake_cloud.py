# SPDX-License-Identifier: Apache-2.0
"""A cloud for request filters without a database, and results of filters."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.rejection import Rejection
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.request_filters import BaseRequestFilter, RequestFilterResult
from tests.support.states import build_aggregates, build_settings


@dataclass(frozen=True)
class FakeCloud:
    """Host aggregates, provider aggregates by provider, and traits of every enabled node."""

    aggregates: tuple[HostAggregate, ...] = ()
    memberships: Mapping[str, frozenset[str]] = field(default_factory=dict)
    common_traits: frozenset[str] = frozenset()
    #: The numbers of nodes that lack another trait, and of all nodes.
    lacking: tuple[int, int] | None = None

    @classmethod
    def with_metadata(cls, *metadata: dict[str, str]) -> "FakeCloud":
        """Return a cloud with an aggregate for each of the metadata."""
        return cls(build_aggregates(*metadata))

    def host_aggregates(self) -> tuple[HostAggregate, ...]:
        return self.aggregates

    def provider_aggregates(self, uuids: Collection[str]) -> Mapping[str, frozenset[str]]:
        return {uuid: self.memberships[uuid] for uuid in uuids if uuid in self.memberships}

    def count_nodes_lacking_trait(self, trait: str) -> tuple[int, int] | None:
        return (0, 0) if trait in self.common_traits else self.lacking


EMPTY_CLOUD = FakeCloud()


def build_aggregate_uuids(*numbers: int) -> list[str]:
    """Return the uuids of the aggregates of a fake cloud that have these numbers, from 1."""
    return [str(UUID(int=number)) for number in numbers]


def run_request_filter(
    kind: type[BaseRequestFilter], spec: RequestSpec, world: FakeCloud = EMPTY_CLOUD, **options: Any
) -> RequestFilterResult | Rejection | None:
    """Return the result of a filter for a request under the default settings and overrides."""
    return kind.with_settings(build_settings(**options)).apply(spec, world)


def find_added_root_traits(
    kind: type[BaseRequestFilter], spec: RequestSpec, world: FakeCloud = EMPTY_CLOUD, **options: Any
) -> list[str]:
    """Return the root traits that a filter adds, which must equal its report."""
    outcome = run_request_filter(kind, spec, world, **options)
    if outcome is None:
        return []
    assert isinstance(outcome, RequestFilterResult)
    added = sorted(outcome.spec.root_required - spec.root_required)
    assert outcome.changes.get("root_required", []) == added
    return added
