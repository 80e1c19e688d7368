# SPDX-License-Identifier: Apache-2.0
"""Requests of instances in nova's databases.

Nova does not keep the networks, the port resources, the requested destination and the ignored hosts
of a request.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, select

from placement_sched.db import sql
from placement_sched.model.document import Json
from placement_sched.nova.databases.readers import NovaInstance
from placement_sched.nova.databases.tables import block_device_mapping, request_specs
from placement_sched.nova.objects import UnreadableObject
from placement_sched.nova.request_spec import build_document

#: Fields of a stored request spec that apply when the instance is scheduled again.
_SPEC_KEYS = ("availability_zone", "scheduler_hints", "is_bfv", "numa_topology", "pci_requests")
#: The prefix of system metadata from the boot image, and the metadata that are no properties.
_IMAGE_PREFIX = "image_"
_IMAGE_FORMATS = ("disk_format", "container_format")
_IMAGE_MINIMUMS = ("min_ram", "min_disk")


class NovaRequest(NamedTuple):
    """The request and the boot image of an instance, as nova keeps them.

    ``request`` lacks the keys of unknown values. ``issue`` is None or why the spec is unreadable.
    """

    request: Json
    image: Json | None
    issue: str | None = None


def map_request_specs(connection: Connection, uuids: Collection[str]) -> dict[str, str]:
    """Map the uuids of instances to their request specs, as JSON."""
    columns = request_specs.c
    query = select(columns.instance_uuid, columns.spec)
    return dict(map(tuple, sql.select_in_batches(connection, query, columns.instance_uuid, uuids)))


def find_booted_from_volume(connection: Connection, uuids: Collection[str]) -> frozenset[str]:
    """Return the instances of a cell whose root disk is a volume."""
    columns = block_device_mapping.c
    query = select(columns.instance_uuid).where(
        columns.deleted == 0, columns.boot_index == 0, columns.destination_type == "volume"
    )
    return frozenset(sql.select_scalars_in_batches(connection, query, columns.instance_uuid, uuids))


def read_request_spec(text: str) -> Json:
    """Read a request spec as document, or raise :class:`UnreadableObject`."""
    try:
        primitive = orjson.loads(text)
    except ValueError:
        raise UnreadableObject("it is not JSON") from None
    return build_document(primitive)


def build_request(instance: NovaInstance, spec: str | None) -> NovaRequest:
    """Build the request of an instance from its spec, or without a spec.

    The image of the spec counts if it is the image of the instance. Otherwise the image is made of
    the instance's system metadata.
    """
    document: Json = {}
    issue = None
    if spec is not None:
        try:
            document = read_request_spec(spec)
        except UnreadableObject as failure:
            issue = f"its request spec in nova is not readable: {failure.detail}"
    request = {name: document[name] for name in _SPEC_KEYS if name in document}
    if request.keys() & {"numa_topology", "pci_requests"}:
        request["flavor"] = {"name": document["flavor"].get("name")}
    is_volume = instance.boots_from_volume or not instance.image_ref
    request["is_bfv"] = bool(is_volume or request.get("is_bfv"))
    if "scheduler_hints" in request:
        request["scheduler_hints"] = request["scheduler_hints"] or {}
    image = sql.drop_none(**(document.get("image") or {}))
    if not image or image.get("id") not in {None, instance.image_ref}:
        image = _build_image(instance.system_metadata)
    image = sql.drop_none(**image | {"id": instance.image_ref or None})
    return NovaRequest(request, image or None, issue)


def _build_image(metadata: str | None) -> Json:
    pairs: Mapping[str, Any] = orjson.loads(metadata) if metadata else {}
    values = {
        key.removeprefix(_IMAGE_PREFIX): value
        for key, value in pairs.items()
        if key.startswith(_IMAGE_PREFIX) and value is not None
    }
    if not values:
        return {}
    image: Json = {name: values.pop(name) for name in _IMAGE_FORMATS if name in values}
    for name in _IMAGE_MINIMUMS:
        if (text := values.pop(name, "")).isdigit():
            image[name] = int(text)
    values.pop("base_image_ref", None)
    return {**image, "properties": values}
