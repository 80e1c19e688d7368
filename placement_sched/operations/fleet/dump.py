"""Dumps a cloud as a fleet file, as short as it can be without losing anything."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import yaml

from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.host_aggregate import ZONE_KEY, HostAggregate
from placement_sched.model.image import StoredImage
from placement_sched.model.instance import Instance
from placement_sched.model.naming import is_zone, read_uuid
from placement_sched.model.placement.allocation import Amounts
from placement_sched.model.server_group import ServerGroup
from placement_sched.operations.fleet import cloud, merge_instances
from placement_sched.operations.fleet.cloud import ConsumerState, State, derived_uuid
from placement_sched.operations.fleet.draft import Draft, Terms
from placement_sched.operations.fleet.dump_hosts import (
    differing,
    dump_hosts,
    dump_providers,
    dump_services,
    filled,
    given_id,
    grouped,
)
from placement_sched.operations.fleet.names import escape, fold, natural_key, patterns_for, unquoted
from placement_sched.operations.fleet.schema import FLAVOR_KEYS, IMAGE_KEYS, VERSION

#: Keys whose values are written by rules of their own.
_NOT_PLAIN = frozenset({"name", "id", "extra_specs", "projects", "tags", "properties"})
_FLAVOR = {key: key for key in FLAVOR_KEYS if key not in _NOT_PLAIN}
_IMAGE = {key: key for key in IMAGE_KEYS if key not in _NOT_PLAIN}
_HEADER = "# A cloud, written by placement-sched fleet dump; placement-sched fleet load reads it.\n"


class _Dumper(yaml.CSafeDumper):
    """Writes entries over several lines, and the values in them on one."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Write every value in full."""
        return True


class _Entry(dict[str, Any]):
    """A mapping that is written over several lines."""


_Dumper.add_representer(
    _Entry,
    lambda dumper, data: dumper.represent_mapping(
        "tag:yaml.org,2002:map", data.items(), flow_style=False
    ),
)


def to_yaml(document: Json) -> str:
    """Return a document as YAML."""
    lines: Any = _Entry(document)
    for key, value in document.items():
        if isinstance(value, list):
            lines[key] = [_Entry(one) if isinstance(one, dict) else one for one in value]
    return _HEADER + yaml.dump(
        lines,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=None,
    )


def document_of(state: State, terms: Terms) -> Json:
    """Return the document of a cloud; sections without content are left out."""
    writer = _Writer(state, terms)
    return filled(
        {
            "version": VERSION,
            "resource_classes": sorted(state.resource_classes),
            "traits": sorted(state.traits),
            "flavors": list(map(_flavor, state.flavors.values())),
            "images": list(map(writer.image, state.images.values())),
            "server_groups": list(map(writer.group, state.server_groups.values())),
            "aggregates": list(map(_aggregate, state.aggregates.values())),
            "hosts": dump_hosts(state, terms),
            "services": dump_services(state),
            "providers": dump_providers(state),
            "instances": writer.instances(),
            "allocations": writer.allocations(),
        }
    )


def _unquoted_values(values: Mapping[str, Any]) -> Json:
    return {key: unquoted(value) for key, value in sorted(values.items())}


def _plain(one: object, default: object, names: Mapping[str, str]) -> Json:
    found = differing(one, default, names)
    return {key: value and unquoted(value) for key, value in found.items()}


def _flavor(one: cloud.FlavorState) -> Json:
    flavor = one.flavor
    return {
        "name": unquoted(flavor.name),
        **given_id("id", str(flavor.flavorid), "flavor", flavor.name),
        **differing(flavor, Flavor(), _FLAVOR, "vcpus", "memory_mb"),
        **filled({"extra_specs": _unquoted_values(flavor.extra_specs)}),
        **filled({"projects": sorted(one.projects)}),
    }


def _aggregate(one: HostAggregate) -> Json:
    metadata = _unquoted_values(one.metadata)
    zone = metadata.pop(ZONE_KEY) if is_zone(one.metadata.get(ZONE_KEY) or ":") else None
    return {
        "name": unquoted(one.name),
        **given_id("uuid", one.uuid, "aggregate", one.name),
        **({} if zone is None else {ZONE_KEY: zone}),
        **filled({"metadata": metadata, "hosts": fold(sorted(one.hosts, key=natural_key))}),
    }


def _owner(one: ConsumerState) -> Json:
    owner: Json = {"project": unquoted(one.project_id), "user": unquoted(one.user_id)}
    return owner if one.consumer_type is None else {**owner, "type": one.consumer_type}


