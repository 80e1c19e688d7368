"""Instances: the record, what plugins see of it, and the server status that users see.

Source: compute API guide, "Server Concepts" (server status, vm_state and task_state).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cached_property
from typing import Any, Self

from placement_sched.errors import Invalid
from placement_sched.model.document import NovaObjectDictCompat
from placement_sched.model.flavor import Flavor, SizedByFlavor
from placement_sched.model.image import Image
from placement_sched.model.request_spec import RequestSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One recorded instance; flavor and image are the objects given when it was recorded."""

    uuid: str
    host: str | None
    node: str | None
    project_id: str | None
    user_id: str | None
    display_name: str
    vm_state: str | None
    task_state: str | None
    flavor: Mapping[str, Any] | None
    image: Mapping[str, Any] | None
    server_group: str | None
    decision_uuid: str | None
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class HostInstance(SizedByFlavor, NovaObjectDictCompat):
    """One of ``host_state.instances``: a record, or an instance that this request put there.

    ``flavor`` is None where the record has none, or only the id of one that is gone; the sizes are
    0 then.
    """

    uuid: str
    host: str | None = None
    node: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    display_name: str | None = None
    vm_state: str | None = None
    task_state: str | None = None
    flavor: Flavor | None = None
    image: Image | Mapping[str, Any] | None = None

    @classmethod
    def recorded(cls, record: Instance) -> Self:
        """Return the instance of a record."""
        described = record.flavor if record.flavor and record.flavor.keys() != {"id"} else None
        return cls(
            **{name: getattr(record, name) for name in _RECORDED},
            flavor=None if described is None else Flavor.from_document(described),
        )

    @classmethod
    def being_built(cls, uuid: str, spec: RequestSpec, host: str, node: str) -> Self:
        """Return the instance that a request puts on a host."""
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
        """Return its flavor, as nova's instances are asked for it."""
        return self.flavor

    @property
    def _sizes(self) -> Flavor:
        return self.flavor or _UNKNOWN_FLAVOR

    @cached_property
    def image_meta(self) -> Image:
        """Return the image it was booted from; without properties where one of them cannot be."""
        if self.image is None or isinstance(self.image, Image):
            return self.image or Image()
        try:
            return Image.from_document(self.image)
        except Invalid:
            return Image.from_document({**self.image, "properties": None})

    @property
    def image_ref(self) -> str | None:
        """Return the id of the image it was booted from."""
        return self.image_meta.id

    @property
    def instance_type_id(self) -> int | str | None:
        """Return the id of its flavor, under the name that old plugins use."""
        return None if self.flavor is None else self.flavor.id


_UNKNOWN_FLAVOR = Flavor()
_RECORDED = tuple(one.name for one in fields(HostInstance) if one.name != "flavor")

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
#: By vm state: the status, and those that tasks make of it.
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

#: nova's numbers of what the hypervisor says, by the vm state that goes with it; 0 is not known.
POWER_STATES = {"paused": 3, "suspended": 7}
POWER_STATES |= dict.fromkeys(("active", "rescued", "resized"), 1)
POWER_STATES |= dict.fromkeys(("stopped", "shelved"), 4)


#: The cell of instances that were never placed: it has no hosts.
CELL0 = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class NovaCell:
    """A cell as it is recorded here; times are naive UTC.

    ``read_at`` is when the cell's database last answered. ``away_since`` is None while it answers;
    else it is since when it does not, and ``failure`` is what the driver said.
    """

    uuid: str
    name: str | None = None
    disabled: bool = False
    read_at: datetime | None = None
    away_since: datetime | None = None
    failure: str | None = None

    @property
    def is_away(self) -> bool:
        """Return whether the cell's database did not answer when it was last asked."""
        return self.away_since is not None

    @property
    def title(self) -> str:
        """Return how messages call the cell: by its name, or its uuid where it has none."""
        return self.name or self.uuid
