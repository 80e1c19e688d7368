"""Writes the cloud that a fleet file wants, within one transaction.

What live hosts and operators go through it goes through as well: reports, the operations on host
aggregates, and the one write of all allocations. Things of a kind are written together.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from datetime import datetime
from functools import partial
from typing import Any

from placement_sched.db.transaction import Connection
from placement_sched.model.compute_node import Service
from placement_sched.model.host_aggregate import POLICY_KEY, ZONE_KEY, HostAggregate
from placement_sched.model.placement.allocation import ConsumerClaim
from placement_sched.operations import host_aggregates, reports
from placement_sched.operations.fleet import apply_providers, cloud
from placement_sched.operations.fleet.cloud import State, changed
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.schemas.node_report import NodeReport
from placement_sched.store import change_counters, images
from placement_sched.store.compute import flavors, instances, server_groups, services
from placement_sched.store.compute import host_aggregates as aggregate_rows
from placement_sched.store.placement import allocations, inventories, resource_classes, traits

#: Is called with the name of what is being written.
StepProgress = Callable[[str], None]


def apply(
    connection: Connection,
    before: State,
    after: State,
    now: datetime,
    progress: StepProgress,
    policies: Policies | None = None,
) -> None:
    """Write what differs between the two; the caller has read ``before`` in this transaction.

    ``policies`` are those that aggregates may name; without them, names are not checked. Raises
    what the operations raise, and :class:`EntryError` of that where one entry is the cause.
    """
    progress("resource classes and traits")
    for name in sorted(after.resource_classes - before.resource_classes):
        resource_classes.add(connection, name, now)
    traits.add_missing(connection, sorted(after.traits - before.traits), now)
    progress("flavors, images and server groups")
    _write_flavors(connection, before, after, now)
    _write_images(connection, before, after, now)
    groups = changed(before.server_groups, after.server_groups)
    server_groups.put(connection, list(groups.values()), now)
    # As every write of a member does, so that no group is deleted meanwhile.
    joined = {one.server_group for one in after.instances.values() if one.server_group}
    server_groups.lock_many(connection, joined & after.server_groups.keys())
    progress("hosts")
    _write_nodes(connection, before, after, now)
    progress("aggregates")
    _write_aggregates(connection, before, after, now, policies)
    progress("providers")
    superfluous = apply_providers.write_providers(connection, before, after, now)
    progress("allocations")
    _write_allocations(connection, before, after, now)
    inventories.remove(connection, superfluous)
    progress("instances")
    _write_instances(connection, before, after, now)


def _write_flavors(connection: Connection, before: State, after: State, now: datetime) -> None:
    differing = changed(before.flavors, after.flavors)
    if not differing:
        return
    change_counters.bump(connection, flavors.SUBJECT)
    new = [one.flavor for flavorid, one in differing.items() if flavorid not in before.flavors]
    flavors.add_many(connection, new, now)
    ids = flavors.ids_by_flavorid(connection)
    for flavorid in differing.keys() & before.flavors.keys():
        flavors.change(connection, ids[flavorid], differing[flavorid].flavor, now)
    projects = {ids[flavorid]: one.projects for flavorid, one in differing.items()}
    flavors.replace_projects(connection, projects, now)


def _write_images(connection: Connection, before: State, after: State, now: datetime) -> None:
    differing = changed(before.images, after.images)
    new = [one for uuid, one in differing.items() if uuid not in before.images]
    images.add_many(connection, [replace(one, created_at=now, updated_at=now) for one in new])
    for uuid in differing.keys() & before.images.keys():
        old = images.by_uuid(connection, uuid, lock=True)
        if old is not None:
            image = replace(differing[uuid], created_at=old.created_at, updated_at=now)
            images.change(connection, old, image)


#: The number and the time of its change are the row's.
_KEPT_OF_SERVICES = set(Service._fields) - {"id", "updated_at"}


def _write_nodes(connection: Connection, before: State, after: State, now: datetime) -> None:
    differing = changed(before.nodes, after.nodes).values()
    # What their providers have is written with the providers.
    reported = [NodeReport(node=node, inventories=False) for node in differing]
    reports.record_reports(connection, reported, now)
    hosts = {node.host for node in differing}
    rows = [
        {
            **{name: value for name, value in one._asdict().items() if name in _KEPT_OF_SERVICES},
            "disabled": int(one.disabled),
            "forced_down": int(one.forced_down),
        }
        for key, one in after.services.items()
        # A report has made the service and moved its heartbeat, perhaps to another time.
        if before.services.get(key) != one or one.host in hosts
    ]
    services.put(connection, rows, now)


def _write_aggregates(
    connection: Connection, before: State, after: State, now: datetime, policies: Policies | None
) -> None:
    differing = changed(before.aggregates, after.aggregates)
    if not differing:
        return
    ids = {one.uuid: one.id for one in aggregate_rows.snapshot(connection)}
    for uuid, one in differing.items():
        if uuid not in before.aggregates:
            with _errors_of(one, after, "name"):
                ids[uuid] = host_aggregates.create(connection, uuid, one.name, None, now).id
    triples = [
        (ids[uuid], before.aggregates.get(uuid) or cloud.new_aggregate(uuid, one.name), one)
        for uuid, one in differing.items()
    ]
    # All hosts leave before any joins, so that none is in two zones meanwhile.
    for number, former, one in triples:
        for host in sorted(former.hosts - one.hosts):
            with _errors_of(one, after, "hosts"):
                host_aggregates.remove_host(connection, number, host, now, policies)
    for number, former, one in triples:
        for key, write, changes in _described(former, one, policies):
            with _errors_of(one, after, key):
                write(connection, number, changes, now)
    for number, former, one in triples:
        if joining := one.hosts - former.hosts:
            with _errors_of(one, after, "hosts"):
                host_aggregates.add_hosts(connection, number, joining, now, policies)


def _described(
    former: HostAggregate, one: HostAggregate, policies: Policies | None
) -> Iterator[tuple[str, Callable[..., HostAggregate], dict[str, str | None]]]:
    """Yield what changes, each with the key of the entry to blame if refused, and its write."""
    if former.name != one.name:
        yield ZONE_KEY, host_aggregates.update, {"name": one.name}
    metadata: dict[str, str | None] = dict.fromkeys(former.metadata.keys() - one.metadata)
    metadata |= changed(former.metadata, one.metadata)
    policy = {key: metadata.pop(key) for key in (POLICY_KEY,) if key in metadata}
    for key, changes in ((ZONE_KEY, metadata), ("metadata", policy)):
        if changes:
            yield key, partial(host_aggregates.set_metadata, policies=policies), changes


def _errors_of(one: HostAggregate, after: State, key: str) -> AbstractContextManager[None]:
    return apply_providers.errors_at(
        f"aggregate {one.name}", *after.entry_of("aggregate", one.uuid), key
    )


def _write_allocations(connection: Connection, before: State, after: State, now: datetime) -> None:
    wanted = list(changed(before.consumers, after.consumers).values())
    gone = [one for uuid, one in before.consumers.items() if uuid not in after.consumers]
    wanted += [replace(one, consumer_type=None, allocations={}) for one in gone]
    names = [field.name for field in fields(cloud.ConsumerState) if field.name != "uuid"]
    claims = [
        ConsumerClaim(consumer=one.uuid, **{name: getattr(one, name) for name in names})
        for one in wanted
    ]
    if claims:
        # The file says what is, not what is requested: a host may have shrunk meanwhile.
        allocations.replace(connection, claims, now, recorded=True)
        apply_providers.refuse_merged_owners(connection, claims, after)


def _write_instances(connection: Connection, before: State, after: State, now: datetime) -> None:
    differing = changed(before.instances, after.instances).values()
    ids = flavors.ids_by_flavorid(connection) if differing else {}

    def with_row(flavor: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if flavor is None or flavor.get("id") != cloud.FLAVOR_ROW:
            return flavor
        return {**flavor, "id": ids.get(str(flavor.get("flavorid")))}

    rows = [replace(one, flavor=with_row(one.flavor)) for one in differing]
    instances.record(connection, rows, now)
