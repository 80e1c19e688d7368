# SPDX-License-Identifier: Apache-2.0
"""Merging of a decoded fleet file into the state of the cloud."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection
from placement_sched.errors import Forbidden, Invalid, LimitExceeded
from placement_sched.limits import MAX_METADATA_CHARACTERS
from placement_sched.model import compute_node
from placement_sched.model.aggregates import ANTI_AFFINITY, ZONE_KEY, ServerGroup
from placement_sched.model.compute_node import RATIOS, ComputeNode, Service
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import StoredImage, Viewer
from placement_sched.model.instance import Instance, InstanceMetadata
from placement_sched.model.provider import INSTANCE_TYPE, Amounts, ConsumerClaim, Inventory
from placement_sched.operations.fleet import cloud
from placement_sched.operations.fleet.cloud import MergeState, ProviderState, derived_uuid
from placement_sched.operations.fleet.names import expand, expand_entries, expand_entry, fill_in
from placement_sched.operations.fleet.schema import (
    VERSION,
    read_file,
    read_node_name,
    read_provider_name,
)
from placement_sched.operations.images import SETTABLE, check_allowed, check_settable
from placement_sched.operations.reports import DISABLED_TRAIT
from placement_sched.scheduler.policies.registry import NO_RATIOS, Ratios
from placement_sched.scheduler.request_groups import amounts_of
from placement_sched.schemas.formats import DocumentError, prefix_errors
from placement_sched.schemas.node_report import read_report
from placement_sched.store.compute.instances import serialize_metadata

#: Fields of a report that do not make an entry a report, or that it gives in another form.
_NOT_REPORTED = frozenset(
    {"uuid", "host", "hypervisor_hostname", "host_ip", "last_seen_up", "inventories"}
)
_REPORTED = frozenset(compute_node.REPORT_KEYS) - _NOT_REPORTED
#: A provider with the name of its root.
_ProviderAndRoot = tuple[ProviderState, str]
_ADMINISTRATOR = Viewer(project_id="", is_admin=True, may_give=frozenset({"public", "community"}))
Allocations = Mapping[str, Amounts]
#: Fields of owners, consumers and instances by the keys of an entry with the same values.
OWNER = {"project": "project_id", "user": "user_id"}
_CONSUMER = {**OWNER, "type": "consumer_type"}
PLAIN = {**OWNER, "vm_state": "vm_state", "task_state": "task_state"}
#: An instance without any values of an entry.
BLANK = Instance(
    uuid="",
    display_name="",
    vm_state="active",
    **dict.fromkeys(("host", "node", "project_id", "user_id", "task_state")),
    **dict.fromkeys(("flavor", "image", "server_group", "decision_uuid")),
    metadata={},
    system_metadata={},
)


def merge_hosts(draft: MergeState, entry: Json) -> None:
    """Merge the nodes of an entry with their providers and services."""
    hosts, names = _read_host_names(entry)
    uuids = expand_entries(entry, "uuid", len(names))
    addresses = expand_entries(entry, "host_ip", len(names), alone=True)
    reported = _read_node_report(draft, entry, hosts[0], names[0], addresses[0])
    roots: list[_ProviderAndRoot] = []
    for host, name, entry_uuid, address in zip(hosts, names, uuids, addresses, strict=True):
        existing_uuid = draft.node_uuids.get((host, name))
        uuid = entry_uuid or existing_uuid or derived_uuid("node", host, name)
        previous = draft.after.nodes.get(uuid)
        node = reported or previous
        if node is None:
            message = f"'vcpus' and 'memory_mb' are required, as host {host} does not exist yet"
            raise DocumentError(message)
        last = previous.last_seen_up if previous else draft.now
        seen_up = entry.get("last_seen_up") or last
        node = replace(node, uuid=uuid, host=host, hypervisor_hostname=name, last_seen_up=seen_up)
        if "host_ip" in entry:
            node = replace(node, host_ip=address)
        _put_node(draft, node)
        service = _get_service(draft, host, compute_node.COMPUTE_BINARY)
        if service.last_seen_up is None or service.last_seen_up < seen_up:
            service = service._replace(last_seen_up=seen_up)
        _put_service(draft, service)
        if entry.get("provider", True):
            roots.append((_put_root(draft, entry, node, reported=reported is not None), name))
    _merge_below(draft, entry, roots)


def _read_host_names(entry: Json) -> tuple[Sequence[str], Sequence[str]]:
    hosts: list[str] = entry["host"]
    with prefix_errors("host"):
        names = entry["node"] if "node" in entry else [read_node_name(host) for host in hosts]
        hosts_of_each = expand_entry(hosts, max(len(hosts), len(names)))
    with prefix_errors("node" if "node" in entry else "host"):
        return hosts_of_each, expand_entry(names, len(hosts_of_each), alone=False)


def _read_node_report(
    draft: MergeState, entry: Json, host: str, name: str, ip: str | None
) -> ComputeNode | None:
    reported = {key: value for key, value in entry.items() if key in _REPORTED}
    if not reported:
        return None
    uuid = derived_uuid("node", host, name)
    names = {"uuid": uuid, "host": host, "hypervisor_hostname": name, "host_ip": ip}
    return read_report({**reported, **names}, draft.defaults).node


def _get_service(draft: MergeState, host: str, binary: str) -> Service:
    uuid = derived_uuid("service", host, binary)
    new = Service(0, uuid, host, binary)
    return draft.after.services.get((host, binary), new)


def _put_node(draft: MergeState, node: ComputeNode) -> None:
    names, previous = (node.host, node.hypervisor_hostname), draft.after.nodes.get(node.uuid)
    draft.note_entry("node", node.uuid)
    owner = draft.node_uuids.setdefault(names, node.uuid)
    if owner != node.uuid:
        raise DocumentError(f"the names {' '.join(names)} are already used by node {owner}")
    if previous is not None and (previous.host, previous.hypervisor_hostname) != names:
        draft.node_uuids.pop((previous.host, previous.hypervisor_hostname), None)
    draft.after.nodes[node.uuid] = node


def _put_service(draft: MergeState, service: Service) -> None:
    key = (service.host, service.binary)
    host, binary = owner = draft.service_keys.setdefault(service.uuid, key)
    if owner != key:
        raise DocumentError(f"uuid {service.uuid} already belongs to {binary} of {host}")
    draft.after.services[key] = service


def _put_root(
    draft: MergeState, entry: Json, node: ComputeNode, *, reported: bool
) -> ProviderState:
    previous = draft.after.providers.get(node.uuid)
    had = previous.inventories if previous else {}
    made = {item.resource_class: item for item in compute_node.inventories_of(node)}
    extra = {name: item for name, item in had.items() if name not in compute_node.REPORTED_CLASSES}
    if not reported and previous:
        made = {name: item for name, item in had.items() if name in compute_node.REPORTED_CLASSES}
    provider = replace(
        previous or ProviderState(uuid=node.uuid, name=""),
        name=node.hypervisor_hostname,
        inventories=_merge_inventories(entry, extra, made),
    )
    return _put_provider(draft, provider, entry, "provider_aggregates")


def _put_provider(
    draft: MergeState, provider: ProviderState, entry: Json, key: str = "aggregates"
) -> ProviderState:
    """Merge a provider with traits and aggregates (under ``key``) of an entry."""
    uuid, previous = provider.uuid, draft.after.providers.get(provider.uuid)
    listed = {"traits": entry.get("traits"), "aggregates": entry.get(key)}
    lists: Json = {name: frozenset(values) for name, values in listed.items() if values is not None}
    provider = replace(provider, **lists)
    draft.given_lists.update((uuid, name) for name in lists)
    draft.note_entry("provider", uuid)
    owner = draft.provider_uuids.setdefault(provider.name, uuid)
    if owner != uuid:
        raise DocumentError(f"the name {provider.name} is already used by provider {owner}")
    draft.add_classes(provider.inventories)
    draft.add_traits(provider.traits)
    if previous is not None and previous.name != provider.name:
        draft.provider_uuids.pop(previous.name, None)
    draft.after.providers[uuid] = provider
    return provider


def _merge_inventories(
    entry: Json, existing: Mapping[str, Inventory], made: Mapping[str, Inventory]
) -> dict[str, Inventory]:
    """Merge the inventories of an entry into the inventories of a provider.

    If the entry has inventories, they replace ``existing``. Inventories in ``made`` remain.
    """
    inventories = {**made, **existing}
    if "inventories" in entry:
        inventories = dict(made)
        for name, values in entry["inventories"].items():
            if values is None:
                inventories.pop(name, None)
                continue
            inventories[name] = item = Inventory(resource_class=name, **values)
            if item.capacity < 0:
                message = f"{item.reserved} is more than the total, {item.total}"
                raise DocumentError(message, "inventories", name, "reserved")
    return inventories


def merge_providers(draft: MergeState, entry: Json) -> None:
    """Merge provider trees that do not belong to hosts."""
    _merge_entry(draft, entry, [None])


def _merge_below(draft: MergeState, entry: Json, parents: Sequence[_ProviderAndRoot]) -> None:
    above = draft.entry
    for index, below in enumerate(entry.get("providers", ())):
        draft.entry = (*above, "providers", index)
        with prefix_errors("providers", index):
            _merge_entry(draft, below, parents)
    draft.entry = above


def _merge_entry(
    draft: MergeState, entry: Json, parents: Sequence[_ProviderAndRoot | None]
) -> None:
    """Merge the providers of an entry below each parent, or as roots for None."""
    with prefix_errors("name"):
        places = [(parent, name) for parent in parents for name in _expand_names(entry, parent)]
    uuids = expand_entries(entry, "uuid", len(places))
    made: list[_ProviderAndRoot] = []
    for (parent, name), entry_uuid in zip(places, uuids, strict=True):
        uuid = entry_uuid or draft.provider_uuids.get(name) or derived_uuid("provider", name)
        previous = draft.after.providers.get(uuid) or ProviderState(uuid=uuid, name=name)
        provider = replace(
            previous,
            name=name,
            parent=parent and parent[0].uuid,
            inventories=_merge_inventories(entry, previous.inventories, {}),
        )
        _put_provider(draft, provider, entry)
        made.append((provider, parent[1] if parent else name))
    _merge_below(draft, entry, made)


def _expand_names(entry: Json, parent: _ProviderAndRoot | None) -> list[str]:
    value = entry["name"]
    patterns = value if isinstance(value, list) else [value]
    if parent is not None:
        above = {"root": parent[1], "parent": parent[0].name}
        patterns = [fill_in(pattern, above) for pattern in patterns]
    return [read_provider_name(name) for pattern in patterns for name in expand(pattern)]


def merge_services(draft: MergeState, entry: Json) -> None:
    """Merge the services of an entry."""
    hosts, binary = entry["host"], entry.get("binary", compute_node.COMPUTE_BINARY)
    values: Json = {key: entry[key] for key in ("forced_down", "last_seen_up") if key in entry}
    for host, uuid in zip(hosts, expand_entries(entry, "uuid", len(hosts)), strict=True):
        draft.note_entry("service", host, binary)
        service = _get_service(draft, host, binary)._replace(**values)
        if "status" in entry:
            service = service._replace(disabled=entry["status"] == "disabled")
        reason = service.disabled_reason
        if "status" in entry and not service.disabled:
            reason = None
        service = service._replace(
            uuid=uuid or service.uuid, disabled_reason=entry.get("disabled_reason", reason)
        )
        if service.disabled_reason is not None and not service.disabled:
            raise DocumentError("only a disabled service has a reason", "disabled_reason")
        with prefix_errors(*(("uuid",) if uuid else ())):
            _put_service(draft, service)


def settle_roots(draft: MergeState) -> None:
    """Update aggregates, traits and ratios of root providers for their hosts."""
    before, after, policies = draft.before, draft.after, draft.policies
    joined = before.aggregates_by_host(), after.aggregates_by_host()
    disabled = before.disabled_hosts(), after.disabled_hosts()
    ratios = before.ratios_by_host(policies), after.ratios_by_host(policies)
    nothing = frozenset[str]()
    for uuid, node in after.nodes.items():
        if (provider := after.providers.get(uuid)) is None:
            continue
        old, old_provider = before.nodes.get(uuid), before.providers.get(uuid)
        former_host = old.host if old and old_provider else ""
        members, traits = provider.aggregates, provider.traits
        if (uuid, "aggregates") not in draft.given_lists:
            removed, added = joined[0].get(former_host, nothing), joined[1].get(node.host, nothing)
            members = members - (removed - added) | (added - removed)
        was_disabled, lists_traits = node.host in disabled[0], (uuid, "traits") in draft.given_lists
        if node.host in disabled[1]:
            if lists_traits or not was_disabled or old_provider is None:
                traits |= {DISABLED_TRAIT}
        elif was_disabled and not lists_traits:
            traits -= {DISABLED_TRAIT}
        had = NO_RATIOS if old is None else ratios[0].get(old.host, NO_RATIOS)
        has = ratios[1].get(node.host, NO_RATIOS)
        stock = _apply_policies(provider, old_provider, node, had, has)
        after.providers[uuid] = replace(
            provider, aggregates=members, traits=traits, inventories=stock
        )


def _apply_policies(
    provider: ProviderState,
    previous: ProviderState | None,
    node: ComputeNode,
    former_ratios: Ratios,
    current_ratios: Ratios,
) -> dict[str, Inventory]:
    """Return inventories of a node with the ratios of its host's policy.

    A ratio that only the former policy set is replaced by the reported ratio of the node, unless
    the file changes the ratio.
    """
    inventories = dict(provider.inventories)
    for name, ratio in RATIOS.items():
        if name not in inventories:
            continue
        item, wanted = inventories[name], current_ratios.get(ratio)
        old = None if previous is None else previous.inventories.get(name)
        if wanted is None and ratio in former_ratios and old is not None:
            is_unchanged = old.allocation_ratio == item.allocation_ratio
            wanted = getattr(node, ratio) if is_unchanged else None
        if wanted is not None:
            inventories[name] = replace(item, allocation_ratio=wanted)
    return inventories


def _merge_flavor(draft: MergeState, entry: Json) -> None:
    flavors, name = draft.after.flavors, entry["name"]
    named = [flavorid for flavorid, state in flavors.items() if state.flavor.name == name]
    flavorid = _identify(draft, "flavor", entry, "id", named, name, unique=True)
    previous = flavors.get(flavorid)
    if previous is None:
        _require(entry, "flavor", "vcpus", "memory_mb")
        previous = cloud.FlavorState(flavor=Flavor(flavorid=flavorid))
    values = {key: value for key, value in entry.items() if key not in {"id", "projects"}}
    flavors[flavorid] = cloud.FlavorState(
        flavor=replace(previous.flavor, **values),
        projects=frozenset(entry.get("projects", previous.projects)),
    )


def _identify(
    draft: MergeState, kind: str, entry: Json, key: str, named: list[str], *names: str, unique: bool
) -> str:
    """Return the id of the object of an entry.

    It is the id in the entry, else the id of the object with the same name, else a derived id.
    """
    if key not in entry and len(named) > 1:
        message = f"{len(named)} {kind}s are named {names[0]}; select one by its {key!r}"
        raise DocumentError(message)
    uuid = str(entry.get(key) or (named[0] if named else derived_uuid(kind, *names)))
    draft.note_entry(kind, uuid)
    if unique and named and uuid not in named:
        raise DocumentError(f"the name {names[0]} is already used by {kind} {named[0]}")
    return uuid


def _require(entry: Json, kind: str, *keys: str) -> None:
    for key in keys:
        if key not in entry:
            message = f"{key!r} is required, as {kind} {entry['name']} does not exist yet"
            raise DocumentError(message)


def _merge_image(draft: MergeState, entry: Json) -> None:
    images, name = draft.after.images, entry.get("name")
    if name is None and "id" not in entry:
        raise DocumentError("an image requires an 'id' or a 'name'")
    named = [uuid for uuid, image in images.items() if image.name == name]
    uuid = _identify(draft, "image", entry, "id", named, str(name), unique=False)
    previous = images.get(uuid) or StoredImage(uuid=uuid)
    _check_properties(entry.get("properties", {}))
    values = {key: value for key, value in entry.items() if key != "id"}
    if "tags" in values:
        values["tags"] = frozenset(values["tags"])
    image = replace(previous, **values)
    try:
        check_allowed(previous, image, _ADMINISTRATOR)
    except LimitExceeded as error:
        raise DocumentError(error.detail) from None
    images[uuid] = image


def _check_properties(names: Iterable[str]) -> None:
    for name in names:
        problem = f"{name!r} is an attribute of every image, not a property"
        try:
            check_settable(name)
        except Forbidden as error:
            problem = error.detail
        else:
            if name not in SETTABLE:
                continue
        raise DocumentError(problem, "properties", name, at_key=True)


def _merge_server_group(draft: MergeState, entry: Json) -> None:
    """Merge a server group, identified by its uuid or its name (and project)."""
    groups, name, project = draft.after.server_groups, entry["name"], entry.get("project")
    named = [
        uuid
        for uuid, group in groups.items()
        if group.name == name and ("project" not in entry or group.project_id == project)
    ]
    names = (name, project or "")
    uuid = _identify(draft, "server group", entry, "uuid", named, *names, unique=False)
    previous = groups.get(uuid)
    if previous is None:
        _require(entry, "server group", "policy")
        previous = ServerGroup(uuid=uuid, policy=entry["policy"])
    values = {OWNER.get(key, key): value for key, value in entry.items()}
    if entry.get("policy", previous.policy) != previous.policy:
        values.setdefault("rules", {})
    group = replace(previous, **values)
    if group.rules and group.policy != ANTI_AFFINITY:
        raise DocumentError(f"only the policy {ANTI_AFFINITY} has rules")
    groups[uuid] = group


def _merge_aggregate(draft: MergeState, entry: Json) -> None:
    aggregates, name = draft.after.aggregates, entry["name"]
    named = [uuid for uuid, aggregate in aggregates.items() if aggregate.name == name]
    uuid = _identify(draft, "aggregate", entry, "uuid", named, name, unique=True)
    previous = aggregates.get(uuid) or cloud.new_aggregate(uuid, name)
    metadata = dict(entry.get("metadata", previous.metadata))
    if ZONE_KEY in entry:
        if metadata.get(ZONE_KEY, entry[ZONE_KEY]) != entry[ZONE_KEY] and "metadata" in entry:
            raise DocumentError("metadata name a different availability zone", ZONE_KEY)
        metadata[ZONE_KEY] = entry[ZONE_KEY]
    hosts = frozenset(entry.get("hosts", previous.hosts))
    aggregates[uuid] = replace(previous, name=name, metadata=metadata, hosts=hosts)


def _check_aggregate(draft: MergeState, entry: Json) -> None:
    hosts = {host for host, _ in (*draft.node_uuids, *draft.after.services)}
    if unknown := sorted(set(entry.get("hosts", ())) - hosts):
        raise DocumentError(f"there is no host {unknown[0]}", "hosts")


def _merge_instances(draft: MergeState, entry: Json) -> None:
    names, uuids = _read_instance_names(entry)
    hosts = expand_entries(entry, "host", len(uuids), alone=True)
    nodes = expand_entries(entry, "node", len(uuids), alone=True)
    values = {name: entry[key] for key, name in PLAIN.items() if key in entry}
    for key in InstanceMetadata._fields:
        if key in entry:
            values[key] = _check_metadata(key, entry[key])
    finders = {"server_group": _find_group, "flavor": _find_flavor, "image": _find_image}
    for key, find in finders.items():
        if key in entry:
            with prefix_errors(key):
                values[key] = None if entry[key] is None else find(draft, entry[key])
    for index, uuid in enumerate(uuids):
        draft.note_entry("instance", uuid)
        changes = dict(values)
        if "name" in entry:
            changes["display_name"] = names[index]
        if "host" in entry:
            changes["host"] = hosts[index]
            changes["node"] = draft.only_node(hosts[index])
        if "node" in entry:
            changes["node"] = nodes[index]
        _put_instance(draft, uuid, changes, entry)


def _check_metadata(key: str, metadata: Json) -> Json:
    if len(serialize_metadata(metadata) or "") > MAX_METADATA_CHARACTERS:
        raise DocumentError(f"more than {MAX_METADATA_CHARACTERS} characters", key)
    return metadata


def _read_instance_names(entry: Json) -> tuple[Sequence[str], Sequence[str]]:
    if "uuid" in entry:
        return expand_entries(entry, "name", len(entry["uuid"]), alone=True), entry["uuid"]
    if "name" not in entry:
        raise DocumentError("an instance requires a 'uuid' or a 'name'")
    return entry["name"], [derived_uuid("instance", name) for name in entry["name"]]


def _find(noun: str, value: str, names: Mapping[str, str | None]) -> str:
    ids = [value] if value in names else [uuid for uuid, name in names.items() if name == value]
    if not ids:
        raise DocumentError(f"there is no {noun} {value}")
    if len(ids) > 1:
        raise DocumentError(f"{len(ids)} {noun}s are named {value}, use an id")
    return ids[0]


def _find_group(draft: MergeState, value: str) -> str:
    groups = draft.after.server_groups
    return _find("server group", value, {uuid: group.name for uuid, group in groups.items()})


def _find_flavor(draft: MergeState, value: Json | str) -> Json:
    if isinstance(value, dict):
        return cloud.plain_flavor(value, draft.before.flavor_rows)
    flavors = draft.after.flavors
    flavorid = _find("flavor", value, {key: state.flavor.name for key, state in flavors.items()})
    return {**flavors[flavorid].flavor.as_document(), "id": cloud.FLAVOR_ROW}


def _find_image(draft: MergeState, value: Json | str) -> Json:
    if isinstance(value, dict):
        return value
    images = draft.after.images
    uuid = _find("image", value, {uuid: image.name for uuid, image in images.items()})
    return images[uuid].as_request_image()


def _put_instance(draft: MergeState, uuid: str, changes: Json, entry: Json) -> None:
    previous = draft.after.instances.get(uuid)
    instance = replace(previous or replace(BLANK, uuid=uuid, display_name=uuid), **changes)
    draft.after.instances[uuid] = instance
    owner = existing = draft.after.consumers.get(uuid)
    if owner is None or {"consumer", "project", "user"} & entry.keys():
        fields = {_CONSUMER[key]: value for key, value in entry.get("consumer", {}).items()}
        owner = replace(default_consumer(draft, instance), **fields)
    stays = previous is not None and all(
        getattr(previous, name) == getattr(instance, name) for name in ("host", "node", "flavor")
    )
    if "allocations" in entry:
        _put_consumer(draft, owner, _read_allocations(draft, entry))
    elif not stays:
        _put_consumer(draft, owner, default_allocations(draft, instance))
    elif existing is not None:
        _put_consumer(draft, owner, existing.allocations)


def _merge_allocations(draft: MergeState, entry: Json) -> None:
    draft.note_entry("consumer", entry["consumer"])
    owner = {name: entry[key] for key, name in _CONSUMER.items() if key in entry}
    consumer = ConsumerClaim(consumer=entry["consumer"], allocations={}, **owner)
    _put_consumer(draft, consumer, _read_allocations(draft, entry))


def _read_allocations(draft: MergeState, entry: Json) -> Allocations:
    amounts_of: dict[str, Amounts] = {}
    for text, amounts in entry["allocations"].items():
        with prefix_errors("allocations", text):
            uuid = text if text in draft.after.providers else draft.provider_uuids.get(text)
            if uuid is None:
                raise DocumentError(f"there is no provider {text}")
            if uuid in amounts_of:
                raise DocumentError("the provider is listed twice")
            if not amounts:
                raise DocumentError("no resources are given")
            draft.add_classes(amounts)
            amounts_of[uuid] = amounts
    return amounts_of


def _put_consumer(draft: MergeState, owner: ConsumerClaim, allocations: Allocations) -> None:
    if allocations:
        draft.after.consumers[owner.consumer] = replace(owner, allocations=allocations)
    else:
        draft.after.consumers.pop(owner.consumer, None)


def _check_allocations(draft: MergeState) -> None:
    """Raise :class:`DocumentError` if a provider lacks an allocated resource class.

    The error names the entry of a changed consumer, else the entry of the provider.
    """
    after = draft.after
    for uuid, claim in after.consumers.items():
        for provider_uuid, amounts in claim.allocations.items():
            provider = after.providers.get(provider_uuid)
            if not provider or amounts.keys() <= provider.inventories.keys():
                continue
            lacking = min(amounts.keys() - provider.inventories.keys())
            name = after.instances[uuid].display_name if uuid in after.instances else uuid
            holder = draft.entry_of_consumer(uuid)
            if holder and draft.before.consumers.get(uuid) != claim:
                message = f"{name}: provider {provider.name} has no inventory of {lacking}"
                raise DocumentError(message, *holder, "allocations")
            if place := draft.entry_of("provider", provider_uuid):
                message = (
                    f"provider {provider.name}: the inventory of {lacking} is in use by {name}"
                )
                raise DocumentError(message, *place, "inventories")


def default_consumer(draft: MergeState, instance: Instance) -> ConsumerClaim:
    """Return the consumer of an instance by default, without allocations."""
    return ConsumerClaim(
        consumer=instance.uuid,
        project_id=instance.project_id or draft.unknown_owner[0],
        user_id=instance.user_id or draft.unknown_owner[1],
        consumer_type=INSTANCE_TYPE,
        allocations={},
    )


def default_allocations(draft: MergeState, instance: Instance) -> Allocations:
    """Return the default allocations of an instance, by its flavor and node."""
    node = draft.node_uuids.get((instance.host or "", instance.node or ""))
    if node is None or node not in draft.after.providers or not instance.flavor:
        return {}
    try:
        flavor = Flavor.from_document(instance.flavor)
        requested = dict(amounts_of(flavor, boot_from_volume=False))
    except Invalid:
        return {}
    return {node: requested} if requested else {}


#: The sections in the order of merging, with the function that merges an entry.
_SECTIONS: tuple[tuple[str, Callable[[MergeState, Json], None]], ...] = (
    ("flavors", _merge_flavor),
    ("images", _merge_image),
    ("server_groups", _merge_server_group),
    ("aggregates", _merge_aggregate),
    ("hosts", merge_hosts),
    ("services", merge_services),
    ("providers", merge_providers),
    ("aggregates", _check_aggregate),
    # Instances depend on all sections above.
    ("instances", _merge_instances),
    ("allocations", _merge_allocations),
)


def merge(connection: Connection, document: Any, settings: Settings, now: datetime) -> MergeState:
    """Merge a document into the present cloud, or raise :class:`DocumentError`."""
    file = read_file({} if document is None else document)
    if file.get("version", VERSION) != VERSION:
        raise DocumentError(f"only version {VERSION} of the file format is supported", "version")
    draft = MergeState(cloud.read_state(connection, settings.unknown_owner), settings, now)
    with prefix_errors("resource_classes"):
        draft.add_classes(file.get("resource_classes", ()))
    with prefix_errors("traits"):
        draft.add_traits(file.get("traits", ()))
    for section, merge_entry in _SECTIONS:
        for index, entry in enumerate(file.get(section, ())):
            draft.entry = (section, index)
            with prefix_errors(section, index):
                merge_entry(draft, entry)
    _check_allocations(draft)
    settle_roots(draft)
    return draft