class _Writer:
    def __init__(self, state: State, terms: Terms) -> None:
        self._state, self._draft = state, Draft(state, terms)
        self._nodes = state.nodes_by_host()
        self._images = Counter(one.name for one in state.images.values())
        self._groups = Counter(one.name for one in state.server_groups.values())

    def image(self, image: StoredImage) -> Json:
        name = image.name
        entry: Json = {} if name is None else {"name": name}
        if name is None or self._images[name] > 1 or image.uuid != derived_uuid("image", name):
            entry["id"] = image.uuid
        lists = {"tags": sorted(image.tags), "properties": _unquoted_values(image.properties)}
        return entry | differing(image, StoredImage(uuid=""), _IMAGE) | filled(lists)

    def group(self, one: ServerGroup) -> Json:
        name = str(one.name)
        uuid = given_id("uuid", str(one.uuid), "server group", name, one.project_id or "")
        # Of several groups of one name, each has its uuid.
        entry = {"name": unquoted(name), **({"uuid": one.uuid} if self._groups[name] > 1 else uuid)}
        entry |= {"policy": one.policy, **filled({"rules": dict(one.rules)})}
        return entry | _plain(one, ServerGroup(policy=""), merge_instances.OWNER)

    def instances(self) -> list[Json]:
        """Return the entries of instances."""
        instances = sorted(
            self._state.instances.values(),
            key=lambda one: (natural_key(one.display_name), natural_key(one.host or ""), one.uuid),
        )
        found: list[Json] = []
        for entry, (names, uuids, hosts) in grouped(
            (self._instance(one), [one.display_name, one.uuid, one.host]) for one in instances
        ):
            shown: Json = {}
            if names != uuids:
                shown["name"] = patterns_for(names)
            if names == uuids or uuids != [derived_uuid("instance", name) for name in names]:
                shown["uuid"] = patterns_for(uuids)
            if hosts[0] is not None:
                shown["host"] = patterns_for(hosts, alone=True)
            found.append(shown | entry)
        return found

    def _instance(self, one: Instance) -> Json:
        # Those on hosts share entries, and those on none.
        entry: Json = {} if one.host is not None else {"host": None}
        if one.node != merge_instances.only_node(self._nodes, one.host):
            entry["node"] = None if one.node is None else escape(one.node)
        entry |= _plain(one, merge_instances.BLANK, merge_instances.PLAIN)
        if one.server_group is not None:
            group = self._state.server_groups.get(one.server_group)
            name = group.name if group else None
            entry["server_group"] = _name_of(one.server_group, name, self._groups)
        if one.flavor is not None:
            entry["flavor"] = self._flavor_of(one.flavor)
        if one.image is not None:
            entry["image"] = self._image_of(one.image)
        held = self._state.consumers.get(one.uuid)
        default = merge_instances.default_allocations(self._draft, one)
        if held is None:
            return entry | ({"allocations": {}} if default else {})
        if held.allocations != default:
            entry["allocations"] = self._named(held.allocations)
        if replace(held, allocations={}) != merge_instances.default_consumer(self._draft, one):
            entry["consumer"] = {**_owner(held), "type": held.consumer_type}
        return entry

    def _flavor_of(self, document: Mapping[str, Any]) -> Any:
        if document.get("id") != cloud.FLAVOR_ROW:
            return dict(document)
        flavorid, flavors = str(document["flavorid"]), self._state.flavors
        stored = flavors[flavorid].flavor
        if {**stored.as_document(), "id": cloud.FLAVOR_ROW} != document:
            return dict(document)
        # A name that is another's id would be taken for that one.
        taken = stored.name in flavors and stored.name != flavorid
        return unquoted(flavorid if taken else stored.name)

    def _image_of(self, document: Mapping[str, Any]) -> Any:
        uuid = str(document.get("id"))
        stored = self._state.images.get(uuid)
        if stored is None or stored.as_request_image() != document:
            return dict(document)
        return _name_of(uuid, stored.name, self._images)

    def allocations(self) -> list[Json]:
        """Return the entries of consumers that are not instances."""
        return [
            {"consumer": unquoted(uuid), **_owner(one), "allocations": self._named(one.allocations)}
            for uuid, one in sorted(self._state.consumers.items())
            if uuid not in self._state.instances
        ]

    def _named(self, allocations: Mapping[str, Amounts]) -> Json:
        """Return amounts by provider's name, or by its uuid where the name may be another's."""
        found: Json = {}
        for uuid, amounts in allocations.items():
            provider = self._state.providers.get(uuid)
            name = provider.name if provider and not read_uuid(provider.name) else ""
            found[name or uuid] = dict(sorted(amounts.items()))
        return dict(sorted(found.items()))


def _name_of(uuid: str, name: str | None, names: Counter[str | None]) -> Any:
    """Return the name of a thing that is the only one of its name, else its uuid."""
    return unquoted(name) if name and names[name] == 1 and not read_uuid(name) else uuid
