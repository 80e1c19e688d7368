# SPDX-License-Identifier: Apache-2.0
"""Instances as recorded and as plugins see them, statuses, and cells.

Source: compute API guide, "Server Concepts" (server status, vm_state and task_state).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, Self

from placement_sched.errors import Invalid
from placement_sched.model.document import NovaObjectDictCompat
from placement_sched.model.flavor import Flavor, SizedByFlavor
from placement_sched.model.image import Image
from placement_sched.model.request_spec import RequestSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A recorded instance, with None for metadata that were not read."""

    uuid: str
    host: str | None = None
    node: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    display_name: str
    vm_state: str | None = None
    task_state: str | None = None
    flavor: Mapping[str, Any] | None = None
    image: Mapping[str, Any] | None = None
    server_group: str | None = None
    decision_uuid: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    launched_at: datetime | None = None
    metadata: Mapping[str, str | None] | None = None
    system_metadata: Mapping[str, str | None] | None = None
    request: Mapping[str, Any] | None = None


class InstanceMetadata(NamedTuple):
    """Metadata and system metadata of an instance, synced from nova."""

    metadata: Mapping[str, str | None]
    system_metadata: Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class HostInstance(SizedByFlavor, NovaObjectDictCompat):
    """An instance of a host state: recorded, or placed by this request.

    Without a recorded flavor, ``flavor`` is None and the sizes are 0. Metadata are read on demand.
    """

    uuid: str
    host: str | None = None
    node: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    display_name: str | None = None
    vm_state: str | None = None
    task_state: str | None = None
    # Without a default, because an attribute of the class would hide __getattr__.
    flavor: Flavor | None = field(default_factory=lambda: None)
    image: Image | Mapping[str, Any] | None = None
    created_at: datetime | None = None
    launched_at: datetime | None = None
    _read_metadata: Callable[[str], InstanceMetadata] | None = field(
        default=None, repr=False, compare=False
    )

    @classmethod
    def from_record(
        cls, record: Instance, read_metadata: Callable[[str], InstanceMetadata] | None = None
    ) -> Self:
        """Build the instance of a host state from a recorded instance.

        ``read_metadata`` reads by uuid. The flavor is parsed on first use: there may be thousands.
        """
        instance = cls.__new__(cls)
        values = dict(zip(_RECORD_FIELDS, _read_fields(record), strict=True))
        vars(instance).update(values, _flavor=record.flavor, _read_metadata=read_metadata)
        return instance

    def __getattr__(self, name: str) -> Any:
        """Parse the flavor of the record on the first access to ``flavor``."""
        if name != "flavor":
            return super().__getattr__(name)  # type: ignore[misc] # hidden from type checkers
        document: Mapping[str, Any] = vars(self).get("_flavor") or {}
        flavor = Flavor.from_document(document) if document.keys() - {"id"} else None
        vars(self)["flavor"] = flavor
        return flavor

    @classmethod
    def from_request_spec(cls, uuid: str, spec: RequestSpec, host: str, node: str) -> Self:
        """Build the instance of a host state that a request places there."""
        return cls(
            uuid=uuid,
            host=host,
            node=node,
            project_id=spec.project_id,
            user_id=spec.user_id,
            display_name=uuid,
            vm_state="building",
            flavor=spec.flavor,
            image=spec.image,
        )

    def get_flavor(self) -> Flavor | None:
        """Return the flavor (nova's method name)."""
        return self.flavor

    @cached_property
    def image_meta(self) -> Image:
        """Return the boot image, without properties if any property is invalid."""
        if self.image is None or isinstance(self.image, Image):
            return self.image or Image()
        try:
            return Image.from_document(self.image)
        except Invalid:
            return Image.from_document({**self.image, "properties": None})

    @cached_property
    def _all_metadata(self) -> InstanceMetadata:
        if self._read_metadata is None:
            return InstanceMetadata({}, {})
        recorded, image = self._read_metadata(self.uuid), self.image
        is_complete = any(key.startswith("image_") for key in recorded.system_metadata)
        if is_complete or not isinstance(image, Mapping):
            return recorded
        # Nova derives the keys ``image_*`` from the boot image.
        values = {**(image.get("properties") or {}), "base_image_ref": image.get("id")}
        values |= {name: image.get(name) for name in _INHERITED}
        derived = {f"image_{key}": str(value) for key, value in values.items() if value is not None}
        return recorded._replace(system_metadata={**derived, **recorded.system_metadata})

    @property
    def metadata(self) -> Mapping[str, str | None]:
        """Return the user's metadata, empty if the current request places it."""
        return self._all_metadata.metadata

    @property
    def system_metadata(self) -> Mapping[str, str | None]:
        """Return system metadata, empty if the current request places it."""
        return self._all_metadata.system_metadata

    @property
    def power_state(self) -> int:
        """Return the number of nova's power state that the vm state implies."""
        return POWER_STATES.get(self.vm_state or "", 0)

    @property
    def image_ref(self) -> str | None:
        """Return the id of the boot image."""
        return self.image_meta.id

    @property
    def instance_type_id(self) -> int | str | None:
        """Return the id of the flavor, under the name that old plugins use."""
        return None if self.flavor is None else self.flavor.id


#: The fields of an image that nova copies into system metadata.
_INHERITED = ("min_ram", "min_disk", "disk_format", "container_format")
_RECORD_FIELDS = tuple(
    item.name for item in fields(HostInstance) if item.name not in {"flavor", "_read_metadata"}
)
_read_fields = attrgetter(*_RECORD_FIELDS)

