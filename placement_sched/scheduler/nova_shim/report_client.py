# SPDX-License-Identifier: Apache-2.0
"""``nova.scheduler.client.report``: placement client within the process."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from placement_sched.scheduler.nova_shim.exception import NovaException
from placement_sched.scheduler.nova_shim.lookups import get_cloud

#: Function from path and microversion of a GET request to status and body of the Placement API.
Getter = Callable[[str, str], tuple[int, bytes]]
_MICROVERSION = "1.39"


class _Placement:
    """The Placement API of this process."""

    get: Getter | None = None


def set_placement(get: Getter) -> None:
    """Set the function that answers GET requests to the Placement API."""
    _Placement.get = staticmethod(get)


class TraitInfo(NamedTuple):
    """The traits of a provider."""

    traits: frozenset[str]
    generation: int


class AggInfo(NamedTuple):
    """The placement aggregates of a provider."""

    aggregates: frozenset[str]
    generation: int


@dataclass(frozen=True)
class Response:
    """Response to a GET request, with the attributes of keystoneauth."""

    status_code: int
    content: bytes

    def __bool__(self) -> bool:
        return self.status_code < 400

    @property
    def text(self) -> str:
        """Return the body as text."""
        return self.content.decode()

    def json(self) -> Any:
        """Return the decoded JSON body."""
        return json.loads(self.content)


class SchedulerReportClient:
    """Placement client with the methods that read, and without writes."""

    def __init__(self, *_arguments: object, **_named: object) -> None:
        """Create a client, and ignore all arguments."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"SchedulerReportClient.{name} is not provided here: plugins can only read placement"
        )

    def get(self, url: str, version: str | None = None, **_: Any) -> Response:
        """Return the response of the Placement API to a GET request."""
        if _Placement.get is None:
            raise NovaException("the Placement API is not available in this process")
        return Response(*_Placement.get(url, version or _MICROVERSION))

    def get_provider_traits(self, context: Any, rp_uuid: str) -> TraitInfo:
        """Return the traits of a provider, read for all hosts at once."""
        return TraitInfo(get_cloud().traits.get(rp_uuid) or frozenset(), _generation(rp_uuid))

    def _get_provider_traits(self, context: Any, rp_uuid: str) -> TraitInfo:
        return self.get_provider_traits(context, rp_uuid)

    def _get_inventory(self, context: Any, rp_uuid: str) -> Mapping[str, Any] | None:
        values = get_cloud().inventories.get(rp_uuid)
        if values is None:  # no such provider
            return None
        # In the order of INVENTORY_FIELDS. dict(zip()) would take three times as long.
        inventories = {
            name: {
                "total": total,
                "reserved": reserved,
                "min_unit": min_unit,
                "max_unit": max_unit,
                "step_size": step_size,
                "allocation_ratio": ratio,
            }
            for name, (total, reserved, min_unit, max_unit, step_size, ratio) in values.items()
        }
        return {"resource_provider_generation": _generation(rp_uuid), "inventories": inventories}

    def _get_provider_aggregates(self, context: Any, rp_uuid: str) -> AggInfo:
        aggregates = get_cloud().provider_aggregates.get(rp_uuid) or frozenset()
        return AggInfo(aggregates, _generation(rp_uuid))

    def get_providers_in_tree(self, context: Any, uuid: str) -> list[Any]:
        """Return the providers in the same tree as a provider."""
        response = self.get(f"/resource_providers?in_tree={uuid}")
        return list(response.json()["resource_providers"])

    def get_allocs_for_consumer(self, context: Any, consumer: str) -> Mapping[str, Any]:
        """Return the allocations of a consumer, with its owner and generation."""
        allocations: Mapping[str, Any] = self.get(f"/allocations/{consumer}").json()
        return allocations

    def get_allocations_for_consumer(self, context: Any, consumer: str) -> Mapping[str, Any]:
        """Return the resources of a consumer by provider."""
        allocations: Mapping[str, Any] = self.get_allocs_for_consumer(context, consumer)[
            "allocations"
        ]
        return allocations


def _generation(uuid: str) -> int:
    return get_cloud().generations.get(uuid) or 0


_CLIENT = SchedulerReportClient()


def report_client_singleton() -> SchedulerReportClient:
    """Return the client that all plugins share."""
    return _CLIENT
