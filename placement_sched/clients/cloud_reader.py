# SPDX-License-Identifier: Apache-2.0
"""Reading of a whole cloud over the APIs of placement, nova and glance.

Only GET is used. Inventories and allocations need a call per provider, traits and aggregates a call
per name. Changed providers and servers are read again at the end.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from placement_sched.clients.api_reader import ApiReader, CallPool, Microversion, format_version
from placement_sched.clients.cloud_documents import (
    ConsumerReading,
    ProviderReading,
    ServerReading,
    read_consumer,
    read_inventories,
    read_provider,
    read_provider_allocations,
)
from placement_sched.clients.cloud_lists import COMPUTE, CloudLists, ListReader
from placement_sched.errors import ServiceFailed
from placement_sched.model.clock import Clock
from placement_sched.model.document import Json
from placement_sched.model.provider import SHARES, Amounts

T = TypeVar("T")

#: The oldest microversion that is supported, and its release, by service.
_OLDEST: Mapping[str, tuple[Microversion, str]] = {
    "placement": ((1, 14), "Queens"),
    "compute": ((2, 61), "Rocky"),
}
#: The newest supported microversion of placement, and the first with a search by trait.
_PLACEMENT, _BY_TRAIT = (1, 39), (1, 18)
#: Facts that no API shows.
FACTS_OF_NO_API = (
    *("host_numa", "pci_pools", "supported_instances", "stats", "metrics", "cells"),
    "port_requests",
)
_RULES: Mapping[str, str] = {
    "providers": "placement:resource_providers:list",
    "inventories": "placement:resource_providers:inventories:list",
    "allocations": "placement:resource_providers:allocations:list",
    "traits": "placement:resource_providers:traits:list",
    "aggregates": "placement:resource_providers:aggregates:list",
    "consumers": "placement:allocations:list",
    "trait names": "placement:traits:list",
    "classes": "placement:resource_classes:list",
}
#: Maximum number of times that changed providers are read again.
_MAX_ROUNDS = 3
#: Maximum difference between the clocks of nova and of this machine.
_CLOCK_MARGIN = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierReading:
    """The providers of an earlier reading, and when it began (naive UTC)."""

    began: datetime
    providers: Mapping[str, ProviderReading]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudReading:
    """A cloud, as its APIs show it between two moments (naive UTC).

    ``allocations`` are the amounts of each consumer by provider. ``consumers`` are the consumers
    that are no servers, and servers that changed during the reading. ``migrations`` maps consumers
    that are migrations to their servers, and ``appeared`` has the consumers that appeared during
    the reading. ``reused`` is the number of providers of an earlier reading. ``missing`` maps facts
    to the reason why they are missing.
    """

    began: datetime
    ended: datetime
    calls: int
    reused: int
    versions: Mapping[str, str]
    resource_classes: tuple[str, ...]
    traits: tuple[str, ...]
    lists: CloudLists
    providers: Mapping[str, ProviderReading]
    allocations: Mapping[str, Mapping[str, Amounts]]
    consumers: Mapping[str, ConsumerReading]
    migrations: Mapping[str, str]
    appeared: frozenset[str]
    missing: Mapping[str, str]


def read_cloud(
    apis: tuple[ApiReader, ApiReader, ApiReader],
    pool: CallPool,
    clock: Clock,
    *,
    all_aggregates: bool = False,
    earlier: EarlierReading | None = None,
) -> CloudReading:
    """Read a cloud with the threads of ``pool``.

    ``apis`` are placement, nova and glance. With ``all_aggregates``, the aggregates of each
    provider are read. Providers of ``earlier`` that have not changed are not read again. Raises
    :class:`~placement_sched.errors.ServiceFailed` if a service fails, and
    :class:`~placement_sched.clients.api_reader.MissingRight` if a policy hides a necessary list.
    """
    began = clock()
    placement, compute, image = apis
    pool.run([partial(api.negotiate, *_OLDEST[api.kind]) for api in (placement, compute)])
    missing: dict[str, str] = {}
    lister = ListReader(compute, image, missing)
    lister.note_missing_versions()
    reader = _PlacementReader(placement, pool, missing)
    works: list[Callable[[], Any]] = [reader.list_providers, reader.list_custom_traits]
    listed, traits, classes = pool.run([*works, reader.list_classes])
    lists = lister.read_lists(pool.run)
    unchanged = {} if earlier is None else _find_unchanged(listed, earlier, lists.servers)
    providers = reader.read_providers(listed, unchanged)
    first_consumers = _find_consumers(providers)
    providers = reader.add_names(providers, lists, all_aggregates=all_aggregates)
    providers, servers = _settle(reader, lister, providers, lists.servers, began)
    uncertain = _find_uncertain(providers, servers, began)
    consumers = reader.read_consumers(uncertain)
    allocations = _map_allocations(providers, uncertain)
    allocations |= {uuid: consumer.allocations for uuid, consumer in consumers.items()}
    no_servers = consumers.keys() - servers.keys()
    migrations = lister.find_migrations(no_servers) if no_servers else {}
    # Lists have neither servers that are being created nor soft-deleted servers.
    hidden = pool.run(
        [partial(lister.find_server, uuid) for uuid in sorted(no_servers - migrations.keys())]
    )
    servers |= {server.record.uuid: server for server in hidden if server}
    versions = {"placement": placement.choose(_PLACEMENT), "compute": compute.choose(COMPUTE)}
    return CloudReading(
        began=began,
        ended=clock(),
        calls=pool.calls,
        reused=len(unchanged),
        versions={kind: format_version(version) for kind, version in versions.items()},
        resource_classes=classes,
        traits=traits,
        lists=replace(lists, servers=servers),
        providers=providers,
        allocations=allocations,
        consumers=consumers,
        migrations=migrations,
        appeared=frozenset(consumers.keys() - first_consumers),
        missing=missing,
    )


def _find_unchanged(
    listed: Mapping[str, ProviderReading],
    earlier: EarlierReading,
    servers: Mapping[str, ServerReading],
) -> dict[str, ProviderReading]:
    """Find providers of the earlier reading that need no call.

    Placement does not raise the generation of a provider if allocations are only removed. A
    provider is therefore unchanged only if its consumers are servers that nova has not written
    since.
    """
    since = earlier.began - _CLOCK_MARGIN

    def is_unchanged(uuid: str) -> bool:
        server = servers.get(uuid)
        moment = None if server is None else server.record.updated_at
        return moment is not None and moment < since

    unchanged = {}
    for uuid, item in listed.items():
        old = earlier.providers.get(uuid)
        if old and old.generation == item.generation and all(map(is_unchanged, old.allocations)):
            unchanged[uuid] = replace(
                item, inventories=old.inventories, allocations=old.allocations
            )
    return unchanged


def _settle(
    reader: "_PlacementReader",
    lister: ListReader,
    providers: dict[str, ProviderReading],
    servers: Mapping[str, ServerReading],
    began: datetime,
) -> tuple[dict[str, ProviderReading], dict[str, ServerReading]]:
    """Read providers and servers again that changed since the beginning."""
    since = f"{(began - _CLOCK_MARGIN).isoformat(timespec='seconds')}Z"
    for _ in range(_MAX_ROUNDS):
        works: list[Callable[[], Any]] = [
            reader.list_providers,
            partial(lister.list_servers, **{"changes-since": since}),
        ]
        listed, changed_servers = reader.pool.run(works)
        servers = {**servers, **changed_servers}
        changed = [
            item
            for uuid, item in listed.items()
            if uuid not in providers or providers[uuid].generation != item.generation
        ]
        providers = {uuid: item for uuid, item in providers.items() if uuid in listed}
        if not changed:
            break
        again = reader.pool.run([partial(reader.read_again, item) for item in changed])
        for item, new in zip(changed, again, strict=True):
            providers.pop(item.uuid, None)
            if new is not None:
                providers[item.uuid] = new
    else:
        if absent := sorted(listed.keys() - providers.keys()):
            raise ServiceFailed(
                f"placement lists the resource provider {absent[0]}, but has no inventories of it"
            )
        reader.missing["one_moment"] = (
            f"{len(changed)} providers changed while they were read, {_MAX_ROUNDS} times"
        )
    for item in providers.values():
        if item.parent is not None and item.parent not in providers:
            raise ServiceFailed(
                f"placement lists the resource provider {item.uuid}, but not its parent "
                f"{item.parent}"
            )
    living = {
        uuid: server for uuid, server in servers.items() if server.record.vm_state != "deleted"
    }
    return providers, living


def _find_consumers(providers: Mapping[str, ProviderReading]) -> set[str]:
    return {uuid for item in providers.values() for uuid in item.allocations}


def _find_uncertain(
    providers: Mapping[str, ProviderReading], servers: Mapping[str, ServerReading], began: datetime
) -> set[str]:
    """Find consumers that are no servers, and servers that changed."""
    since = began - _CLOCK_MARGIN
    moved = {
        uuid
        for uuid, server in servers.items()
        if server.record.updated_at and server.record.updated_at >= since
    }
    return (_find_consumers(providers) - servers.keys()) | moved


def _map_allocations(
    providers: Mapping[str, ProviderReading], excluded: Collection[str]
) -> dict[str, Mapping[str, Amounts]]:
    """Map consumers, except excluded consumers, to their amounts by provider."""
    allocations: dict[str, dict[str, Amounts]] = {}
    for item in providers.values():
        for uuid, amounts in item.allocations.items():
            if uuid not in excluded:
                allocations.setdefault(uuid, {})[item.uuid] = amounts
    return dict(allocations)


class _PlacementReader:
    """Reader of placement's providers and consumers."""

    def __init__(self, api: ApiReader, pool: CallPool, missing: dict[str, str]) -> None:
        self._api, self.pool, self.missing = api, pool, missing

    def list_providers(self, **params: str) -> dict[str, ProviderReading]:
        """List the providers by uuid, without their contents."""

        def read(document: Json) -> dict[str, ProviderReading]:
            items = map(read_provider, document["resource_providers"])
            return {item.uuid: item for item in items}

        return self._read("/resource_providers", read, "providers", params)

    def list_custom_traits(self) -> tuple[str, ...]:
        """List the custom traits."""
        return self._list_traits(name="startswith:CUSTOM_")

    def list_classes(self) -> tuple[str, ...]:
        """List the names of resource classes."""
        return self._read(
            "/resource_classes",
            lambda body: tuple(str(item["name"]) for item in body["resource_classes"]),
            "classes",
        )

    def read_providers(
        self, listed: Mapping[str, ProviderReading], unchanged: Mapping[str, ProviderReading]
    ) -> dict[str, ProviderReading]:
        """Read inventories and allocations, except of unchanged providers."""
        changed = [item for uuid, item in listed.items() if uuid not in unchanged]
        works = [partial(self._read_contents, item) for item in changed]
        contents = self.pool.run(works, calls_each=2)
        return {**unchanged, **{item.uuid: item for item in contents if item}}

    def add_names(
        self, providers: Mapping[str, ProviderReading], lists: CloudLists, *, all_aggregates: bool
    ) -> dict[str, ProviderReading]:
        """Add traits and aggregates to the providers."""
        names = self._list_traits(associated="true")
        if self._api.newest >= _BY_TRAIT and len(names) < len(providers):
            traits = self._map_by_provider("required", names)
        else:
            traits = self._read_each("traits", providers)
        aggregates = {item.uuid for item in lists.aggregates}
        members = self._map_by_provider("member_of", sorted(aggregates))
        with_node = {report["uuid"] for report in lists.reports}
        single = [
            item.uuid
            for item in providers.values()
            if all_aggregates
            or SHARES in traits.get(item.uuid, ())
            or (item.parent is None and item.uuid not in with_node)
        ]
        own = self._read_each("aggregates", single)
        if len(single) < len(providers):
            # Hosts use a sharing provider through its aggregates, which nova need not have.
            shared = {name for names in own.values() for name in names} - aggregates
            for uuid, further in self._map_by_provider("member_of", sorted(shared)).items():
                members[uuid] = members.get(uuid, frozenset()) | further
            self.missing["provider_aggregates"] = (
                f"of {len(providers) - len(single)} providers, only aggregates of nova and of "
                "sharing providers were read: --all-aggregates reads all"
            )
        members |= own
        return {
            uuid: replace(
                item,
                traits=traits.get(uuid, frozenset()),
                aggregates=members.get(uuid, frozenset()),
            )
            for uuid, item in providers.items()
        }

    def read_again(self, item: ProviderReading) -> ProviderReading | None:
        """Read everything of a provider, or return None if it is deleted."""
        contents = self._read_contents(item)
        if contents is None:
            return None
        traits = self._read_part(item.uuid, "traits", _read_names("traits"))
        aggregates = self._read_part(item.uuid, "aggregates", _read_names("aggregates"))
        return replace(contents, traits=traits or frozenset(), aggregates=aggregates or frozenset())

    def read_consumers(self, uuids: Iterable[str]) -> dict[str, ConsumerReading]:
        """Read each consumer, and drop consumers that hold nothing."""

        def read(uuid: str) -> ConsumerReading | None:
            return self._read(f"/allocations/{uuid}", partial(read_consumer, uuid), "consumers")

        consumers = self.pool.run([partial(read, uuid) for uuid in sorted(uuids)])
        return {item.uuid: item for item in consumers if item}

    def _list_traits(self, **params: str) -> tuple[str, ...]:
        return self._read(
            "/traits", lambda body: tuple(map(str, body["traits"])), "trait names", params
        )

    def _read_contents(self, item: ProviderReading) -> ProviderReading | None:
        inventories = self._read_part(item.uuid, "inventories", read_inventories)
        allocations = self._read_part(item.uuid, "allocations", read_provider_allocations)
        if inventories is None or allocations is None:
            return None
        # After a change between the two calls, the generation differs from the next list.
        generation = min(inventories[0], allocations[0])
        return replace(
            item, generation=generation, inventories=inventories[1], allocations=allocations[1]
        )

    def _read_part(self, uuid: str, part: str, read: Callable[[Any], T]) -> T | None:
        path = f"/resource_providers/{uuid}/{part}"
        version = self._api.choose(_PLACEMENT)
        return self._api.find(path, read, rule=_RULES[part], version=version)

    def _read_each(self, part: str, uuids: Collection[str]) -> dict[str, frozenset[str]]:
        read = _read_names(part)
        lists = self.pool.run([partial(self._read_part, uuid, part, read) for uuid in uuids])
        return {uuid: names or frozenset() for uuid, names in zip(uuids, lists, strict=True)}

    def _map_by_provider(self, parameter: str, names: Sequence[str]) -> dict[str, frozenset[str]]:
        """Map providers to names, with a call that lists providers per name."""
        lists = self.pool.run([partial(self.list_providers, **{parameter: name}) for name in names])
        names_by_uuid: dict[str, set[str]] = {}
        for name, items in zip(names, lists, strict=True):
            for uuid in items:
                names_by_uuid.setdefault(uuid, set()).add(name)
        return {uuid: frozenset(values) for uuid, values in names_by_uuid.items()}

    def _read(
        self,
        path: str,
        read: Callable[[Any], T],
        rule: str,
        params: Mapping[str, str] | None = None,
    ) -> T:
        version = self._api.choose(_PLACEMENT)
        return self._api.read(path, read, params, rule=_RULES[rule], version=version)


def _read_names(key: str) -> Callable[[Json], frozenset[str]]:
    return lambda document: frozenset(map(str, document[key]))
