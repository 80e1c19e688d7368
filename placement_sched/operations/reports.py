# SPDX-License-Identifier: Apache-2.0
"""Recording of host reports and root providers, and removal of nodes."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from datetime import datetime
from operator import add
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection
from placement_sched.errors import ConcurrentUpdate, Duplicate, Invalid, NotFound
from placement_sched.model.compute_node import (
    RATIOS,
    REPORTED_CLASSES,
    ComputeNode,
    build_inventories,
)
from placement_sched.model.grouping import split_batches
from placement_sched.model.provider import Provider
from placement_sched.operations import aggregates as aggregate_ops
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.schemas.node_report import Defaults, NodeReport, parse
from placement_sched.store import change_counters
from placement_sched.store.compute import compute_nodes, host_aggregates, services
from placement_sched.store.placement import aggregates, inventories, resource_providers, traits
from placement_sched.store.placement.resource_providers import NewProvider

#: Trait of the root providers of hosts whose compute service is disabled (os-traits).
DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"
_NAME = "hypervisor_hostname"
#: Maximum number of reports per group of statements.
CHUNK = 1000


def create(
    connection: Connection, *, uuid: str, name: str, parent_uuid: str | None, now: datetime
) -> Provider:
    """Create a provider in its host's aggregates, or raise the store's errors."""
    provider = resource_providers.create(
        connection, uuid=uuid, name=name, parent_uuid=parent_uuid, now=now
    )
    if parent_uuid is not None:
        return provider
    # Locks aggregates, also against a report that records the node but does not see the provider.
    change_counters.hold_version(connection, host_aggregates.SUBJECT)
    hosts = {
        node.uuid: node.host for node in compute_nodes.list_by_uuids(connection, [provider.uuid])
    }
    if not hosts:
        return provider
    _change_aggregates(connection, {provider.uuid: provider}, hosts, {}, now)
    return resource_providers.get_by_uuid(connection, provider.uuid)


def update(connection: Connection, nodes: Sequence[ComputeNode], now: datetime) -> frozenset[str]:
    """Create or update the root providers of nodes, and return new uuids.

    A provider gets the name of its node and the inventories in the node's report. Inventories of
    other classes are not changed. The generation is incremented only if an inventory changes.

    Raises :class:`Duplicate` if another provider has the name, :class:`InUse` if a class that the
    node no longer has is allocated, and :class:`ConcurrentUpdate` if a provider was just deleted.
    """
    names = {node.uuid: node.hypervisor_hostname for node in nodes}
    existing = resource_providers.map_by_uuid(connection, names)
    new = {uuid: name for uuid, name in names.items() if uuid not in existing}
    kept_names = {uuid: name for uuid, name in names.items() if uuid in existing}
    renamed = {uuid: name for uuid, name in kept_names.items() if existing[uuid].name != name}
    changed_names = new | renamed
    for provider in resource_providers.list_by_names(connection, changed_names.values()):
        # MariaDB compares names without case, and finds a provider whose name only changes case.
        if changed_names.get(provider.uuid, "").casefold() != (provider.name or "").casefold():
            raise Duplicate(
                f"The name {provider.name} is already used by resource provider {provider.uuid}. A "
                "compute node's provider must have the node's uuid, and its hypervisor_hostname as "
                "name: rename or delete the other provider.",
                code="scheduler.duplicate",
            )
    ids = {uuid: provider.id for uuid, provider in existing.items()}
    rows = [NewProvider(uuid, name) for uuid, name in new.items()]
    ids |= resource_providers.create_many(connection, rows, now)
    by_id = {ids[uuid]: name for uuid, name in renamed.items()}
    resource_providers.rename_many(connection, by_id, now)
    locked = resource_providers.lock(connection, ids.values())
    if deleted := sorted(uuid for uuid, number in ids.items() if number not in locked):
        raise ConcurrentUpdate(
            f"Resource provider {deleted[0]} has just been deleted. Try again.",
            code="scheduler.concurrent_update",
        )
    reported = {ids[node.uuid]: build_inventories(node) for node in nodes}
    lacking = {
        number: classes
        for number, rows in reported.items()
        if (classes := set(REPORTED_CLASSES) - {inventory.resource_class for inventory in rows})
    }
    changed = inventories.put(connection, reported, now)
    changed |= inventories.remove(connection, lacking)
    resource_providers.bump_generations(connection, changed, now)
    return frozenset(new)


def join_aggregates(
    connection: Connection,
    hosts: Mapping[str, str],
    previous_hosts: Mapping[str, str],
    now: datetime,
) -> None:
    """Move the providers of nodes into the aggregates of their hosts.

    ``hosts`` maps node uuids to hosts. ``previous_hosts`` maps uuids of moved nodes to their
    previous hosts, whose aggregates the providers leave.
    """
    if not hosts:
        return
    providers = resource_providers.map_by_uuid(connection, hosts)
    if providers.keys() >= hosts.keys():
        # A concurrent change of an aggregate with these hosts would not see these nodes.
        change_counters.hold_version(connection, host_aggregates.SUBJECT)
    else:
        # A concurrent creation of a missing provider would not see these nodes either.
        change_counters.bump(connection, host_aggregates.SUBJECT)
        providers = resource_providers.map_by_uuid(connection, hosts)
    _change_aggregates(connection, providers, hosts, previous_hosts, now)


def _change_aggregates(
    connection: Connection,
    providers: Mapping[str, Provider],
    hosts: Mapping[str, str],
    previous_hosts: Mapping[str, str],
    now: datetime,
) -> None:
    all_hosts = {*hosts.values(), *previous_hosts.values()}
    by_host = host_aggregates.map_aggregates(connection, all_hosts)
    if not by_host:
        return
    joining: dict[str, set[int]] = defaultdict(set)
    leaving: dict[str, set[int]] = defaultdict(set)
    for uuid, provider in providers.items():
        aggregate_uuids = set(by_host.get(hosts[uuid], ()))
        for aggregate in aggregate_uuids:
            joining[aggregate].add(provider.id)
        for aggregate in set(by_host.get(previous_hosts.get(uuid, ""), ())) - aggregate_uuids:
            leaving[aggregate].add(provider.id)
    for aggregate, members in sorted(joining.items()):
        aggregates.add_members(connection, aggregate, members, now)
    for aggregate, members in sorted(leaving.items()):
        aggregates.remove_members(connection, aggregate, members, now)


def mark_disabled(
    connection: Connection, uuids: Collection[str], *, disabled: bool, now: datetime
) -> None:
    """Add :data:`DISABLED_TRAIT` to the root providers of nodes, or remove it."""
    if not uuids:
        return
    ids = [provider.id for provider in resource_providers.map_by_uuid(connection, uuids).values()]
    change = traits.add_to_providers if disabled else traits.remove_from_providers
    change(connection, DISABLED_TRAIT, ids, now)


@dataclass(frozen=True, slots=True)
class RecordedReports:
    """The numbers of new, changed and unchanged nodes."""

    created: int = 0
    changed: int = 0
    unchanged: int = 0

    def __add__(self, other: "RecordedReports") -> "RecordedReports":
        return RecordedReports(*map(add, astuple(self), astuple(other)))


def build_defaults(settings: Settings, now: datetime) -> Defaults:
    """Return the values for fields that reports omit: time and ratios.

    The ratios are options of ``[DEFAULT]``. A ratio of 0.0 is unset, as in nova. Then
    ``initial_cpu_allocation_ratio`` or a similar option applies.
    """
    options = settings.DEFAULT
    ratios = {
        name: getattr(options, name) or getattr(options, f"initial_{name}")
        for name in RATIOS.values()
    }
    return Defaults(now=now, **ratios)


def parse_reports(
    documents: Iterable[Any], settings: Settings, now: datetime
) -> tuple[NodeReport, ...]:
    """Parse reports, or raise Invalid with the JSON path of the first error."""
    report_defaults = build_defaults(settings, now)
    reports = tuple(
        parse(item, report_defaults, f"$[{index}]") for index, item in enumerate(documents)
    )
    nodes = [report.node for report in reports]
    _check_unique(nodes, "uuid", [node.uuid for node in nodes])
    _check_unique(nodes, _NAME, [(node.host, node.hypervisor_hostname) for node in nodes])
    # A hypervisor_hostname is also the name of a provider, which must be unique over all hosts.
    named = [report.node for report in reports if report.inventories]
    names = {node.uuid: node.hypervisor_hostname for node in named}
    _check_unique(nodes, _NAME, [names.get(node.uuid, node.uuid) for node in nodes])
    return reports


def _check_unique(nodes: Sequence[ComputeNode], key: str, identities: Iterable[object]) -> None:
    first_index: dict[object, int] = {}
    for index, identity in enumerate(identities):
        first = first_index.setdefault(identity, index)
        if first != index:
            value = getattr(nodes[index], key)
            problem = f"{value!r} is reported at $[{first}] already (at $[{index}].{key})"
            raise Invalid(problem, code="scheduler.bad_value")


def record_reports(
    connection: Connection,
    reports: Sequence[NodeReport],
    now: datetime,
    policies: Policies | None = None,
) -> RecordedReports:
    """Record reports of different nodes within the caller's write transaction.

    A node is stored with its reported ratios. Its inventories get the ratios of its host's
    scheduling policy. The number of SQL statements depends only on the number of chunks of
    :data:`CHUNK` reports, and on the aggregates of new nodes.

    Raises :class:`Duplicate` if a reported name belongs to another node or provider, :class:`InUse`
    if a report omits a resource class that has allocations, and :class:`ConcurrentUpdate`.
    """
    total = RecordedReports()
    for chunk in split_batches(reports, CHUNK):
        total += _record_chunk(connection, chunk, policies, now)
    return total


def _record_chunk(
    connection: Connection, reports: Sequence[NodeReport], policies: Policies | None, now: datetime
) -> RecordedReports:
    nodes = [report.node for report in reports]
    heartbeats: dict[str, datetime] = {}
    for node in nodes:
        heartbeats[node.host] = max(node.last_seen_up, heartbeats.get(node.host, node.last_seen_up))
    # Services are locked before nodes, as in a change of a service.
    found_services = services.record_heartbeats(connection, heartbeats, now)
    disabled = {host for host, service in found_services.items() if service.disabled}
    written = compute_nodes.write(connection, nodes, now)
    followed = [report.node for report in reports if report.inventories]
    following = aggregate_ops.with_policy_ratios(connection, followed, policies)
    new_providers = update(connection, following, now)
    joining = written.created | written.previous_hosts.keys() | new_providers
    hosts = {node.uuid: node.host for node in nodes if node.uuid in joining}
    join_aggregates(connection, hosts, written.previous_hosts, now)
    disabled_uuids = {node.uuid for node in nodes if node.host in disabled}
    # In every report, because replacing the traits of a provider may have removed the trait.
    mark_disabled(connection, disabled_uuids, disabled=True, now=now)
    mark_disabled(
        connection, written.previous_hosts.keys() - disabled_uuids, disabled=False, now=now
    )
    return RecordedReports(
        created=len(written.created),
        changed=len(written.changed),
        unchanged=len(nodes) - len(written.created) - len(written.changed),
    )


def remove_node(connection: Connection, uuid: str) -> None:
    """Delete a compute node and its root provider.

    The compute service is deleted with the last node of a host. Raises :class:`NotFound`, and
    :class:`InUse` if the provider has allocations or children.
    """
    unlocked = compute_nodes.get_by_uuid(connection, uuid)
    # Services are always locked before nodes, which avoids deadlocks.
    service = services.map_by_host(connection, [unlocked.host], lock=True).get(unlocked.host)
    node = compute_nodes.get_by_uuid(connection, uuid, lock=True)
    if uuid in resource_providers.map_by_uuid(connection, [uuid]):
        # A concurrent request may have deleted it before it is locked.
        with suppress(NotFound):
            resource_providers.remove(connection, uuid)
    compute_nodes.remove_many(connection, [uuid])
    remaining = compute_nodes.map_uuids_by_name(connection, [node.host])
    if service and service.host == node.host and not remaining:
        services.remove(connection, [service.id])
