# SPDX-License-Identifier: Apache-2.0
"""State of a cloud without database ids, its merging, and name patterns.

The pattern ``host-[001-120]`` means ``host-001`` to ``host-120``.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import cached_property
from itertools import islice, product
from math import prod
from typing import Any, TypeVar
from uuid import NAMESPACE_URL, uuid5

import os_resource_classes
import os_traits

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection
from placement_sched.limits import MAX_PATTERN_NAMES
from placement_sched.model.aggregates import HostAggregate, ServerGroup
from placement_sched.model.compute_node import ComputeNode, Service
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.grouping import group_rows, nest_rows
from placement_sched.model.image import StoredImage
from placement_sched.model.instance import Instance
from placement_sched.model.provider import ConsumerClaim, Inventory
from placement_sched.operations import reports
from placement_sched.scheduler.policies.registry import Policies, Ratios, find_ratios, get_policies
from placement_sched.schemas.formats import DocumentError
from placement_sched.store import images
from placement_sched.store.compute import (
    compute_nodes,
    flavors,
    host_aggregates,
    instances,
    server_groups,
    services,
)
from placement_sched.store.placement import (
    aggregates,
    allocations,
    inventories,
    resource_classes,
    resource_providers,
    traits,
)

_CUSTOM = "CUSTOM_"

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T", str, tuple[str, str])

STANDARD_CLASSES = frozenset(os_resource_classes.STANDARDS)
STANDARD_TRAITS = frozenset(os_traits.get_traits())


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderState:
    """A resource provider, with the uuid of its parent or None for a root."""

    uuid: str
    name: str
    parent: str | None = None
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorState:
    """A flavor without its row id, and the projects with access to it."""

    flavor: Flavor
    projects: frozenset[str] = frozenset()

    @property
    def name(self) -> str | None:
        """Return the name of the flavor."""
        return self.flavor.name


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A whole cloud: objects of each kind by their keys.

    The key of a flavor is its ``flavorid``, the key of a service its host and binary, and the key
    of any other object its uuid. ``resource_classes`` and ``traits`` have only the custom names.
    Values that a fleet file does not set are left out, so that states can be compared: row ids,
    ``created_at`` and ``updated_at``, the decision of an instance and the members of a server
    group.
    """

    resource_classes: set[str] = field(default_factory=set)
    traits: set[str] = field(default_factory=set)
    flavors: dict[str, FlavorState] = field(default_factory=dict)
    images: dict[str, StoredImage] = field(default_factory=dict)
    server_groups: dict[str, ServerGroup] = field(default_factory=dict)
    nodes: dict[str, ComputeNode] = field(default_factory=dict)
    services: dict[tuple[str, str], Service] = field(default_factory=dict)
    providers: dict[str, ProviderState] = field(default_factory=dict)
    aggregates: dict[str, HostAggregate] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    consumers: dict[str, ConsumerClaim] = field(default_factory=dict)
    #: The generations of consumers, to detect concurrent writes.
    generations: dict[str, int | None] = field(default_factory=dict, compare=False)

    def copy(self) -> "State":
        """Return a copy that can be changed independently."""
        return State(**{item.name: copy(getattr(self, item.name)) for item in fields(self)})

    def find_disabled_hosts(self) -> frozenset[str]:
        """Return the hosts whose compute service is disabled."""
        services = self.services.values()
        return frozenset(item.host for item in services if item.disabled and item.is_compute)

    def map_aggregates_by_host(self) -> dict[str, frozenset[str]]:
        """Map each host to the uuids of its aggregates."""
        uuids_by_host = group_rows(
            (host, item.uuid) for item in self.aggregates.values() for host in item.hosts
        )
        return {host: frozenset(uuids) for host, uuids in uuids_by_host.items()}

    def map_ratios_by_host(self, policies: Policies) -> Mapping[str, Ratios]:
        """Map hosts to the allocation ratios that their policies set."""
        with_policy = [item for item in self.aggregates.values() if item.policy]
        names = group_rows((host, item.policy) for item in with_policy for host in item.hosts)
        pairs = ((host, find_ratios(used, policies)) for host, used in names.items())
        return {host: ratios for host, ratios in pairs if ratios}


