# SPDX-License-Identifier: Apache-2.0
"""``nova.compute.provider_tree``: providers of a tree with their data."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from placement_sched.extensions.nova_plugins.missing import build_missing_error


class ProviderData(NamedTuple):
    """The data of a provider, under the attribute names of nova."""

    uuid: str
    name: str
    generation: int | None = None
    parent_uuid: str | None = None
    inventory: Mapping[str, Any] = {}
    traits: Collection[str] = frozenset()
    aggregates: Collection[str] = frozenset()
    resources: Mapping[str, Any] = {}


class ProviderTree:
    """Providers that can be read by uuid or name."""

    def __init__(self, providers: Iterable[ProviderData] = ()) -> None:
        """Create a tree with these providers."""
        self._providers = {each.uuid: each for each in providers}

    def __getattr__(self, name: str) -> Any:
        raise build_missing_error(f"nova.compute.provider_tree.ProviderTree.{name}")

    def exists(self, name_or_uuid: str) -> bool:
        """Return whether a provider of this name or uuid is in the tree."""
        return any(name_or_uuid in each[:2] for each in self._providers.values())

    def data(self, name_or_uuid: str) -> ProviderData:
        """Return the data of a provider, or raise :class:`ValueError`."""
        for provider in self._providers.values():
            if name_or_uuid in provider[:2]:
                return provider
        raise ValueError(f"No such provider {name_or_uuid}")

    def get_provider_uuids(self, name_or_uuid: str | None = None) -> list[str]:
        """List a provider and its descendants, parents first (None: all)."""
        providers = self._providers.values()
        roots = [each.uuid for each in providers if each.parent_uuid not in self._providers]
        uuids = roots if name_or_uuid is None else [self.data(name_or_uuid).uuid]
        for uuid in uuids:
            uuids += [each.uuid for each in providers if each.parent_uuid == uuid]
        return uuids

    def get_provider_uuids_in_tree(self, name_or_uuid: str) -> list[str]:
        """List all providers of the tree that contains a provider."""
        provider = self.data(name_or_uuid)
        while provider.parent_uuid in self._providers:
            provider = self._providers[provider.parent_uuid]
        return self.get_provider_uuids(provider.uuid)
