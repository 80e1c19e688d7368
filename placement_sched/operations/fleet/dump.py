# SPDX-License-Identifier: Apache-2.0
"""Dump of a cloud as a fleet file, with an entry for similar objects."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.model import compute_node
from placement_sched.model.aggregates import HostAggregate, ServerGroup
from placement_sched.model.compute_node import ComputeNode, Service
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.grouping import group_rows
from placement_sched.model.image import StoredImage
from placement_sched.model.instance import Instance, InstanceMetadata
from placement_sched.model.names import read_uuid
from placement_sched.model.provider import Amounts, ConsumerClaim, Inventory
from placement_sched.operations.aggregates import with_ratios
from placement_sched.operations.fleet import cloud, merge
from placement_sched.operations.fleet.cloud import MergeState, ProviderState, State, split_numbers
from placement_sched.operations.fleet.schema import FLAVOR_KEYS, IMAGE_KEYS, VERSION
from placement_sched.operations.reports import DISABLED_TRAIT
from placement_sched.scheduler.policies.registry import NO_RATIOS
from placement_sched.schemas.node_report import read_report
from placement_sched.schemas.parts import INVENTORY

#: Keys of flavors and images whose values are not written unchanged.
_NOT_PLAIN = frozenset({"name", "id", "extra_specs", "projects", "tags", "properties"})
_FLAVOR = {key: key for key in FLAVOR_KEYS if key not in _NOT_PLAIN}
_IMAGE = {key: key for key in IMAGE_KEYS if key == "name" or key not in _NOT_PLAIN}
_INVENTORY = {key: key for key in (*INVENTORY, "allocation_ratio")}
_NEW_INVENTORY = Inventory(resource_class="", total=0)
_SIZES = ("vcpus", "memory_mb", "local_gb", "memory_mb_used", "local_gb_used")
_SERVICE = {key: key for key in ("binary", "disabled_reason", "forced_down", "last_seen_up")}
_NAMES = ("uuid", "host", "hypervisor_hostname", "host_ip", "last_seen_up")
#: Returns the sort key of a name.
SortKey = Callable[[str], Any]
_REPORT = {key: key for key in compute_node.REPORT_KEYS if key not in _NAMES}


def build_document(
    state: State, settings: Settings, now: datetime, get_sort_key: SortKey = split_numbers
) -> Json:
    """Build the document of a cloud, without empty sections.

    ``get_sort_key`` returns the sort key of a name.
    """
    writer = _Writer(MergeState(state, settings, now), get_sort_key)
    return _drop_empty(
        version=VERSION,
        resource_classes=sorted(state.resource_classes),
        traits=sorted(state.traits),
        flavors=list(map(_build_flavor, state.flavors.values())),
        images=list(map(_build_image, state.images.values())),
        server_groups=list(map(_build_server_group, state.server_groups.values())),
        aggregates=list(map(_build_aggregate, state.aggregates.values())),
        hosts=writer.build_hosts(),
        services=writer.build_services(),
        providers=writer.build_providers(),
        instances=writer.build_instances(),
        allocations=writer.build_allocations(),
    )


def _diff(item: object, default: object, names: Mapping[str, str], *always: str) -> Json:
    """Return differing and ``always`` fields, by ``names`` of keys to fields."""
    return {
        key: value
        for key, name in names.items()
        if (value := getattr(item, name)) != getattr(default, name) or key in always
    }


def _drop_empty(**values: Any) -> Json:
    return {key: value for key, value in values.items() if value}


def _sort_keys(values: Mapping[str, Any]) -> Json:
    return dict(sorted(values.items()))


def _build_id(key: str, value: str, kind: str, *names: str) -> Json:
    return {} if value == cloud.derive_uuid(kind, *names) else {key: value}


def _share_entries(objects: Iterable[tuple[dict[str, str], Json]]) -> list[Json]:
    groups: dict[str, tuple[list[dict[str, str]], Json]] = {}
    for names, entry in objects:
        # 1 and 1.0 differ in a file, and so does the order of keys.
        key = json.dumps([list(names), entry], default=str)
        groups.setdefault(key, ([], entry))[0].append(names)
    return [
        {key: cloud.build_patterns([names[key] for names in group]) for key in group[0]} | entry
        for group, entry in groups.values()
    ]


def _build_flavor(state: cloud.FlavorState) -> Json:
    flavor = state.flavor
    return {
        "name": flavor.name,
        **_build_id("id", str(flavor.flavorid), "flavor", flavor.name),
        **_diff(flavor, Flavor(), _FLAVOR, "vcpus", "memory_mb"),
        **_drop_empty(extra_specs=_sort_keys(flavor.extra_specs), projects=sorted(state.projects)),
    }


def _build_image(image: StoredImage) -> Json:
    return {
        "id": image.uuid,
        **_diff(image, StoredImage(uuid=""), _IMAGE),
        **_drop_empty(tags=sorted(image.tags), properties=_sort_keys(image.properties)),
    }


def _build_server_group(group: ServerGroup) -> Json:
    return {
        "name": group.name,
        "uuid": group.uuid,
        "policy": group.policy,
        **_drop_empty(rules=dict(group.rules)),
        **_diff(group, ServerGroup(policy=""), merge.OWNER),
    }


def _build_aggregate(aggregate: HostAggregate) -> Json:
    return {
        "name": aggregate.name,
        **_build_id("uuid", aggregate.uuid, "aggregate", aggregate.name),
        **_drop_empty(
            metadata=_sort_keys(aggregate.metadata),
            hosts=cloud.fold(sorted(aggregate.hosts, key=split_numbers)),
        ),
    }


def _build_inventories(
    provider: ProviderState, derived: Mapping[str, Inventory] | None = None
) -> Json:
    """Return the inventories of a provider that are not in ``derived``.

    ``derived`` has the inventories that a load derives from the host report.
    """
    return {
        name: _diff(item, _NEW_INVENTORY, _INVENTORY)
        for name, item in sorted(provider.inventories.items())
        if not derived or derived.get(name) != item
    }


def _build_node_names(node: ComputeNode) -> dict[str, str]:
    host, name = node.host, node.hypervisor_hostname
    names = {"host": host, **({} if name == host else {"node": name})}
    names |= _build_id("uuid", node.uuid, "node", host, name)
    return names if node.host_ip is None else {**names, "host_ip": node.host_ip}


def _build_instance_names(instance: Instance) -> dict[str, str]:
    name = instance.display_name
    names = {"name": name, **_build_id("uuid", instance.uuid, "instance", name)}
    return names if instance.host is None else {**names, "host": instance.host}


def _build_service(service: Service, reported: datetime | None) -> Json:
    if not service.disabled:
        service = service._replace(disabled_reason=None)
    default = Service(0, "", service.host, compute_node.COMPUTE_BINARY, last_seen_up=reported)
    status = "disabled" if service.disabled else None
    return {**_drop_empty(status=status), **_diff(service, default, _SERVICE)}


def _build_owner(consumer: ConsumerClaim) -> Json:
    owner = {"project": consumer.project_id, "user": consumer.user_id}
    return owner | _drop_empty(type=consumer.consumer_type)


class _Writer:
    def __init__(self, merge_state: MergeState, get_sort_key: SortKey) -> None:
        self._merge_state, state = merge_state, merge_state.before
        self._get_sort_key = get_sort_key
        self._state = state
        self._aggregates = state.map_aggregates_by_host()
        self._ratios = state.map_ratios_by_host(merge_state.policies)
        self._disabled = state.find_disabled_hosts()
        children = sorted(state.providers.values(), key=lambda child: get_sort_key(child.name))
        self._children = group_rows((child.parent, child) for child in children)

    def build_hosts(self) -> list[Json]:
        nodes = sorted(
            self._state.nodes.values(),
            key=lambda node: (
                self._get_sort_key(node.host),
                self._get_sort_key(node.hypervisor_hostname),
            ),
        )
        return _share_entries((_build_node_names(node), self._build_host(node)) for node in nodes)

    def _has_root(self, node: ComputeNode) -> bool:
        root = self._state.providers.get(node.uuid)
        return root is not None and root.parent is None and root.name == node.hypervisor_hostname

    def _build_host(self, node: ComputeNode) -> Json:
        entry = {**self._build_report(node), "last_seen_up": node.last_seen_up}
        if not self._has_root(node):
            return {**entry, "provider": False}
        provider = self._state.providers[node.uuid]
        # Ratios of a policy are omitted, because they follow from the aggregate.
        with_policy = with_ratios(node, self._ratios.get(node.host, NO_RATIOS))
        derived = {
            item.resource_class: item for item in compute_node.build_inventories(with_policy)
        }
        differing = _build_inventories(provider, derived)
        # None removes an inventory that follows from the report but is missing.
        differing |= {name: None for name in derived if name not in provider.inventories}
        traits = provider.traits - ({DISABLED_TRAIT} if node.host in self._disabled else set())
        entry |= _drop_empty(inventories=differing, traits=sorted(traits))
        if provider.aggregates != self._aggregates.get(node.host, frozenset()):
            entry["provider_aggregates"] = sorted(provider.aggregates)
        return entry | self._build_children(provider, provider.name)

    def _build_report(self, node: ComputeNode) -> Json:
        """Return sizes, ratios, and other values that a load would not derive."""
        sizes = {name: getattr(node, name) for name in _SIZES}
        any_names = dict.fromkeys(("host", "hypervisor_hostname"), "h")
        any_names["uuid"] = cloud.derive_uuid("node", "h")
        derived = read_report({**any_names, **sizes}, self._merge_state.defaults).node
        report = _diff(node, derived, _REPORT, *_SIZES, *compute_node.RATIOS.values())
        # In JSON, tuples become lists, as the YAML of the file needs.
        return dict(json.loads(json.dumps(report)))

    def _build_provider(self, provider: ProviderState, root: str = "") -> Json:
        pattern = cloud.escape(provider.name)
        if root and root in provider.name:
            pattern = "{root}".join(map(cloud.escape, provider.name.split(root, 1)))
        entry = {"name": pattern, **_build_id("uuid", provider.uuid, "provider", provider.name)}
        lists = {"traits": sorted(provider.traits), "aggregates": sorted(provider.aggregates)}
        entry |= _drop_empty(inventories=_build_inventories(provider), **lists)
        if not root and provider.uuid in self._state.nodes:
            # Complete lists, even if empty, so that a load derives nothing from the host.
            entry |= lists
        return entry | self._build_children(provider, root)

    def _build_children(self, provider: ProviderState, root: str = "") -> Json:
        children = self._children[provider.uuid]
        return _drop_empty(providers=[self._build_provider(child, root) for child in children])

    def build_providers(self) -> list[Json]:
        hosts = {node.uuid for node in self._state.nodes.values() if self._has_root(node)}
        return [
            self._build_provider(root) for root in self._children[None] if root.uuid not in hosts
        ]

    def build_services(self) -> list[Json]:
        nodes = sorted(self._state.nodes.values(), key=lambda node: node.last_seen_up)
        times = {node.host: node.last_seen_up for node in nodes}
        services = self._state.services.values()
        objects = []
        for service in sorted(
            services, key=lambda item: (item.binary, self._get_sort_key(item.host))
        ):
            reported = times.get(service.host) if service.is_compute else None
            uuid = _build_id("uuid", service.uuid, "service", service.host, service.binary)
            entry = _build_service(service, reported)
            if entry or uuid or reported is None:
                objects.append(({"host": service.host, **uuid}, entry))
        return _share_entries(objects)

    def build_instances(self) -> list[Json]:
        instances = sorted(
            self._state.instances.values(),
            key=lambda instance: (self._get_sort_key(instance.display_name), instance.uuid),
        )
        return _share_entries(
            (_build_instance_names(instance), self._build_instance(instance))
            for instance in instances
        )

    def _build_instance(self, instance: Instance) -> Json:
        entry: Json = {} if instance.host is not None else {"host": None}
        if instance.node != self._merge_state.get_only_node(instance.host):
            entry["node"] = None if instance.node is None else cloud.escape(instance.node)
        entry |= _diff(instance, merge.BLANK, merge.PLAIN)
        if instance.server_group is not None:
            entry["server_group"] = instance.server_group
        if instance.flavor is not None:
            entry["flavor"] = self._shorten_flavor(instance.flavor)
        if instance.image is not None:
            stored = self._state.images.get(str(instance.image.get("id")))
            is_stored = stored is not None and stored.as_request_image() == instance.image
            entry["image"] = instance.image["id"] if is_stored else dict(instance.image)
        for name in InstanceMetadata._fields:
            entry |= _drop_empty(**{name: _sort_keys(getattr(instance, name))})
        consumer = self._state.consumers.get(instance.uuid)
        default = merge.derive_default_allocations(self._merge_state, instance)
        if consumer is None:
            return entry | ({"allocations": {}} if default else {})
        if consumer.allocations != default:
            entry["allocations"] = self._map_amounts_by_name(consumer.allocations)
        if replace(consumer, allocations={}) != merge.build_default_consumer(
            self._merge_state, instance
        ):
            entry["consumer"] = {**_build_owner(consumer), "type": consumer.consumer_type}
        return entry

    def _shorten_flavor(self, document: Mapping[str, Any]) -> Any:
        flavors = self._state.flavors
        stored = flavors.get(str(document.get("flavorid")))
        if stored is None or cloud.drop_row_id(stored.flavor.as_document()) != document:
            return dict(document)
        # A name that is the id of another flavor would be read as that flavor.
        return stored.flavor.flavorid if stored.name in flavors else stored.name

    def build_allocations(self) -> list[Json]:
        return [
            {
                "consumer": uuid,
                **_build_owner(consumer),
                "allocations": self._map_amounts_by_name(consumer.allocations),
            }
            for uuid, consumer in sorted(self._state.consumers.items())
            if uuid not in self._state.instances
        ]

    def _map_amounts_by_name(self, allocations: Mapping[str, Amounts]) -> Json:
        """Map provider names (or uuids, if a name is like a uuid) to amounts."""
        by_name: Json = {}
        for uuid, amounts in allocations.items():
            provider = self._state.providers.get(uuid)
            name = provider.name if provider and not read_uuid(provider.name) else ""
            by_name[name or uuid] = _sort_keys(amounts)
        return _sort_keys(by_name)
