# SPDX-License-Identifier: Apache-2.0
"""Documents of placement, nova and glance, read as values of the model.

Sources: API references of the three services. A document that does not match the API raises
``LookupError``, ``TypeError``, ``ValueError``, ``AttributeError`` or
:class:`~placement_sched.schemas.formats.DocumentError`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from placement_sched.model.aggregates import MAX_SERVER_PER_HOST, HostAggregate, ServerGroup
from placement_sched.model.compute_node import COMPUTE_BINARY, Service
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import STATUSES, StoredImage
from placement_sched.model.instance import Instance
from placement_sched.model.provider import Amounts, Inventory
from placement_sched.schemas.formats import parse_datetime

#: Figures of hypervisors that have the names of a report's keys.
_FIGURES = (
    *("hypervisor_hostname", "hypervisor_version", "host_ip", "vcpus", "memory_mb", "local_gb"),
    *("vcpus_used", "memory_mb_used", "local_gb_used", "free_ram_mb", "free_disk_gb"),
    "disk_available_least",
)
_ATTRIBUTE = "OS-EXT-SRV-ATTR"
#: The keys of an image that are not properties, besides keys with the prefix ``os_glance``.
_IMAGE_FIELDS = (
    *("name", "visibility", "owner", "protected", "os_hidden", "disk_format", "container_format"),
    *("min_ram", "min_disk", "size", "virtual_size"),
)
_NO_PROPERTIES = frozenset((
    *_IMAGE_FIELDS, "id", "status", "tags", "checksum", "os_hash_algo", "os_hash_value", "self",
    "created_at", "updated_at", "direct_url", "file", "schema", "stores", "locations", "location",
    "deleted", "deleted_at",
))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderReading:
    """A resource provider, as placement shows it.

    ``allocations`` are the amounts by consumer. A provider in a list has only the names and the
    ``generation``.
    """

    uuid: str
    name: str
    parent: str | None
    generation: int
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    allocations: Mapping[str, Amounts] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerReading:
    """A consumer, as placement shows it, with its amounts by provider.

    Placement before 1.38 does not show the ``consumer_type``.
    """

    uuid: str
    project_id: str
    user_id: str
    consumer_type: str | None
    allocations: Mapping[str, Amounts]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReading:
    """A server, as nova shows it.

    ``record`` has the embedded flavor without its id. Its image has only ``id`` and, since 2.98,
    ``properties``. Its request has the keys that the microversion shows. ``is_partial`` is true if
    the cell of the server does not answer.
    """

    record: Instance
    is_partial: bool = False


def read_provider(document: Json) -> ProviderReading:
    """Read a provider of a list."""
    return ProviderReading(
        uuid=str(document["uuid"]),
        name=str(document["name"]),
        parent=document["parent_provider_uuid"],
        generation=int(document["generation"]),
    )


def read_inventories(document: Json) -> tuple[int, dict[str, Inventory]]:
    """Read the inventories of a provider by class, after its generation."""
    inventories = {
        name: Inventory(
            resource_class=name,
            total=int(values["total"]),
            reserved=int(values["reserved"]),
            min_unit=int(values["min_unit"]),
            max_unit=int(values["max_unit"]),
            step_size=int(values["step_size"]),
            allocation_ratio=float(values["allocation_ratio"]),
        )
        for name, values in document["inventories"].items()
    }
    return int(document["resource_provider_generation"]), inventories


def read_provider_allocations(document: Json) -> tuple[int, dict[str, Amounts]]:
    """Read the amounts on a provider by consumer, after its generation."""
    allocations = {
        str(consumer): _read_amounts(values["resources"])
        for consumer, values in document["allocations"].items()
    }
    return int(document["resource_provider_generation"]), allocations


def read_consumer(uuid: str, document: Json) -> ConsumerReading | None:
    """Read a consumer, or return None without allocations."""
    if not document["allocations"]:
        return None
    kind = document.get("consumer_type")
    return ConsumerReading(
        uuid=uuid,
        project_id=str(document["project_id"]),
        user_id=str(document["user_id"]),
        # Placement shows "unknown" for consumers that were written before 1.38.
        consumer_type=kind if kind and kind.isupper() else None,
        allocations={
            str(provider): _read_amounts(values["resources"])
            for provider, values in document["allocations"].items()
        },
    )


def _read_amounts(resources: Mapping[str, Any]) -> Amounts:
    return {str(name): int(amount) for name, amount in resources.items()}


def read_service(document: Json) -> Service:
    """Read a compute service.

    The heartbeat is the time of its last write, which nova shows.
    """
    is_disabled = document["status"] == "disabled"
    return Service(
        0,
        str(document["id"]),
        str(document["host"]),
        str(document.get("binary", COMPUTE_BINARY)),
        disabled=is_disabled,
        disabled_reason=(document.get("disabled_reason") or None) if is_disabled else None,
        forced_down=bool(document.get("forced_down")),
        last_seen_up=read_time(document["updated_at"]),
    )


def read_hypervisor(document: Json) -> Json:
    """Read a hypervisor (2.53 to 2.87) as the report of a host.

    The report lacks ratios, ``stats`` other than the number of instances, and fields that no API
    shows.
    """
    report = {key: document[key] for key in _FIGURES}
    running = document.get("running_vms")
    return {
        **report,
        "uuid": str(document["id"]),
        "host": str(document["service"]["host"]),
        "hypervisor_type": document["hypervisor_type"] or "",
        "cpu_info": document["cpu_info"] or None,
        "stats": {} if running is None else {"num_instances": int(running)},
    }


def read_aggregate(document: Json) -> HostAggregate:
    """Read a host aggregate."""
    return HostAggregate(
        id=0,
        uuid=str(document["uuid"]),
        name=str(document["name"]),
        hosts=frozenset(map(str, document["hosts"])),
        metadata={str(key): str(value) for key, value in document["metadata"].items()},
    )


def read_server_group(document: Json) -> ServerGroup:
    """Read a server group, whose rules nova shows since 2.64."""
    rules = document.get("rules") or {}
    return ServerGroup(
        uuid=str(document["id"]),
        name=str(document["name"]),
        policy=str(document["policy"] if "policy" in document else document["policies"][0]),
        rules={key: int(rules[key]) for key in (MAX_SERVER_PER_HOST,) if key in rules},
        project_id=document.get("project_id"),
        user_id=document.get("user_id"),
        members=tuple(map(str, document["members"])),
    )


def read_flavor(document: Json) -> Flavor:
    """Read a flavor, without extra specs if the policy hides them."""
    return Flavor(
        flavorid=str(document["id"]),
        name=str(document["name"]),
        vcpus=int(document["vcpus"]),
        memory_mb=int(document["ram"]),
        root_gb=int(document["disk"]),
        ephemeral_gb=int(document["OS-FLV-EXT-DATA:ephemeral"]),
        # Before 2.75, an empty text means no swap.
        swap=int(document["swap"] or 0),
        rxtx_factor=float(document.get("rxtx_factor") or 1.0),
        is_public=bool(document["os-flavor-access:is_public"]),
        description=document.get("description"),
        extra_specs=_read_texts(document.get("extra_specs")),
    )


def read_image(document: Json) -> StoredImage:
    """Read an image. The location and the checksums of its data are left out."""
    fields = {key: document[key] for key in _IMAGE_FIELDS if key in document}
    status = str(document["status"])
    return StoredImage(
        uuid=str(document["id"]),
        **fields,
        status=status if status in STATUSES else StoredImage(uuid="").status,
        tags=frozenset(map(str, document.get("tags") or ())),
        properties={
            str(key): str(value)
            for key, value in document.items()
            if not (key in _NO_PROPERTIES or key.startswith("os_glance") or value is None)
        },
    )


def read_server(document: Json) -> ServerReading:
    """Read a server of a list with details (since 2.47)."""
    uuid = str(document["id"])
    if "flavor" not in document:
        # Of a cell that is down, nova shows only some fields (2.69).
        project = document.get("tenant_id")
        record = Instance(uuid=uuid, display_name=uuid, project_id=project, metadata={})
        return ServerReading(record=record, is_partial=True)
    # A server that boots from a volume has an empty text.
    image = _read_server_image(document["image"] or {})
    request: Json = {"is_bfv": not image}
    if "pinned_availability_zone" in document:
        request["availability_zone"] = document["pinned_availability_zone"] or None
    if "scheduler_hints" in document:
        hints = document["scheduler_hints"] or {}
        request["scheduler_hints"] = {key: hints[key] for key in hints if key != "group"}
    return ServerReading(
        record=Instance(
            uuid=uuid,
            host=document[f"{_ATTRIBUTE}:host"],
            node=document[f"{_ATTRIBUTE}:hypervisor_hostname"],
            project_id=document["tenant_id"],
            user_id=document["user_id"],
            display_name=str(document["name"] or uuid),
            vm_state=document["OS-EXT-STS:vm_state"],
            task_state=document["OS-EXT-STS:task_state"],
            flavor=_read_embedded_flavor(document["flavor"]).as_document(),
            image=image or None,
            updated_at=read_time(document["updated"]),
            metadata=_read_texts(document.get("metadata")),
            request=request,
        )
    )


def _read_server_image(document: Json) -> Json:
    """Read the id of an image, and its properties under the names of images.

    Nova joins the properties ``trait:X=required`` to a list.
    """
    image: Json = {key: document[key] for key in ("id", "properties") if key in document}
    if "traits_required" in image.get("properties", {}):
        properties = dict(image["properties"])
        traits = properties.pop("traits_required")
        image["properties"] = properties | {f"trait:{name}": "required" for name in traits}
    return image


def _read_embedded_flavor(document: Json) -> Flavor:
    return Flavor(
        name=str(document["original_name"]),
        vcpus=int(document["vcpus"]),
        memory_mb=int(document["ram"]),
        root_gb=int(document["disk"]),
        ephemeral_gb=int(document["ephemeral"]),
        swap=int(document["swap"] or 0),
        extra_specs=_read_texts(document.get("extra_specs")),
    )


def _read_texts(values: Mapping[str, Any] | None) -> dict[str, str]:
    return {str(key): str(value) for key, value in (values or {}).items()}


def read_time(text: str | None) -> datetime | None:
    """Read a time of an API as naive UTC, in seconds."""
    return None if text is None else parse_datetime(text)
