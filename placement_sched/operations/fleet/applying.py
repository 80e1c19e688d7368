"""Makes of the cloud that there is the one that is wanted, within one transaction.

What live hosts and operators go through it goes through as well: reports, the operations on host
aggregates, and the one write through which all allocations go. What is alike is written together.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from placement_sched.db.connection import Connection
from placement_sched.model.allocation import ConsumerClaim
from placement_sched.model.host_aggregate import POLICY_KEY, ZONE_KEY
from placement_sched.model.node_report import NodeReport
from placement_sched.operations import host_aggregates, reports
from placement_sched.operations.fleet.applying_providers import touched, write_providers
from placement_sched.operations.fleet.blame import blamed
from placement_sched.operations.fleet.same_names import refuse_merged_owners
from placement_sched.operations.fleet.state import ITS_ROW, AggregateState, State
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.store import (
    allocations,
    change_counters,
    flavors,
    image_members,
    images,
    instances,
    inventories,
    resource_classes,
    server_groups,
    services,
    traits,
)
from placement_sched.store import host_aggregates as aggregate_rows

#: Told what is being written.
Told = Callable[[str], None]


def apply(
    connection: Connection,
    before: State,
    after: State,
    now: datetime,
    told: Told,
    policies: Policies | None = None,
) -> None:
    """Write what differs between the two; the caller has read ``before`` in this transaction.

    ``policies`` are those that aggregates may name; without, nothing is asked of them. Raises what
    the operations raise, :class:`Invalid` and :class:`Conflict` in all their kinds, and
    :class:`AgainstError` of what they raise where one entry is to blame.
    """
    told("resource classes and traits")
    for name in sorted(after.resource_classes - before.resource_classes):
        resource_classes.add(connection, name, now)
    traits.add_missing(connection, sorted(after.traits - before.traits), now)
    told("flavors, images and server groups")
    _write_flavors(connection, before, after, now)
    _write_images(connection, before, after, now)
    _write_server_groups(connection, before, after, now)
    told("hosts")
    _write_nodes(connection, before, after, now)
    told("aggregates")
    _write_aggregates(connection, before, after, now, policies)
    told("providers")
    written = write_providers(connection, touched(before, after), after, now)
    told("allocations")
    _write_allocations(connection, before, after, now)
    inventories.remove_many(connection, written.superfluous)
    told("instances")
    _write_instances(connection, before, after, now)


def _write_flavors(connection: Connection, before: State, after: State, now: datetime) -> None:
    changed = {
        flavorid: one
        for flavorid, one in after.flavors.items()
        if before.flavors.get(flavorid) != one
    }
    if not changed:
        return
    change_counters.bump(connection, flavors.SUBJECT)
    new = [one.flavor for flavorid, one in changed.items() if flavorid not in before.flavors]
    flavors.add_many(connection, new, now)
    ids = flavors.ids_by_flavorid(connection)
    for flavorid in changed.keys() & before.flavors.keys():
        flavors.change(connection, ids[flavorid], changed[flavorid].flavor, now)
    flavors.replace_projects(
        connection, {ids[flavorid]: one.projects for flavorid, one in changed.items()}, now
    )


def _write_images(connection: Connection, before: State, after: State, now: datetime) -> None:
    changed = {uuid: one for uuid, one in after.images.items() if before.images.get(uuid) != one}
    images.add_many(
        connection,
        [
            replace(one.image, created_at=now, updated_at=now)
            for uuid, one in changed.items()
            if uuid not in before.images
        ],
    )
    for uuid in changed.keys() & before.images.keys():
        old = images.by_uuid(connection, uuid, lock=True)
        if old is not None:
            new = replace(changed[uuid].image, created_at=old.created_at, updated_at=now)
            images.change(connection, old, new)
    ids = images.ids_by_uuid(connection, changed)
    image_members.replace_many(
        connection, {ids[uuid]: one.members for uuid, one in changed.items()}, now
    )


def _write_server_groups(
    connection: Connection, before: State, after: State, now: datetime
) -> None:
    changed = [
        one for uuid, one in after.server_groups.items() if before.server_groups.get(uuid) != one
    ]
    server_groups.put(connection, changed, now)
    # As whoever records a member does, so that no group goes meanwhile.
    joined = {one.server_group for one in after.instances.values() if one.server_group}
    server_groups.lock_many(connection, joined & after.server_groups.keys())


def _write_nodes(connection: Connection, before: State, after: State, now: datetime) -> None:
    changed = [node for uuid, node in after.nodes.items() if before.nodes.get(uuid) != node]
    # What their providers have is written with the providers.
    reports.record_reports(
        connection, [NodeReport(node=node, inventories=False) for node in changed], now
    )
    heard = {node.host for node in changed}
    rows = [
        {**asdict(one), "disabled": int(one.disabled), "forced_down": int(one.forced_down)}
        for key, one in after.services.items()
        # A report has made the service and moved its heartbeat, perhaps to another time.
        if before.services.get(key) != one or one.host in heard
    ]
    services.put(connection, rows, now)


def _write_aggregates(
    connection: Connection, before: State, after: State, now: datetime, policies: Policies | None
) -> None:
    changed = {
        uuid: one for uuid, one in after.aggregates.items() if before.aggregates.get(uuid) != one
    }
    if not changed:
        return
    ids = {one.uuid: one.id for one in aggregate_rows.snapshot(connection)}
    pairs: list[tuple[int, AggregateState, AggregateState]] = []

    def against(wanted: AggregateState, key: str) -> AbstractContextManager[None]:
        place = after.told_at.get(("aggregate", wanted.uuid), ())
        return blamed(f"aggregate {wanted.name}", *place, key)

    for uuid, wanted in changed.items():
        found = before.aggregates.get(uuid)
        if found is None:
            found = AggregateState(uuid=uuid, name=wanted.name)
            with against(wanted, "name"):
                ids[uuid] = host_aggregates.create(connection, uuid, wanted.name, None, now).id
        pairs.append((ids[uuid], found, wanted))
    # All hosts leave before any comes, so that none is in two zones meanwhile.
    for number, found, wanted in pairs:
        for host in sorted(found.hosts - wanted.hosts):
            with against(wanted, "hosts"):
                host_aggregates.remove_host(connection, number, host, now, policies)
    for number, found, wanted in pairs:
        with against(wanted, ZONE_KEY):
            _describe_aggregate(connection, number, found, wanted, now)
        with against(wanted, "metadata"):
            _tag_aggregate(connection, number, found, wanted, now, policies)
    for number, found, wanted in pairs:
        if coming := wanted.hosts - found.hosts:
            with against(wanted, "hosts"):
                host_aggregates.add_hosts(connection, number, coming, now, policies)


def _describe_aggregate(
    connection: Connection,
    number: int,
    found: AggregateState,
    wanted: AggregateState,
    now: datetime,
) -> None:
    if found.name != wanted.name:
        host_aggregates.update(connection, number, {"name": wanted.name}, now)
    changes = _metadata_changes(found, wanted)
    changes.pop(POLICY_KEY, None)
    if changes:
        host_aggregates.set_metadata(connection, number, changes, now)


def _tag_aggregate(
    connection: Connection,
    number: int,
    found: AggregateState,
    wanted: AggregateState,
    now: datetime,
    policies: Policies | None,
) -> None:
    """Let an aggregate name the policy that it shall, or none; told apart from its zone."""
    changes = _metadata_changes(found, wanted)
    if POLICY_KEY in changes:
        policy = {POLICY_KEY: changes[POLICY_KEY]}
        host_aggregates.set_metadata(connection, number, policy, now, policies)


def _metadata_changes(found: AggregateState, wanted: AggregateState) -> dict[str, str | None]:
    changes: dict[str, str | None] = dict.fromkeys(found.metadata.keys() - wanted.metadata.keys())
    return changes | {
        key: value for key, value in wanted.metadata.items() if found.metadata.get(key) != value
    }


def _write_allocations(connection: Connection, before: State, after: State, now: datetime) -> None:
    claims = [
        ConsumerClaim(
            consumer=uuid,
            allocations=one.allocations,
            project_id=one.project_id,
            user_id=one.user_id,
            consumer_type=one.consumer_type,
            generation=one.generation,
        )
        for uuid, one in after.consumers.items()
        if before.consumers.get(uuid) != one
    ]
    claims += [
        ConsumerClaim(
            consumer=uuid,
            allocations={},
            project_id=one.project_id,
            user_id=one.user_id,
            generation=one.generation,
        )
        for uuid, one in before.consumers.items()
        if uuid not in after.consumers
    ]
    if claims:
        # The file says what is, not what is asked: a host may have shrunk under what it holds.
        allocations.replace(connection, claims, now, recorded=True)
        refuse_merged_owners(connection, claims, after.told_at)


def _write_instances(connection: Connection, before: State, after: State, now: datetime) -> None:
    changed = [one for uuid, one in after.instances.items() if before.instances.get(uuid) != one]
    ids = flavors.ids_by_flavorid(connection) if changed else {}
    instances.record(
        connection,
        [replace(one, flavor=_with_row(one.flavor, ids)) for one in changed],
        now,
    )


def _with_row(flavor: Mapping[str, Any] | None, ids: Mapping[str, int]) -> Any:
    """Return a recorded flavor with the number of its row."""
    if flavor is None or flavor.get("id") != ITS_ROW:
        return flavor
    return {**flavor, "id": ids.get(str(flavor.get("flavorid")))}