def select_changed(before: Mapping[K, V], after: Mapping[K, V]) -> dict[K, V]:
    """Return the new objects and the changed objects, by key."""
    return {key: value for key, value in after.items() if before.get(key) != value}


def derive_uuid(kind: str, *names: str) -> str:
    """Derive a stable uuid for an object that has no uuid in the file."""
    return str(uuid5(NAMESPACE_URL, f"placement-sched:fleet/{'/'.join((kind, *names))}"))


def read_state(connection: Connection, unknown_owner: tuple[str, str]) -> State:
    """Read the cloud in a constant number of statements.

    ``unknown_owner`` is the project and user of consumers without owner. The result is consistent
    if the caller's transaction is a snapshot.
    """
    projects = flavors.map_projects(connection)
    stored: Iterable[Any] = flavors.list_flavors(connection)
    no_times: Json = dict.fromkeys(("created_at", "updated_at"))
    return State(
        resource_classes=set(resource_classes.list_names(connection)) - STANDARD_CLASSES,
        traits=set(traits.list_names(connection)) - STANDARD_TRAITS,
        flavors={
            str(flavor.flavorid): FlavorState(
                flavor=replace(flavor, id=None), projects=frozenset(projects.get(flavor.id, ()))
            )
            for flavor in stored
        },
        images=_map_by_uuid(images.list_images(connection), id=None, **no_times),
        server_groups=_map_by_uuid(server_groups.search(connection), members=()),
        nodes=_map_by_uuid(compute_nodes.search(connection), version=0, **no_times),
        services={
            (service.host, service.binary): service._replace(id=0, **no_times)
            for service in services.search(connection)
        },
        providers=read_providers(connection),
        aggregates=_map_by_uuid(host_aggregates.read_snapshot(connection), id=0, **no_times),
        instances=_read_instances(connection),
        **_read_consumers(connection, unknown_owner),
    )


def _read_instances(connection: Connection) -> dict[str, Instance]:
    records = {instance.uuid: instance for instance in instances.search(connection)}
    metadata = instances.MetadataReader(connection, records)
    requests = instances.map_requests(connection, records)
    no_times: Json = dict.fromkeys(("created_at", "updated_at", "launched_at"))
    return {
        uuid: replace(
            record,
            flavor=record.flavor and drop_row_id(record.flavor),
            decision_uuid=None,
            request=requests.get(uuid),
            **metadata.read(uuid)._asdict(),
            **no_times,
        )
        for uuid, record in records.items()
    }


def _map_by_uuid(objects: Iterable[Any], **blank: Any) -> dict[str, Any]:
    return {str(item.uuid): replace(item, **blank) for item in objects}


def drop_row_id(flavor: Mapping[str, Any]) -> Json:
    """Return a recorded flavor without its database-specific row id."""
    return {key: value for key, value in flavor.items() if key != "id"}


def read_providers(connection: Connection) -> dict[str, ProviderState]:
    """Read all providers, and map their uuids to them."""
    inventories_by_id = inventories.map_by_provider_id(connection)
    traits_by_id = traits.map_by_provider_id(connection)
    aggregates_by_id = aggregates.map_by_provider_id(connection)
    return {
        provider.uuid: ProviderState(
            uuid=provider.uuid,
            name=provider.name or "",
            parent=provider.parent_uuid,
            inventories=inventories_by_id.get(provider.id, {}),
            traits=frozenset(traits_by_id.get(provider.id, ())),
            aggregates=frozenset(aggregates_by_id.get(provider.id, ())),
        )
        for provider in resource_providers.list_providers(connection)
    }


def _read_consumers(connection: Connection, unknown_owner: tuple[str, str]) -> Json:
    rows_by_consumer = group_rows(
        (row.consumer.uuid, row) for row in allocations.list_allocations(connection)
    )
    claims, generations = {}, {}
    for uuid, rows in rows_by_consumer.items():
        owner = rows[0].consumer
        amounts = nest_rows((row.provider_uuid, row.resource_class, row.used) for row in rows)
        claims[uuid] = ConsumerClaim(
            consumer=uuid,
            allocations=dict(amounts),
            project_id=owner.project_id or unknown_owner[0],
            user_id=owner.user_id or unknown_owner[1],
            consumer_type=owner.consumer_type,
        )
        generations[uuid] = owner.generation
    return {"consumers": claims, "generations": generations}


