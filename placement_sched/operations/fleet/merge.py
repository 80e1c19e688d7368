# SPDX-License-Identifier: Apache-2.0
"""Merging of a decoded fleet file into the state of the cloud."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection
from placement_sched.errors import Forbidden, Invalid, LimitExceeded
from placement_sched.limits import MAX_METADATA_CHARACTERS
from placement_sched.model import compute_node
from placement_sched.model.aggregates import ANTI_AFFINITY, ZONE_KEY, HostAggregate, ServerGroup
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import StoredImage, Viewer
from placement_sched.model.instance import Instance, InstanceMetadata
from placement_sched.model.provider import INSTANCE_TYPE, Amounts, ConsumerClaim, Inventory
from placement_sched.operations.flavors_images import SETTABLE, check_image_allowed, check_settable
from placement_sched.operations.fleet import cloud
from placement_sched.operations.fleet.cloud import (
    MergeState,
    ProviderState,
    derive_uuid,
    expand,
    expand_entries,
    fill_in,
)
from placement_sched.operations.fleet.schema import read_file, read_node_name, read_provider_name
from placement_sched.scheduler.request_groups import compute_flavor_amounts
from placement_sched.schemas.formats import DocumentError, prefix_errors
from placement_sched.schemas.node_report import read_report
from placement_sched.store.compute.instances import serialize_metadata

#: Fields of a host report. An entry with any of them is a report.
_REPORTED = frozenset(compute_node.REPORT_KEYS).difference(
    ("uuid", "host", "hypervisor_hostname", "host_ip", "last_seen_up", "inventories")
)
#: A provider, and the name of its root provider.
_ProviderAndRoot = tuple[ProviderState, str]
_ADMINISTRATOR = Viewer(
    project_id="", is_admin=True, settable_visibilities=frozenset({"public", "community"})
)
Allocations = Mapping[str, Amounts]
#: Keys of a file entry, with the fields of owners, consumers and instances that they set.
OWNER = {"project": "project_id", "user": "user_id"}
_CONSUMER = {**OWNER, "type": "consumer_type"}
PLAIN = {**OWNER, "vm_state": "vm_state", "task_state": "task_state", "request": "request"}
#: An instance without the values that an entry sets.
BLANK = Instance(uuid="", display_name="", vm_state="active", metadata={}, system_metadata={})


def _merge_hosts(merge_state: MergeState, entry: Json) -> None:
    hosts, names = _read_host_names(entry)
    uuids = expand_entries(entry, "uuid", len(names))
    addresses = expand_entries(entry, "host_ip", len(names))
    reported: ComputeNode | None = None
    if fields := {key: value for key, value in entry.items() if key in _REPORTED}:
        first = {"uuid": derive_uuid("node", hosts[0], names[0]), "host": hosts[0]}
        first |= {"hypervisor_hostname": names[0], "host_ip": addresses[0]}
        report = {**fields, **first}
        reported = read_report(report, merge_state.defaults, in_file=True).node
    roots: list[_ProviderAndRoot] = []
    for host, name, entry_uuid, address in zip(hosts, names, uuids, addresses, strict=True):
        existing_uuid = merge_state.node_uuids.get((host, name))
        uuid = entry_uuid or existing_uuid or derive_uuid("node", host, name)
        previous = merge_state.after.nodes.get(uuid)
        node = reported or previous
        if node is None:
            message = f"'vcpus' and 'memory_mb' are required, as host {host} does not exist yet"
            raise DocumentError(message)
        last = previous.last_seen_up if previous else merge_state.now
        seen_up = entry.get("last_seen_up") or last
        node = replace(node, uuid=uuid, host=host, hypervisor_hostname=name, last_seen_up=seen_up)
        if "host_ip" in entry:
            node = replace(node, host_ip=address)
        merge_state.claim_name("node", merge_state.node_uuids, (host, name), uuid)
        merge_state.after.nodes[uuid] = node
        service = merge_state.get_service(host, compute_node.COMPUTE_BINARY)
        if service.last_seen_up is None or service.last_seen_up < seen_up:
            service = service._replace(last_seen_up=seen_up)
        merge_state.after.services[host, service.binary] = service
        if entry.get("provider", True):
            roots.append((_put_root(merge_state, entry, node, reported=reported is not None), name))
    _merge_below(merge_state, entry, roots)


def _read_host_names(entry: Json) -> tuple[Sequence[str], Sequence[str]]:
    key = "node" if "node" in entry else "host"
    with prefix_errors("host"):
        names = entry["node"] if "node" in entry else list(map(read_node_name, entry["host"]))
    count = max(len(entry["host"]), len(names))
    hosts = expand_entries(entry, "host", count)
    return hosts, expand_entries({key: names}, key, count)


def _put_root(
    merge_state: MergeState, entry: Json, node: ComputeNode, *, reported: bool
) -> ProviderState:
    previous = merge_state.after.providers.get(node.uuid)
    extra = dict(previous.inventories) if previous else {}
    existing = {name: extra.pop(name) for name in compute_node.REPORTED_CLASSES if name in extra}
    reported_items = {item.resource_class: item for item in compute_node.build_inventories(node)}
    provider = replace(
        previous or ProviderState(uuid=node.uuid, name=""),
        name=node.hypervisor_hostname,
        inventories=_merge_inventories(
            entry, extra, reported_items if reported or not previous else existing
        ),
    )
    return _put_provider(merge_state, provider, entry, "provider_aggregates")


def _put_provider(
    merge_state: MergeState, provider: ProviderState, entry: Json, key: str = "aggregates"
) -> ProviderState:
    uuid = provider.uuid
    listed = {"traits": entry.get("traits"), "aggregates": entry.get(key)}
    lists: Json = {name: frozenset(values) for name, values in listed.items() if values is not None}
    provider = replace(provider, **lists)
    if lists:
        merge_state.given_lists[uuid] = lists.keys()
    merge_state.claim_name("provider", merge_state.provider_uuids, provider.name, uuid)
    merge_state.add_classes(provider.inventories)
    merge_state.add_traits(provider.traits)
    merge_state.after.providers[uuid] = provider
    return provider


def _merge_inventories(
    entry: Json, existing: Mapping[str, Inventory], reported: Mapping[str, Inventory]
) -> dict[str, Inventory]:
    """Merge the inventories of an entry into the inventories of a provider.

    If the entry has inventories, they replace ``existing``. Inventories in ``reported`` remain,
    unless the entry replaces them or removes them by null.
    """
    inventories = {**reported, **existing}
    if "inventories" in entry:
        inventories = dict(reported)
        for name, values in entry["inventories"].items():
            if values is None:
                inventories.pop(name, None)
                continue
            inventories[name] = item = Inventory(resource_class=name, **values)
            if item.capacity < 0:
                message = f"{item.reserved} is more than the total, {item.total}"
                raise DocumentError(message, "inventories", name, "reserved")
    return inventories


def _merge_below(merge_state: MergeState, entry: Json, parents: Sequence[_ProviderAndRoot]) -> None:
    above = merge_state.entry
    for index, below in enumerate(entry.get("providers", ())):
        merge_state.entry = (*above, "providers", index)
        with prefix_errors("providers", index):
            _merge_providers(merge_state, below, parents)
    merge_state.entry = above


def _merge_providers(
    merge_state: MergeState, entry: Json, parents: Sequence[_ProviderAndRoot | None] = (None,)
) -> None:
    with prefix_errors("name"):
        places = [(parent, name) for parent in parents for name in _expand_names(entry, parent)]
    uuids = expand_entries(entry, "uuid", len(places))
    providers: list[_ProviderAndRoot] = []
    for (parent, name), entry_uuid in zip(places, uuids, strict=True):
        uuid = entry_uuid or merge_state.provider_uuids.get(name) or derive_uuid("provider", name)
        previous = merge_state.after.providers.get(uuid) or ProviderState(uuid=uuid, name=name)
        provider = replace(
            previous,
            name=name,
            parent=parent and parent[0].uuid,
            inventories=_merge_inventories(entry, previous.inventories, {}),
        )
        _put_provider(merge_state, provider, entry)
        providers.append((provider, parent[1] if parent else name))
    _merge_below(merge_state, entry, providers)


def _expand_names(entry: Json, parent: _ProviderAndRoot | None) -> list[str]:
    value = entry["name"]
    patterns = value if isinstance(value, list) else [value]
    if parent is not None:
        above = {"root": parent[1], "parent": parent[0].name}
        patterns = [fill_in(pattern, above) for pattern in patterns]
    return [read_provider_name(name) for pattern in patterns for name in expand(pattern)]


def _merge_services(merge_state: MergeState, entry: Json) -> None:
    hosts, binary = entry["host"], entry.get("binary", compute_node.COMPUTE_BINARY)
    values: Json = {key: entry[key] for key in ("forced_down", "last_seen_up") if key in entry}
    for host, uuid in zip(hosts, expand_entries(entry, "uuid", len(hosts)), strict=True):
        merge_state.record_entry("service", host, binary)
        service = merge_state.get_service(host, binary)._replace(**values)
        if "status" in entry:
            service = service._replace(disabled=entry["status"] == "disabled")
        previous_reason = service.disabled_reason if service.disabled else None
        reason = entry.get("disabled_reason", previous_reason)
        service = service._replace(uuid=uuid or service.uuid, disabled_reason=reason)
        owner = merge_state.service_keys.setdefault(service.uuid, (host, binary))
        if owner != (host, binary):
            message = f"uuid {service.uuid} already belongs to {owner[1]} of {owner[0]}"
            raise DocumentError(message, "uuid")
        if reason is not None and not service.disabled:
            raise DocumentError("disabled_reason requires the status disabled", "disabled_reason")
        merge_state.after.services[host, binary] = service


def _merge_flavor(merge_state: MergeState, entry: Json) -> None:
    flavors, name = merge_state.after.flavors, entry["name"]
    flavorid = _identify(merge_state, "flavor", entry, "id", flavors, name, unique=True)
    previous = flavors.get(flavorid)
    if previous is None:
        _require(entry, "flavor", "vcpus", "memory_mb")
        previous = cloud.FlavorState(flavor=Flavor(flavorid=flavorid))
    values = {key: value for key, value in entry.items() if key not in {"id", "projects"}}
    projects = frozenset(entry.get("projects", previous.projects))
    flavor = replace(previous.flavor, **values)
    flavors[flavorid] = cloud.FlavorState(flavor=flavor, projects=projects)


def _identify(
    merge_state: MergeState,
    kind: str,
    entry: Json,
    key: str,
    objects: Mapping[str, Any],
    *name: str,
    unique: bool = False,
) -> str:
    """Return the id of the object that an entry describes.

    It is the id in the entry, else the id of the object with the same name in ``objects``, else an
    id derived from ``name``.
    """
    named = [uuid for uuid, item in objects.items() if item.name == entry.get("name")]
    if key not in entry and len(named) > 1:
        message = f"{len(named)} {kind}s are named {name[0]}. Select one by its {key!r}"
        raise DocumentError(message)
    uuid = str(entry.get(key) or (named[0] if named else derive_uuid(kind, *name)))
    merge_state.record_entry(kind, uuid)
    if unique and named and uuid not in named:
        raise DocumentError(f"the name {name[0]} is already used by {kind} {named[0]}")
    return uuid


def _require(entry: Json, kind: str, *keys: str) -> None:
    for key in keys:
        if key not in entry:
            message = f"{key!r} is required, as {kind} {entry['name']} does not exist yet"
            raise DocumentError(message)


def _merge_image(merge_state: MergeState, entry: Json) -> None:
    images = merge_state.after.images
    if entry.get("name") is None and "id" not in entry:
        raise DocumentError("an image requires an 'id' or a 'name'")
    uuid = _identify(merge_state, "image", entry, "id", images, str(entry.get("name")))
    previous = images.get(uuid) or StoredImage(uuid=uuid)
    for property_name in entry.get("properties", {}):
        check_settable(property_name)
        if property_name in SETTABLE:
            problem = f"{property_name!r} is an attribute of every image, not a property"
            raise DocumentError(problem, "properties", property_name, at_key=True)
    values = {key: value for key, value in entry.items() if key != "id"}
    if "tags" in values:
        values["tags"] = frozenset(values["tags"])
    image = replace(previous, **values)
    check_image_allowed(previous, image, _ADMINISTRATOR)
    images[uuid] = image


def _merge_server_group(merge_state: MergeState, entry: Json) -> None:
    groups, project = merge_state.after.server_groups, entry.get("project")
    of_project = {
        uuid: group
        for uuid, group in groups.items()
        if "project" not in entry or group.project_id == project
    }
    uuid = _identify(
        merge_state, "server group", entry, "uuid", of_project, entry["name"], project or ""
    )
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


def _merge_aggregate(merge_state: MergeState, entry: Json) -> None:
    aggregates, name = merge_state.after.aggregates, entry["name"]
    uuid = _identify(merge_state, "aggregate", entry, "uuid", aggregates, name, unique=True)
    previous = aggregates.get(uuid) or HostAggregate(id=0, uuid=uuid, name=name)
    metadata = dict(entry.get("metadata", previous.metadata))
    if ZONE_KEY in entry:
        if "metadata" in entry and metadata.get(ZONE_KEY, entry[ZONE_KEY]) != entry[ZONE_KEY]:
            raise DocumentError(
                f"the metadata and the key {ZONE_KEY!r} name different availability zones", ZONE_KEY
            )
        metadata[ZONE_KEY] = entry[ZONE_KEY]
    hosts = frozenset(entry.get("hosts", previous.hosts))
    aggregates[uuid] = replace(previous, name=name, metadata=metadata, hosts=hosts)


def _merge_instances(merge_state: MergeState, entry: Json) -> None:
    derived = [derive_uuid("instance", name) for name in entry.get("name", ())]
    if not (uuids := entry.get("uuid", derived)):
        raise DocumentError("an instance requires a 'uuid' or a 'name'")
    names = expand_entries(entry, "name", len(uuids))
    hosts = expand_entries(entry, "host", len(uuids))
    nodes = expand_entries(entry, "node", len(uuids))
    values = {name: entry[key] for key, name in PLAIN.items() if key in entry}
    for key in InstanceMetadata._fields:
        values |= {key: entry[key]} if key in entry else {}
        if len(serialize_metadata(entry.get(key)) or "") > MAX_METADATA_CHARACTERS:
            raise DocumentError(f"more than {MAX_METADATA_CHARACTERS} characters", key)
    for key in ("server_group", "flavor", "image"):
        if key in entry:
            with prefix_errors(key):
                values[key] = None if entry[key] is None else _find(merge_state, key, entry[key])
    for index, uuid in enumerate(uuids):
        merge_state.record_entry("instance", uuid)
        changes = dict(values)
        if "name" in entry:
            changes["display_name"] = names[index]
        if "host" in entry:
            changes["host"] = hosts[index]
            changes["node"] = merge_state.get_only_node(hosts[index])
        if "node" in entry:
            changes["node"] = nodes[index]
        _put_instance(merge_state, uuid, changes, entry)


def _find(merge_state: MergeState, key: str, value: Json | str) -> Any:
    if isinstance(value, dict):
        return cloud.drop_row_id(value) if key == "flavor" else value
    kind = key.replace("_", " ")
    objects: Mapping[str, Any] = getattr(merge_state.after, f"{key}s")
    if (item := objects.get(value)) is None:
        named = [item for item in objects.values() if item.name == value]
        if not named:
            raise DocumentError(f"there is no {kind} {value}")
        if len(named) > 1:
            raise DocumentError(f"{len(named)} {kind}s are named {value}: use an id")
        item = named[0]
    if key == "flavor":
        return cloud.drop_row_id(item.flavor.as_document())
    return item.uuid if key == "server_group" else item.as_request_image()


def _put_instance(merge_state: MergeState, uuid: str, changes: Json, entry: Json) -> None:
    previous = merge_state.after.instances.get(uuid)
    instance = replace(previous or replace(BLANK, uuid=uuid, display_name=uuid), **changes)
    merge_state.after.instances[uuid] = instance
    owner = existing = merge_state.after.consumers.get(uuid)
    if owner is None or {"consumer", "project", "user"} & entry.keys():
        fields = {_CONSUMER[key]: value for key, value in entry.get("consumer", {}).items()}
        owner = replace(build_default_consumer(merge_state, instance), **fields)
    is_unmoved = previous is not None and all(
        getattr(previous, name) == getattr(instance, name) for name in ("host", "node", "flavor")
    )
    if "allocations" in entry:
        _put_consumer(merge_state, owner, _read_allocations(merge_state, entry))
    elif not is_unmoved:
        _put_consumer(merge_state, owner, derive_default_allocations(merge_state, instance))
    elif existing is not None:
        _put_consumer(merge_state, owner, existing.allocations)


def _merge_allocations(merge_state: MergeState, entry: Json) -> None:
    merge_state.record_entry("consumer", entry["consumer"])
    owner = {name: entry[key] for key, name in _CONSUMER.items() if key in entry}
    consumer = ConsumerClaim(consumer=entry["consumer"], allocations={}, **owner)
    _put_consumer(merge_state, consumer, _read_allocations(merge_state, entry))


def _read_allocations(merge_state: MergeState, entry: Json) -> Allocations:
    amounts_of: dict[str, Amounts] = {}
    uuids = merge_state.provider_uuids
    for text, amounts in entry["allocations"].items():
        with prefix_errors("allocations", text):
            uuid = text if text in merge_state.after.providers else uuids.get(text)
            if uuid is None:
                raise DocumentError(f"there is no provider {text}")
            if uuid in amounts_of:
                raise DocumentError("the provider is listed twice")
            merge_state.add_classes(amounts)
            amounts_of[uuid] = amounts
    return amounts_of


def _put_consumer(merge_state: MergeState, owner: ConsumerClaim, allocations: Allocations) -> None:
    for uuid, amounts in allocations.items():
        provider = merge_state.after.providers.get(uuid)
        if provider and (lacking := sorted(amounts.keys() - provider.inventories.keys())):
            message = f"provider {provider.name} has no inventory of {lacking[0]}"
            raise DocumentError(message, "allocations")
    if allocations:
        merge_state.after.consumers[owner.consumer] = replace(owner, allocations=allocations)
    else:
        merge_state.after.consumers.pop(owner.consumer, None)


def build_default_consumer(merge_state: MergeState, instance: Instance) -> ConsumerClaim:
    """Build the default consumer for an instance, without allocations."""
    return ConsumerClaim(
        consumer=instance.uuid,
        project_id=instance.project_id or merge_state.unknown_owner[0],
        user_id=instance.user_id or merge_state.unknown_owner[1],
        consumer_type=INSTANCE_TYPE,
        allocations={},
    )


def derive_default_allocations(merge_state: MergeState, instance: Instance) -> Allocations:
    """Derive the default allocations of an instance from its flavor and node."""
    node = merge_state.node_uuids.get((instance.host or "", instance.node or ""))
    if node is None or node not in merge_state.after.providers or not instance.flavor:
        return {}
    try:
        flavor = Flavor.from_document(instance.flavor)
        boots_from_volume = bool((instance.request or {}).get("is_bfv"))
        requested = dict(compute_flavor_amounts(flavor, boot_from_volume=boots_from_volume))
    except Invalid:
        return {}
    return {node: requested} if requested else {}


#: The sections in the order of merging, with the function that merges an entry.
_SECTIONS: tuple[tuple[str, Callable[[MergeState, Json], None]], ...] = (
    ("flavors", _merge_flavor),
    ("images", _merge_image),
    ("server_groups", _merge_server_group),
    ("aggregates", _merge_aggregate),
    ("hosts", _merge_hosts),
    ("services", _merge_services),
    ("providers", _merge_providers),
    # Instances depend on all sections above.
    ("instances", _merge_instances),
    ("allocations", _merge_allocations),
)


def merge(connection: Connection, document: Any, settings: Settings, now: datetime) -> MergeState:
    """Merge a document into the cloud, or raise :class:`DocumentError`."""
    state = cloud.read_state(connection, settings.unknown_owner)
    return merge_document(state, document, settings, now)


def merge_document(
    before: cloud.State, document: Any, settings: Settings, now: datetime
) -> MergeState:
    """Merge a document into a state, or raise :class:`DocumentError`."""
    file = read_file({} if document is None else document)
    merge_state = MergeState(before, settings, now)
    with prefix_errors("resource_classes"):
        merge_state.add_classes(file.get("resource_classes", ()))
    with prefix_errors("traits"):
        merge_state.add_traits(file.get("traits", ()))
    for section, merge_entry in _SECTIONS:
        for index, entry in enumerate(file.get(section, ())):
            merge_state.entry = (section, index)
            with prefix_errors(section, index):
                try:
                    merge_entry(merge_state, entry)
                except (Forbidden, LimitExceeded) as error:
                    raise DocumentError(error.detail) from None
    return merge_state
