# SPDX-License-Identifier: Apache-2.0
"""``nova.scheduler.client.report``: placement client within the process."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from placement_sched.extensions.nova_plugins.exception import NovaException
from placement_sched.extensions.nova_plugins.lookups import get_lookups
from placement_sched.extensions.nova_plugins.missing import build_missing_error
from placement_sched.extensions.nova_plugins.objects import require_object
from placement_sched.extensions.nova_plugins.provider_tree import ProviderData, ProviderTree

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


class ProviderAllocInfo(NamedTuple):
    """The allocations on a provider by consumer."""

    allocations: Mapping[str, Any]


@dataclass(frozen=True)
class Response:
    """Response to a GET request, with the attributes of keystoneauth."""

    status_code: int
    content: bytes

    def __bool__(self) -> bool:
        return self.ok

    @property
    def ok(self) -> bool:
        """Return whether the request succeeded."""
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
        raise build_missing_error(f"SchedulerReportClient.{name}")

    def get(self, url: str, version: str | None = None, **_: Any) -> Response:
        """Return the response of the Placement API to a GET request."""
        if _Placement.get is None:
            raise NovaException("the Placement API is not available in this process")
        return Response(*_Placement.get(url, version or _MICROVERSION))

    def get_provider_traits(self, context: Any, rp_uuid: str) -> TraitInfo:
        """Return the traits of a provider, read for all hosts at once."""
        return TraitInfo(get_lookups().traits.get(rp_uuid) or frozenset(), _generation(rp_uuid))

    def _get_provider_traits(self, context: Any, rp_uuid: str) -> TraitInfo:
        return self.get_provider_traits(context, rp_uuid)

    def _get_inventory(self, context: Any, rp_uuid: str) -> Mapping[str, Any] | None:
        values = get_lookups().inventories.get(rp_uuid)
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
        aggregates = get_lookups().provider_aggregates.get(rp_uuid) or frozenset()
        return AggInfo(aggregates, _generation(rp_uuid))

    def get_providers_in_tree(self, context: Any, uuid: str) -> list[Any]:
        """Return the providers in the same tree as a provider."""
        response = self.get(f"/resource_providers?in_tree={uuid}")
        return list(response.json()["resource_providers"])

    def get_allocs_for_consumer(self, context: Any, consumer: str) -> Mapping[str, Any]:
        """Return the allocations of a consumer, with its owner and generation."""
        return dict(self.get(f"/allocations/{consumer}").json())

    def get_allocations_for_consumer(self, context: Any, consumer: str) -> Mapping[str, Any]:
        """Return the resources of a consumer by provider."""
        return dict(self.get_allocs_for_consumer(context, consumer)["allocations"])

    def _get_resource_provider(self, context: Any, uuid: str) -> Mapping[str, Any] | None:
        response = self.get(f"/resource_providers/{uuid}")
        return response.json() if response else None

    def get_resource_provider_name(self, context: Any, uuid: str) -> str:
        """Return the name of a provider, or raise ResourceProviderNotFound."""
        provider = self._get_resource_provider(context, uuid)
        return str(require_object(provider, "ResourceProviderNotFound", uuid)["name"])

    def get_provider_by_name(self, context: Any, name: str) -> Mapping[str, Any]:
        """Return the provider with a name, or raise ResourceProviderNotFound."""
        response = self.get(f"/resource_providers?{urlencode({'name': name})}")
        providers: list[Mapping[str, Any]] = response.json().get("resource_providers", [])
        return require_object(next(iter(providers), None), "ResourceProviderNotFound", name)

    def get_provider_tree_and_ensure_root(
        self,
        context: Any,
        rp_uuid: str,
        *,
        name: str | None = None,
        parent_provider_uuid: str | None = None,
    ) -> ProviderTree:
        """Return a provider's tree with inventories, traits and aggregates.

        A missing provider is not created. Raises ResourceProviderNotFound instead.
        """
        providers = self.get_providers_in_tree(context, rp_uuid)
        require_object(providers or None, "ResourceProviderNotFound", rp_uuid)
        return ProviderTree(self._build_provider_data(context, each) for each in providers)

    def _build_provider_data(self, context: Any, provider: Mapping[str, Any]) -> ProviderData:
        uuid = provider["uuid"]
        return ProviderData(
            uuid,
            provider["name"],
            provider["generation"],
            provider["parent_provider_uuid"],
            (self._get_inventory(context, uuid) or {}).get("inventories", {}),
            self.get_provider_traits(context, uuid).traits,
            self._get_provider_aggregates(context, uuid).aggregates,
        )

    def get_allocations_for_resource_provider(
        self, context: Any, rp_uuid: str
    ) -> ProviderAllocInfo:
        """Return the allocations on a provider by consumer."""
        response = self.get(f"/resource_providers/{rp_uuid}/allocations")
        allocations = response.json()["allocations"] if response else None
        error = "ResourceProviderAllocationRetrievalFailed"
        return ProviderAllocInfo(require_object(allocations, error, rp_uuid))


def _generation(uuid: str) -> int:
    return get_lookups().generations.get(uuid) or 0


_CLIENT = SchedulerReportClient()


def report_client_singleton() -> SchedulerReportClient:
    """Return the client that all plugins share."""
    return _CLIENT