class MergeState:
    """The cloud ``before`` a load, and ``after`` merging the entries so far."""

    def __init__(self, before: State, settings: Settings, now: datetime) -> None:
        self.before, self.after, self.now = before, before.copy(), now
        self.defaults = reports.build_defaults(settings, now)
        self.policies = get_policies(settings)
        self.unknown_owner = settings.unknown_owner
        #: By provider uuid: the keys of the file's lists, "aggregates", "traits" or both.
        self.given_lists: dict[str, Collection[str]] = {}
        self.provider_uuids = {provider.name: uuid for uuid, provider in before.providers.items()}
        self.node_uuids = {
            (node.host, node.hypervisor_hostname): uuid for uuid, node in before.nodes.items()
        }
        self.service_keys = {item.uuid: key for key, item in before.services.items()}
        #: The path in the file to the current entry, and by kind and name to each object's entry.
        self.entry: tuple[str | int, ...] = ()
        self.entries: dict[tuple[str, ...], tuple[str | int, ...]] = {}

    @cached_property
    def _nodes_by_host(self) -> Mapping[str, list[str]]:
        nodes = self.after.nodes.values()
        return group_rows((node.host, node.hypervisor_hostname) for node in nodes)

    def get_only_node(self, host: str | None) -> str | None:
        """Return the name of a host's only node, else the name of the host.

        All hosts must be merged before the first call, which caches the nodes.
        """
        names = self._nodes_by_host.get(host or "", [])
        return names[0] if len(names) == 1 else host

    def record_entry(self, kind: str, *names: str) -> None:
        """Record an object's entry, and reject a second entry of the object."""
        if (kind, *names) in self.entries:
            raise DocumentError(f"the {kind} {' '.join(names)} is already in the file")
        self.entries[(kind, *names)] = self.entry

    def claim_name(self, kind: str, owners: dict[T, str], name: T, uuid: str) -> None:
        """Record an object's entry and its name.

        ``owners`` maps names to the uuids of objects. Raises :class:`DocumentError` if another
        object has the name.
        """
        self.record_entry(kind, uuid)
        if (owner := owners.setdefault(name, uuid)) != uuid:
            text = f"name {name} is" if isinstance(name, str) else f"names {' '.join(name)} are"
            raise DocumentError(f"the {text} already used by {kind} {owner}")

    def get_service(self, host: str, binary: str) -> Service:
        """Return the service with this host and binary, or a new service."""
        new = Service(0, derive_uuid("service", host, binary), host, binary)
        return self.after.services.get((host, binary), new)

    def add_classes(self, names: Iterable[str]) -> None:
        """Add custom names, or raise DocumentError for an unknown class."""
        self.after.resource_classes.update(_check_custom("resource class", names, STANDARD_CLASSES))

    def add_traits(self, names: Iterable[str]) -> None:
        """Add custom names, or raise DocumentError for an unknown trait."""
        self.after.traits.update(_check_custom("trait", names, STANDARD_TRAITS))


def _check_custom(noun: str, names: Iterable[str], standard: Collection[str]) -> set[str]:
    custom_names = {name for name in names if name not in standard}
    for name in sorted(custom_names):
        if not name.startswith(_CUSTOM) or name == _CUSTOM:
            raise DocumentError(
                f"there is no standard {noun} {name}. Custom names begin with {_CUSTOM}"
            )
    return custom_names


_PART = re.compile(
    r"\\(?P<plain>.)|\[(?P<ranges>[^\]]*)\]|(?P<text>[^\\\[]+)|(?P<wrong>.)", re.DOTALL
)
_RANGE = re.compile(r"(?P<first>[0-9]{1,18})(?:-(?P<last>[0-9]{1,18}))?")
_SPECIAL = re.compile(r"([\\\[\]{}])")
_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,17})([^0-9]*)", re.DOTALL)
_PLACE = re.compile(r"\\.|\{(?P<name>[^}]*)\}", re.DOTALL)
_NUMBER = re.compile(r"([0-9]+)")


