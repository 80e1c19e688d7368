"""What is to be recorded of an instance of nova's, beside what is recorded of it; no I/O."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from placement_sched.nova.databases.instances import KeptFlavor, NovaInstance
from placement_sched.store.compute.instances import Kept, short_id

#: What makes a record another one, in the order in which :class:`Kept` has it after the uuid.
FIELDS = Kept._fields[1:11]


#: The columns that say what an instance is made of.
_MADE_OF = frozenset(("flavor", "flavorid", "image", "image_id"))


class NewRecord(NamedTuple):
    """An instance as it is to be recorded; ``values`` are those of :data:`FIELDS`."""

    uuid: str
    values: tuple[Any, ...]
    flavor: KeptFlavor
    image: str | None
    decision_uuid: str | None
    created_at: datetime
    updated_at: datetime

    def row_of_place(self) -> dict[str, Any]:
        """Return the columns that differ from a record of the same flavor and image.

        A flavor's text is longer than all else, and changes with a resize only.
        """
        whole = self.row()
        return {name: whole[name] for name in whole if name not in _MADE_OF}

    def row(self) -> dict[str, Any]:
        """Return the row of the table, but for its number."""
        return {
            "uuid": self.uuid,
            **dict(zip(FIELDS, self.values, strict=True)),
            "flavor": self.flavor.text,
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
    flavor: tuple[KeptFlavor, str],
    group: str | None,
    now: datetime,
    is_pending: Callable[[Kept], bool],
) -> NewRecord:
    """Return the record of an instance; ``flavor`` comes with the digest of its JSON.

    A claim of ours is *pending* while nova may not know of it yet: until nova-compute has written
    its name, the host is the one that was chosen here. The image as it was when chosen is kept.
    """
    host, node = instance.host, instance.node
    image_id = short_id(instance.image_ref or None)
    image = None if image_id is None else orjson.dumps({"id": image_id}).decode()
    if before is not None:
        if host is None and instance.vm_state == "building" and is_pending(before):
            host, node = before.host, before.node
        if before.image_id == image_id:
            image = before.image
    created_at = moment(instance.created_at) or now
    values = (
        *(host, node, instance.project_id, instance.user_id),
        instance.display_name or instance.uuid,
        *(instance.vm_state, instance.task_state, flavor[1], image_id, group),
    )
    return NewRecord(
        uuid=instance.uuid,
        values=values,
        flavor=flavor[0],
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


def is_made_again(before: Kept | None, record: NewRecord) -> bool:
    """Return whether a record is new, or of another flavor or image."""
    return not {"flavor", "image_id"}.isdisjoint(unlike(before, record))


def moment(text: str | None) -> datetime | None:
    """Return the time, without a fraction of a second, that a database wrote in ISO 8601."""
    return None if text is None else datetime.fromisoformat(text[:19])
