"""Nova's instances, as its computes send them, as the records that are kept here.

A compute sends whole Instances, in which each field may be absent. They do not say of which server
group an instance is a member, nor which decision placed it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from placement_sched.model.document import Document, Json
from placement_sched.model.instance import Instance
from placement_sched.model.names import canonical
from placement_sched.nova.objects import (
    ObjectType,
    UnreadableObject,
    a_dict,
    a_list,
    a_list_object,
    boolean,
    integer,
    text,
    time,
)
from placement_sched.nova.request_spec import FLAVOR

_KEPT = ("host", "node", "project_id", "user_id", "vm_state", "task_state")
_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")
_INSTANCE = ObjectType(
    "Instance",
    {
        **dict.fromkeys(("uuid", "display_name", "image_ref", *_KEPT), text),
        **dict.fromkeys(("instance_type_id", *_SIZES), integer),
        "flavor": FLAVOR,
        "system_metadata": a_dict(text, nulls=True),
        "deleted": boolean,
        **dict.fromkeys(("created_at", "updated_at"), time),
    },
    needed=("uuid",),
)
_UUIDS = a_list(text)
_INSTANCES = a_list_object("InstanceList", _INSTANCE)
#: What the keys of system metadata begin with that are the image's.
_OF_IMAGE = "image_"
_NUMBERS = ("min_ram", "min_disk")
_FORMATS = ("disk_format", "container_format")
#: What nova may have kept of an image, though no one reads it there: it is too long for a value.
_TOO_LONG = {"mappings", "block_device_mapping", "img_mappings", "img_block_device_mapping"}


def instances_of(primitive: Any, place: str = "instance_info") -> list[Instance]:
    """Return the instances of an InstanceList, without those that are deleted.

    Raises :class:`~placement_sched.nova.objects.UnreadableObject` naming the place.
    """
    return [
        _made(found) for found in _INSTANCES(primitive, place) or () if not found.get("deleted")
    ]


def host_of(host_name: Any) -> str:
    """Return the host that an announcement names; raises :class:`UnreadableObject`."""
    return _needed(host_name, "host_name")


def uuid_of(instance_uuid: Any) -> str:
    """Return the uuid of an announcement; raises :class:`UnreadableObject`."""
    return canonical(_needed(instance_uuid, "instance_uuid"))


def _needed(value: Any, place: str) -> str:
    if not (found := text(value, place)):
        raise UnreadableObject(f"{place} is missing")
    return found


def uuids_of(value: Any) -> list[str]:
    """Return the uuids of instances in a list; raises :class:`UnreadableObject`."""
    return [canonical(one) for one in _UUIDS(value, "instance_uuids") or ()]


def image_of(image_ref: str | None, system_metadata: Document) -> Json | None:
    """Return the image that an instance was booted from, with the properties that it had then.

    ``system_metadata`` are the instance's. None where it was booted from no image that is known.
    """
    kept = dict(_of_image(system_metadata))
    if not image_ref and not kept:
        return None
    numbers = {name: int(kept[name]) for name in _NUMBERS if kept.get(name, "").isdecimal()}
    formats = {name: kept[name] for name in _FORMATS if name in kept}
    rest = {name: kept[name] for name in kept if name not in {*_NUMBERS, *_FORMATS}}
    return {"id": image_ref or None, **numbers, **formats, "properties": rest}


def _of_image(system_metadata: Document) -> Iterator[tuple[str, str]]:
    for key, value in system_metadata.items():
        name = key.removeprefix(_OF_IMAGE)
        if name != key and name not in _TOO_LONG and value is not None:
            yield name, value


def _made(found: Mapping[str, Any]) -> Instance:
    uuid = canonical(found["uuid"])
    flavor = found.get("flavor")
    if flavor is None and found.get("memory_mb") is not None:
        sizes = {name: found.get(name) or 0 for name in _SIZES}
        flavor = {"id": found.get("instance_type_id"), **sizes}
    return Instance(
        uuid=uuid,
        **{name: found.get(name) for name in _KEPT},
        display_name=found.get("display_name") or uuid,
        flavor=flavor,
        image=image_of(found.get("image_ref"), found.get("system_metadata") or {}),
        server_group=None,
        decision_uuid=None,
        created_at=found.get("created_at"),
        updated_at=found.get("updated_at"),
    )
