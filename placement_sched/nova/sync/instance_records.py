"""What is to be recorded of an instance of nova's, beside what is recorded of it; no I/O."""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, NamedTuple

from placement_sched.model.document import storable
from placement_sched.nova.databases.instances import KeptFlavor, NovaInstance
from placement_sched.store.compute.instances import Kept, short_id

#: The columns that make a record another one, in the order in which :class:`Kept` has them after
#: the uuid, and how people call them.
_COLUMNS = Kept._fields[1:11]
FIELDS = tuple(name.removesuffix("_digest") for name in _COLUMNS)
#: The columns of a field, where they are not the one of its name.
_COLUMNS_OF = {"flavor": ("flavor", "flavor_digest", "flavorid"), "image_id": ("image_id", "image")}


class NewRecord(NamedTuple):
    """An instance as it is to be recorded; ``values`` are in the order of the columns."""

    uuid: str
    values: tuple[Any, ...]
    flavor: KeptFlavor
    image: str | None
    decision_uuid: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def texts(self) -> dict[str, str | None]:
        """Return the columns that have a text from outside which is not JSON, by their names."""
        return {**dict(zip(_COLUMNS, self.values, strict=True)), "flavorid": self.flavor.flavorid}

    def changed(self, fields: Collection[str]) -> dict[str, Any]:
        """Return of the row the columns of these fields, and what every row that is sent has."""
        row = self.row()
        names = {name for field in fields for name in _COLUMNS_OF.get(field, (field,))}
        # A database wants the name of an instance even where the row is there already.
        return {name: row[name] for name in row if name in {"uuid", "display_name", *names}} | {
            "updated_at": self.updated_at
        }

    def row(self) -> dict[str, Any]:
        """Return the row of the table, but for its number."""
        return {
            "uuid": self.uuid,
            **dict(zip(_COLUMNS, self.values, strict=True)),
            "flavor": None,
            "flavorid": short_id(self.flavor.flavorid),
            "image": self.image,
            "decision_uuid": self.decision_uuid,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }


def record_of(
    instance: NovaInstance,
    before: Kept | None,
    *,
    flavor: KeptFlavor,
    group: str | None,
    now: datetime,
    is_pending: Callable[[Kept], bool],
) -> NewRecord:
    """Return the record of an instance.

    A claim of ours is *pending* while nova may not know of it yet: until nova-compute has written
    its name, the host is the one that was chosen here. The image as it was when chosen is kept.
    """
    host, node = instance.host, instance.node
    image_id = short_id(instance.image_ref or None)
    image = None if image_id is None else storable({"id": image_id})
    if before is not None:
        if host is None and instance.vm_state == "building" and is_pending(before):
            host, node = before.host, before.node
        if before.image_id == image_id:
            image = before.image
    created_at = moment(instance.created_at) or now
    values = (
        *(host, node, instance.project_id, instance.user_id),
        instance.display_name or instance.uuid,
        *(instance.vm_state, instance.task_state, flavor.digest, image_id, group),
    )
    return NewRecord(
        uuid=instance.uuid,
        values=values,
        flavor=flavor,
        image=image,
        decision_uuid=None if before is None else before.decision_uuid,
        created_at=created_at,
        updated_at=moment(instance.updated_at) or created_at,
    )


def unlike(before: Kept | None, record: NewRecord) -> tuple[str, ...]:
    """Return the fields in which a record differs; all of them, of a new one."""
    if before is None:
        return FIELDS
    kept = before[1:11]
    if kept == record.values:
        return ()
    return tuple(
        name for name, old, new in zip(FIELDS, kept, record.values, strict=True) if old != new
    )


def moment(text: str | None) -> datetime | None:
    """Return the time, without a fraction of a second, that a database wrote in ISO 8601."""
    return None if text is None else datetime.fromisoformat(text[:19])
