"""Writes a cloud down as a fleet file: as short as it can be told without losing anything."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import yaml

from placement_sched.model.flavor import Flavor
from placement_sched.model.host_aggregate import ZONE_KEY
from placement_sched.model.naming import is_zone
from placement_sched.model.server_group import ServerGroup
from placement_sched.model.stored_image import StoredImage
from placement_sched.operations.fleet.patterns import fold
from placement_sched.operations.fleet.showing_hosts import show_hosts, show_providers, show_services
from placement_sched.operations.fleet.showing_instances import show_allocations, show_instances
from placement_sched.operations.fleet.state import AggregateState, FlavorState, ImageState, State
from placement_sched.operations.fleet.wanted import Terms, derived
from placement_sched.operations.fleet.words import natural, short

Json = dict[str, Any]

_NEW_FLAVOR = Flavor()
_NEW_IMAGE = StoredImage(uuid="")
_FLAVOR = (
    "vcpus",
    "memory_mb",
    "root_gb",
    "ephemeral_gb",
    "swap",
    "rxtx_factor",
    "is_public",
    "description",
)
_IMAGE = (
    "status",
    "visibility",
    "owner",
    "size",
    "virtual_size",
    "disk_format",
    "container_format",
    "min_ram",
    "min_disk",
    "protected",
    "os_hidden",
)
_HEADER = (
    "# A cloud, as placement-sched fleet dump wrote it down; placement-sched fleet load reads it.\n"
)


class _Dumper(yaml.CSafeDumper):
    """Writes entries over several lines, and what is small within them on one."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Write everything where it stands."""
        return True


class _Entry(dict[str, Any]):
    """A mapping that is written over several lines."""


_Dumper.add_representer(
    _Entry,
    lambda dumper, data: dumper.represent_mapping(
        "tag:yaml.org,2002:map", data.items(), flow_style=False
    ),
)


def text_of(document: Json) -> str:
    """Return a document as YAML."""
    return _HEADER + yaml.dump(
        _Entry({key: _entries(value) for key, value in document.items()}),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=None,
    )


def _entries(value: Any) -> Any:
    if isinstance(value, list):
        return [_Entry(one) if isinstance(one, dict) else one for one in value]
    return value


def show(state: State, terms: Terms) -> Json:
    """Return the document of a cloud; sections without content are left out."""
    sections: Json = {
        "version": 1,
        "resource_classes": sorted(state.resource_classes),
        "traits": sorted(state.traits),
        "flavors": [_flavor(one) for one in state.flavors.values()],
        "images": _images(state.images),
        "server_groups": _groups(state.server_groups),
        "aggregates": [_aggregate(one) for one in state.aggregates.values()],
        "hosts": show_hosts(state, terms),
        "services": show_services(state),
        "providers": show_providers(state),
        "instances": show_instances(state, terms),
        "allocations": show_allocations(state),
    }
    return {key: value for key, value in sections.items() if value}


def _flavor(one: FlavorState) -> Json:
    flavor = one.flavor
    shown: Json = {"name": short(flavor.name)}
    if flavor.flavorid != derived("flavor", flavor.name):
        shown["id"] = short(str(flavor.flavorid))
    shown |= {
        name: value
        for name in _FLAVOR
        if (value := getattr(flavor, name)) != getattr(_NEW_FLAVOR, name)
        or name in {"vcpus", "memory_mb"}
    }
    if flavor.extra_specs:
        shown["extra_specs"] = {
            key: short(value) for key, value in sorted(flavor.extra_specs.items())
        }
    if one.projects:
        shown["projects"] = sorted(one.projects)
    return shown


def _images(images: Mapping[str, ImageState]) -> list[Json]:
    named = Counter(one.image.name for one in images.values())
    return [_image(one, alone=named[one.image.name] == 1) for one in images.values()]


def _image(one: ImageState, *, alone: bool) -> Json:
    image = one.image
    shown: Json = {} if image.name is None else {"name": image.name}
    if image.name is None or not alone or image.uuid != derived("image", image.name):
        shown["id"] = image.uuid
    shown |= {
        name: value
        for name in _IMAGE
        if (value := getattr(image, name)) != getattr(_NEW_IMAGE, name)
    }
    if image.tags:
        shown["tags"] = sorted(image.tags)
    if image.properties:
        shown["properties"] = {key: short(value) for key, value in sorted(image.properties.items())}
    if one.members:
        shown["members"] = dict(sorted(one.members.items()))
    return shown


def _groups(groups: Mapping[str, ServerGroup]) -> list[Json]:
    # Several may have one name: who reads it must not take one for another.
    named = Counter(one.name for one in groups.values())
    return [_group(one, alone=named[one.name] == 1) for one in groups.values()]


def _group(one: ServerGroup, *, alone: bool) -> Json:
    name = str(one.name)
    shown: Json = {"name": short(name)}
    if not alone or one.uuid != derived("server group", name, one.project_id or ""):
        shown["uuid"] = one.uuid
    shown["policy"] = one.policy
    if one.rules:
        shown["rules"] = dict(one.rules)
    for key, value in (("project", one.project_id), ("user", one.user_id)):
        if value is not None:
            shown[key] = short(value)
    return shown


def _aggregate(one: AggregateState) -> Json:
    shown: Json = {"name": short(one.name)}
    if one.uuid != derived("aggregate", one.name):
        shown["uuid"] = one.uuid
    zone = one.metadata.get(ZONE_KEY)
    others = {key: short(value) for key, value in sorted(one.metadata.items()) if key != ZONE_KEY}
    if zone and is_zone(zone):
        shown[ZONE_KEY] = short(zone)
    elif zone is not None:
        others[ZONE_KEY] = short(zone)
    if others:
        shown["metadata"] = others
    if one.hosts:
        shown["hosts"] = fold(natural(one.hosts))
    return shown
