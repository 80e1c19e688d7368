"""Claims: what was chosen becomes allocations, for all instances of a request or for none."""

from datetime import datetime

from placement_sched.db.connection import Connection
from placement_sched.errors import ConcurrentUpdate, Invalid
from placement_sched.model.allocation import INSTANCE_TYPE, ConsumerClaim
from placement_sched.model.decision import Decision
from placement_sched.model.instance import Instance
from placement_sched.model.selection import Selection
from placement_sched.model.spec import RequestSpec
from placement_sched.store import allocations, decisions, instances, server_groups


def claim(
    connection: Connection,
    spec: RequestSpec,
    selections: tuple[Selection, ...],
    decision: Decision,
    nobody: tuple[str, str],
    now: datetime,
) -> None:
    """Allocate the best selection of each instance, and record instances and decision with it.

    ``nobody`` are project and user of requests that name none. Runs inside one write transaction.
    Every consumer must be new, so that a rival with the same instance uuids cannot be overwritten.
    Raises :class:`CapacityExceeded` or
    :class:`ConcurrentUpdate` where somebody was faster, and :class:`Invalid` where the stored
    server group is gone.
    """
    pairs = list(zip(spec.instance_uuids, selections, strict=True))
    claims = [_claim(spec, uuid, selection, nobody) for uuid, selection in pairs]
    try:
        allocations.replace(connection, claims, now)
    except Invalid as gone:
        # What the search had found is there no more: a rival too, if one that takes hosts away.
        raise ConcurrentUpdate(gone.detail) from gone
    _join_group(connection, spec)
    recorded = [_instance(spec, uuid, selection, decision) for uuid, selection in pairs]
    instances.record(connection, recorded, now)
    decisions.record(connection, decision, now)


def _join_group(connection: Connection, spec: RequestSpec) -> None:
    """Lock the stored group that the instances are to be in, if there is one.

    Of a strict policy the members must be those, on those hosts, that the choice was made by:
    else a rival with members of the same group could break with us what each of us found kept.
    """
    group = spec.instance_group
    if group is None or group.uuid is None:
        return
    server_groups.join(connection, group.uuid, "$.request_spec.instance_group")
    now = server_groups.placed(connection, group) if group.is_strict else group
    if set(now.members) != set(group.members) or set(now.hosts) != set(group.hosts):
        raise ConcurrentUpdate(f"members of server group {group.uuid} came or went meanwhile")


def _claim(
    spec: RequestSpec, uuid: str, selection: Selection, nobody: tuple[str, str]
) -> ConsumerClaim:
    if selection.allocation_request is None:  # a rebuild, which is never claimed
        raise AssertionError("there is nothing to allocate")
    parts = selection.allocation_request["allocations"]
    return ConsumerClaim(
        consumer=uuid,
        allocations={provider: part["resources"] for provider, part in parts.items()},
        project_id=spec.project_id or nobody[0],
        user_id=spec.user_id or nobody[1],
        consumer_type=INSTANCE_TYPE,
        generation=None,
    )


def _instance(spec: RequestSpec, uuid: str, selection: Selection, decision: Decision) -> Instance:
    asked = decision.request
    return Instance(
        uuid=uuid,
        host=selection.service_host,
        node=selection.nodename,
        project_id=spec.project_id,
        user_id=spec.user_id,
        display_name=uuid,
        vm_state="building",
        task_state=None,
        flavor=asked.get("flavor"),
        image=asked.get("image"),
        server_group=spec.instance_group.uuid if spec.instance_group else None,
        decision_uuid=decision.uuid,
    )
