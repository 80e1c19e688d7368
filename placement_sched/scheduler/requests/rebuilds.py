"""Validation of rebuilds, which give an instance a new image on its host without a claim.

nova's API marks a rebuild with the scheduler hint ``_nova_check_type``. Users can set this hint on
a new server, which would then skip the claim. So the hint is valid only for an instance on the host
that the request names.
"""

import logging

from placement_sched.db.scratch import Readable
from placement_sched.errors import Invalid
from placement_sched.model.document import Document, Json
from placement_sched.model.request_spec import REBUILD_HINT, RequestSpec, request_spec_from
from placement_sched.scheduler.filtering import is_named
from placement_sched.store.compute import instances
from placement_sched.store.placement import allocations

LOG = logging.getLogger(__name__)
_BUILDING = "building"


def check_rebuild(database: Readable, spec: RequestSpec) -> None:
    """Raise :class:`Invalid` for a rebuild of an instance that is not on the host that is named."""
    if not spec.is_rebuild:
        return
    with database.read() as connection:
        recorded = instances.by_uuids(connection, spec.instance_uuids)
        there = {one.uuid for one in recorded if is_named(spec, one.host or "", one.node or "")}
        # An instance that is not built yet is there by its claim alone.
        claimed = {one.uuid for one in recorded if one.vm_state == _BUILDING}
        held = allocations.of_consumers(connection, claimed) if claimed else ()
        there -= claimed - {one.consumer.uuid for one in held}
    for uuid in spec.instance_uuids or ("without a uuid",):
        if uuid not in there:
            raise Invalid(
                f"the hint {REBUILD_HINT}=rebuild is for an instance on the host that the request "
                f"names, and instance {uuid} is not on it",
                at=f"$.request_spec.scheduler_hints.{REBUILD_HINT}",
            )


def without_false_rebuild(database: Readable, document: Document) -> Json:
    """Return a request of nova's without the hint of a rebuild if that is invalid, and log it."""
    hints = document.get("scheduler_hints") or {}
    if REBUILD_HINT not in hints:
        return dict(document)
    try:
        check_rebuild(database, request_spec_from(document))
    except Invalid as wrong:
        LOG.warning("%s; the hint is ignored", wrong.detail)
        hints = {name: value for name, value in hints.items() if name != REBUILD_HINT}
    return {**document, "scheduler_hints": hints}