def expand(pattern: str) -> list[str]:
    """Expand a pattern to names, or raise :class:`DocumentError`."""
    parts: list[Sequence[str]] = []
    for match in _PART.finditer(pattern):
        if match["wrong"] is not None:
            message = f"{pattern!r}: unterminated {match['wrong']!r}. A backslash escapes a bracket"
            raise DocumentError(message)
        if (ranges := match["ranges"]) is None:
            parts.append((match["plain"] or match["text"],))
        else:
            numbers = (
                number for part in ranges.split(",") for number in _expand_range(part, pattern)
            )
            parts.append(list(islice(numbers, MAX_PATTERN_NAMES + 1)))
        if prod(map(len, parts)) > MAX_PATTERN_NAMES:
            raise DocumentError(f"{pattern!r} stands for more than {MAX_PATTERN_NAMES} names")
    return ["".join(combination) for combination in product(*parts)]


def _expand_range(part: str, pattern: str) -> Iterator[str]:
    match = _RANGE.fullmatch(part.strip())
    if match is None:
        message = f"{pattern!r}: {part!r} is not a range like 001-120. Write \\[ for a bracket"
        raise DocumentError(message)
    first, last = match["first"], match["last"] or match["first"]
    if int(last) < int(first):
        raise DocumentError(f"{pattern!r}: the range {part.strip()} ends before it begins")
    return (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))


def fill_in(pattern: str, names: Mapping[str, str]) -> str:
    """Replace placeholders in braces, or raise DocumentError if unknown."""

    def substitute(match: re.Match[str]) -> str:
        if match["name"] is None:
            return match[0]
        if match["name"] not in names:
            placeholders = " and ".join(f"{{{name}}}" for name in names)
            raise DocumentError(
                f"{pattern!r}: only {placeholders} are allowed. Write \\{{ for a brace"
            )
        return escape(names[match["name"]])

    return _PLACE.sub(substitute, pattern)


def escape(name: str) -> str:
    """Escape a name, so that the pattern stands for this name alone."""
    return _SPECIAL.sub(r"\\\1", name)


def fold(names: Sequence[str]) -> list[str]:
    """Fold names to patterns in the order of the names.

    Successive names become a range if the last number of each name is the number before plus 1.
    """
    runs: list[list[str]] = []
    for name in names:
        if runs and name == _increment_name(runs[-1][-1]):
            runs[-1].append(name)
        else:
            runs.append([name])
    return [_build_pattern(run) for run in runs]


def _increment_name(name: str) -> str | None:
    match = _LAST_NUMBER.fullmatch(name)
    if match is None:
        return None
    prefix, digits, suffix = match.groups()
    return f"{prefix}{str(int(digits) + 1).zfill(len(digits))}{suffix}"


def _build_pattern(run: Sequence[str]) -> str:
    match = _LAST_NUMBER.fullmatch(run[0])
    if match is None or len(run) == 1:
        return escape(run[0])
    prefix, first, suffix = match.groups()
    last = run[-1][len(prefix) : len(run[-1]) - len(suffix)]
    return f"{escape(prefix)}[{first}-{last}]{escape(suffix)}"


def build_patterns(names: Sequence[str]) -> str | list[str]:
    """Return the pattern for names, or a list if several are needed."""
    patterns = fold(names[:1] if len(set(names)) == 1 else names)
    return patterns[0] if len(patterns) == 1 else patterns


def split_numbers(name: str) -> tuple[Any, ...]:
    """Return a sort key that is unique and puts ``cn2`` before ``cn10``."""
    # Every second part is a number.
    parts = enumerate(_NUMBER.split(name))
    return tuple(int(part) if index % 2 else part for index, part in parts), name


def expand_entries(entry: Json, key: str, count: int) -> Sequence[Any]:
    """Return ``count`` values of a key, each None if the entry lacks the key.

    A single value is repeated. Raises :class:`DocumentError` for another number of values.
    """
    values = [None] if entry.get(key) is None else entry[key]
    if len(values) not in {1, count}:
        message = f"the pattern expands to {len(values)} values, {count} expected"
        raise DocumentError(message, key)
    return list(values) * (count // len(values))
