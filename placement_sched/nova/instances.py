# SPDX-License-Identifier: Apache-2.0
"""Conversion of nova's Instance objects to the records of this service.

A compute host sends whole Instances with any fields absent. They contain neither the server group
of an instance nor the decision that placed it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from placement_sched.model.document import Document, Json
from placement_sched.model.instance import Instance
from placement_sched.model.names import canonical_uuid
from placement_sched.nova.objects import (
    ObjectType,
    UnreadableObject,
    boolean,
    dict_of,
    integer,
    list_object_of,
    list_of,
    text,
    time,
)
from placement_sched.nova.request_spec import FLAVOR

_COPIED = ("host", "node", "project_id", "user_id", "vm_state", "task_state")
_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")
_INSTANCE = ObjectType(
    "Instance",
    {
        **dict.fromkeys(("uuid", "display_name", "image_ref", *_COPIED), text),
        **dict.fromkeys(("instance_type_id", *_SIZES), integer),
        "flavor": FLAVOR,
        "system_metadata": dict_of(text, nulls=True),
        "deleted": boolean,
        **dict.fromkeys(("created_at", "updated_at"), time),
    },
    needed=("uuid",),
)
_UUIDS = list_of(text)
_INSTANCES = list_object_of("InstanceList", _INSTANCE)
#: The prefix of the keys of system metadata that belong to the image.
_IMAGE_PREFIX = "image_"
_NUMBERS = ("min_ram", "min_disk")
_FORMATS = ("disk_format", "container_format")
#: Properties of an image that nova may store, but that are unused and too long for a value.
_TOO_LONG = {"mappings", "block_device_mapping", "img_mappings", "img_block_device_mapping"}


def instances_of(primitive: Any, place: str = "instance_info") -> list[Instance]:
    """Return the instances of an InstanceList that are not deleted.

    Raises :class:`~placement_sched.nova.objects.UnreadableObject` with the place of an error.
    """
    return [_build(data) for data in _INSTANCES(primitive, place) or () if not data.get("deleted")]


def host_of(host_name: Any) -> str:
    """Return the RPC argument ``host_name``.

    Raises :class:`UnreadableObject` if it is missing or not a string.
    """
    return _read_required(host_name, "host_name")


def uuid_of(instance_uuid: Any) -> str:
    """Return the RPC argument ``instance_uuid`` as a uuid in canonical form.

    Raises :class:`UnreadableObject` if it is missing or not a string.
    """
    return canonical_uuid(_read_required(instance_uuid, "instance_uuid"))


def _read_required(value: Any, place: str) -> str:
    if not (result := text(value, place)):
        raise UnreadableObject(f"{place} is missing")
    return result


def uuids_of(value: Any) -> list[str]:
    """Return the uuids of a list of instances, or raise :class:`UnreadableObject`."""
    return [canonical_uuid(uuid) for uuid in _UUIDS(value, "instance_uuids") or ()]


def image_of(image_ref: str | None, system_metadata: Document) -> Json | None:
    """Return the image of an instance, with its properties at the boot.

    ``system_metadata`` belongs to the instance. Returns None if the instance has no image.
    """
    stored = dict(_image_metadata(system_metadata))
    if not image_ref and not stored:
        return None
    numbers = {name: int(stored[name]) for name in _NUMBERS if stored.get(name, "").isdecimal()}
    formats = {name: stored[name] for name in _FORMATS if name in stored}
    properties = {name: stored[name] for name in stored if name not in {*_NUMBERS, *_FORMATS}}
    return {"id": image_ref or None, **numbers, **formats, "properties": properties}


def _image_metadata(system_metadata: Document) -> Iterator[tuple[str, str]]:
    for key, value in system_metadata.items():
        name = key.removeprefix(_IMAGE_PREFIX)
        if name != key and name not in _TOO_LONG and value is not None:
            yield name, value


def _build(data: Mapping[str, Any]) -> Instance:
    uuid = canonical_uuid(data["uuid"])
    flavor = data.get("flavor")
    if flavor is None and data.get("memory_mb") is not None:
        sizes = {name: data.get(name) or 0 for name in _SIZES}
        flavor = {"id": data.get("instance_type_id"), **sizes}
    return Instance(
        uuid=uuid,
        **{name: data.get(name) for name in _COPIED},
        display_name=data.get("display_name") or uuid,
        flavor=flavor,
        image=image_of(data.get("image_ref"), data.get("system_metadata") or {}),
        server_group=None,
        decision_uuid=None,
        created_at=data.get("created_at"),
        updated_at=data.get("updated_at"),
    )
