"""Nova's ImageMetaProps, typed and under nova's names, as the raw properties that glance has.

What is made of them is the same as of the raw properties that nova read: today's names mean the
same to nova and to glance, but for NUMA nodes, which glance numbers, and for required traits.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from oslo_log import log

from placement_sched.model.document import Json
from placement_sched.model.image import READERS
from placement_sched.nova.wire.objects import (
    FieldReader,
    ObjectType,
    a_list,
    a_set,
    anything,
    integer,
    text,
)

LOG = log.getLogger(__name__)

_PROPERTIES = ObjectType(
    "ImageMetaProps",
    {
        **dict.fromkeys(READERS, anything),
        "hw_numa_cpus": a_list(a_set(integer)),
        "hw_numa_mem": a_list(integer),
        "traits_required": a_list(text),
    },
)


def raw_properties(primitive: Any, place: str) -> Json | None:
    """Return the raw properties of which our image makes the values that nova has.

    Of a newer version than nova 34's, properties that can have more values than those known are
    left out where they have one of them. Raises
    :class:`~placement_sched.nova.wire.objects.UnreadableObject` for what is not an ImageMetaProps.
    """
    if primitive is None:
        return None
    typed = _PROPERTIES.read(primitive, place)
    if _PROPERTIES.is_newer(primitive):
        typed = dict(_known(typed))
    raw: Json = {}
    for name, value in typed.items():
        written = _WRITTEN.get(name)
        raw |= {name: value} if written is None else written(value or ())
    return raw


def _known(typed: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in typed.items():
        reader = READERS.get(name)
        try:
            if reader is not None:
                reader(value)
        except (TypeError, ValueError):
            LOG.debug("The image property %s has a value that only a newer nova knows.", name)
        else:
            yield name, value


def _numa_cpus(cells: Any) -> Json:
    return {f"hw_numa_cpus.{cell}": ",".join(map(str, cpus)) for cell, cpus in enumerate(cells)}


def _numa_mem(cells: Any) -> Json:
    return {f"hw_numa_mem.{cell}": memory for cell, memory in enumerate(cells)}


def _traits(names: Any) -> Json:
    return {f"trait:{name}": "required" for name in names}


#: The properties that glance has under other names.
_WRITTEN = {"hw_numa_cpus": _numa_cpus, "hw_numa_mem": _numa_mem, "traits_required": _traits}

#: An ImageMeta as the ``image`` of a request spec's document.
IMAGE_FIELDS: Mapping[str, FieldReader] = {
    **dict.fromkeys(("id", "name", "status", "visibility", "owner"), text),
    **dict.fromkeys(("disk_format", "container_format"), text),
    **dict.fromkeys(("size", "virtual_size", "min_ram", "min_disk"), integer),
    "tags": a_list(text),
    "properties": raw_properties,
}
IMAGE = ObjectType("ImageMeta", IMAGE_FIELDS)