#: The status of an unknown vm state.
UNKNOWN = "UNKNOWN"
_SOFT = ("rebooting", "reboot_pending", "reboot_started")
_REBOOTS = dict.fromkeys(_SOFT, "REBOOT")
_REBOOTS |= dict.fromkeys([f"{state}_hard" for state in _SOFT], "HARD_REBOOT")
_REBUILDS = dict.fromkeys(
    ("rebuilding", "rebuild_block_device_mapping", "rebuild_spawning"), "REBUILD"
)
_MIGRATES = {"migrating": "MIGRATING"}
_RESIZES = dict.fromkeys(
    ("resize_prep", "resize_migrating", "resize_migrated", "resize_finish"), "RESIZE"
)
#: The server status for each vm state, and the statuses that replace it for task states.
STATUSES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "active": (
        "ACTIVE",
        {**_REBOOTS, "updating_password": "PASSWORD", **_REBUILDS, **_MIGRATES, **_RESIZES},
    ),
    "building": ("BUILD", {}),
    "stopped": ("SHUTOFF", {**_RESIZES, **_REBUILDS}),
    "resized": ("VERIFY_RESIZE", {"resize_reverting": "REVERT_RESIZE"}),
    "paused": ("PAUSED", _MIGRATES),
    "suspended": ("SUSPENDED", {}),
    "rescued": ("RESCUE", {}),
    "error": ("ERROR", _REBUILDS),
    "deleted": ("DELETED", {}),
    "soft-delete": ("SOFT_DELETED", {}),
    "shelved": ("SHELVED", {}),
    "shelved_offloaded": ("SHELVED_OFFLOADED", {}),
}
#: The statuses of servers that nova moves to another host.
MOVE_STATUSES = frozenset(("MIGRATING", "RESIZE", "REVERT_RESIZE", "VERIFY_RESIZE"))

#: nova's power state numbers by vm state. 0 stands for unknown.
POWER_STATES = {"paused": 3, "suspended": 7}
POWER_STATES |= dict.fromkeys(("active", "rescued", "resized"), 1)
POWER_STATES |= dict.fromkeys(("stopped", "shelved"), 4)

#: vm states that nova migrates live, and vm states that it migrates cold.
LIVE_STATES, COLD_STATES = ("active", "paused"), ("active", "stopped")
#: The vm state of an instance that holds no host.
OFFLOADED = "shelved_offloaded"
BUILDING = "building"
#: Why nova does not migrate an instance, and how to change that, by vm state.
_MOVE_OBSTACLES: Mapping[str, str] = {
    "suspended": "it is suspended: resume it first",
    "rescued": "it is in rescue mode: unrescue it first",
    "resized": "its resize is not confirmed: confirm or revert the resize first",
    BUILDING: "it is being built: wait until it is active",
    "error": "its state is error: repair the instance and reset its state first",
    "shelved": "it is shelved but not offloaded, and holds its host: offload it",
    "soft-delete": "it is soft-deleted, and holds its host: restore or force-delete it",
}
#: Why nova does not evacuate an instance, and how to change that, by vm state. nova evacuates
#: active, stopped and failed instances.
_EVACUATION_OBSTACLES: Mapping[str, str] = {
    "paused": "it is paused: set its state to error first",
    "suspended": "it is suspended: set its state to error first",
    "rescued": "it is in rescue mode: set its state to error first",
    "resized": "its resize is not confirmed: confirm the resize first",
    BUILDING: "it is being built: delete it and create it again",
    "shelved": "it is shelved but not offloaded: wait until its host is back",
    "soft-delete": "it is soft-deleted, and holds its host: force-delete it",
}


def derive_status(vm_state: str | None, task_state: str | None) -> str:
    """Derive a server's status from vm state and task state, ignoring case."""
    status, by_task = STATUSES.get((vm_state or "").lower(), (UNKNOWN, {}))
    return by_task.get((task_state or "").lower(), status)


def find_move_obstacle(vm_state: str | None, task_state: str | None) -> str | None:
    """Return why nova does not migrate an instance now, or None if it does.

    The reason includes the remedy. An unknown state is no obstacle.
    """
    obstacle = _MOVE_OBSTACLES.get((vm_state or "").lower())
    if obstacle is None and task_state:
        return f"nova works on it (task state {task_state}): wait until the task ends"
    return obstacle


def find_evacuation_obstacle(vm_state: str | None) -> str | None:
    """Return why nova does not evacuate an instance, or None if it does.

    A task is no obstacle, because it may have ended with the host. Neither is an unknown state.
    """
    return _EVACUATION_OBSTACLES.get((vm_state or "").lower())


#: The cell of instances that were never placed. It has no hosts.
CELL0 = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class NovaCell:
    """A recorded cell, with times in naive UTC.

    ``read_at`` is the time of the last response of the cell's database. ``away_since`` is the start
    of the current outage, or None. ``failure`` is the error message of the database driver.
    """

    uuid: str
    name: str | None = None
    disabled: bool = False
    read_at: datetime | None = None
    away_since: datetime | None = None
    failure: str | None = None

    @property
    def is_down(self) -> bool:
        """Return whether the last query to the cell's database failed."""
        return self.away_since is not None

    @property
    def title(self) -> str:
        """Return the cell's name, or its uuid if it has no name, for messages."""
        return self.name or self.uuid
