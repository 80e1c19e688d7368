"""Records what hosts report, in step with their root providers, and removes nodes."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from datetime import datetime
from operator import add
from typing import Any

from placement_sched.db.sql import batches
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.model.compute_node import RATIOS, ComputeNode
from placement_sched.operations import aggregate_policies, root_providers
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.schemas.node_report import Defaults, NodeReport, parse
from placement_sched.settings import Settings
from placement_sched.store.compute import compute_nodes, services
from placement_sched.store.placement import provider_trees, resource_providers

_NAME = "hypervisor_hostname"
#: So many reports share their statements.
CHUNK = 1000


@dataclass(frozen=True, slots=True)
class Recorded:
    """How many nodes are new, how many changed, and how many only were heard of again."""

    created: int = 0
    changed: int = 0
    unchanged: int = 0

    def __add__(self, other: "Recorded") -> "Recorded":
        return Recorded(*map(add, astuple(self), astuple(other)))


def defaults(settings: Settings, now: datetime) -> Defaults:
    """Return what holds where reports are silent: the ratios of ``[DEFAULT]``, 0.0 being unset."""
    options = settings.DEFAULT
    ratios = {
        name: getattr(options, name) or getattr(options, f"initial_{name}")
        for name in RATIOS.values()
    }
    return Defaults(now=now, **ratios)


def parse_reports(
    documents: Iterable[Any], settings: Settings, now: datetime
) -> tuple[NodeReport, ...]:
    """Return the reports that a list of decoded JSON documents makes.

    Raises :class:`Invalid` with the JSON path of the first fault, which may be that two reports
    are of one node.
    """
    silent = defaults(settings, now)
    reports = tuple(parse(one, silent, f"$[{index}]") for index, one in enumerate(documents))
    nodes = [report.node for report in reports]
    _refuse_twice(nodes, "uuid", [node.uuid for node in nodes])
    _refuse_twice(nodes, _NAME, [(node.host, node.hypervisor_hostname) for node in nodes])
    # It names a provider, and of those no two may have one name, on whatever hosts.
    named = [report.node for report in reports if report.inventories]
    names = {node.uuid: node.hypervisor_hostname for node in named}
    _refuse_twice(nodes, _NAME, [names.get(node.uuid, node.uuid) for node in nodes])
    return reports


def _refuse_twice(nodes: Sequence[ComputeNode], key: str, identities: Iterable[object]) -> None:
    seen: dict[object, int] = {}
    for index, identity in enumerate(identities):
        before = seen.setdefault(identity, index)
        if before != index:
            value = getattr(nodes[index], key)
            what = f"{value!r} is reported at $[{before}] already (at $[{index}].{key})"
            raise Invalid(what, code="scheduler.bad_value")


def record_reports(
    connection: Connection,
    reports: Sequence[NodeReport],
    now: datetime,
    policies: Policies | None = None,
) -> Recorded:
    """Record reports of different nodes within the caller's write transaction.

    A node is kept with the ratios that it reports; its inventories have those of the policy that
    its host is under. The number of statements depends on the number of chunks of :data:`CHUNK`
    reports (and of the aggregates that new nodes join) only.

    Raises :class:`Duplicate` where a name is another node's or provider's, :class:`InUse` where a
    class of which a node has none any more is allocated, and :class:`ConcurrentUpdate`.
    """
    total = Recorded()
    for chunk in batches(reports, CHUNK):
        total += _record_chunk(connection, chunk, policies, now)
    return total


def _record_chunk(
    connection: Connection, reports: Sequence[NodeReport], policies: Policies | None, now: datetime
) -> Recorded:
    nodes = [report.node for report in reports]
    heartbeats: dict[str, datetime] = {}
    for node in nodes:
        heartbeats[node.host] = max(node.last_seen_up, heartbeats.get(node.host, node.last_seen_up))
    # Services come first: disabling a host locks its service before its nodes.
    found = services.beat(connection, heartbeats, now)
    disabled = {host for host, service in found.items() if service.disabled}
    written = compute_nodes.write(connection, nodes, now)
    followed = [report.node for report in reports if report.inventories]
    following = aggregate_policies.under(connection, followed, policies)
    new_providers = root_providers.update(connection, following, now)
    came = written.created | written.came_from.keys() | new_providers
    hosts = {node.uuid: node.host for node in nodes if node.uuid in came}
    root_providers.join_aggregates(connection, hosts, written.came_from, now)
    barred = {node.uuid for node in nodes if node.host in disabled}
    # Always, as replacing a provider's traits may have dropped the mark.
    root_providers.mark_disabled(connection, barred, disabled=True, now=now)
    root_providers.mark_disabled(
        connection, written.came_from.keys() - barred, disabled=False, now=now
    )
    return Recorded(
        created=len(written.created),
        changed=len(written.changed),
        unchanged=len(nodes) - len(written.created) - len(written.changed),
    )


def remove_node(connection: Connection, uuid: str) -> None:
    """Delete a compute node, its root provider, and with a host's last node its compute service.

    Raises :class:`NotFound`, and :class:`InUse` while the provider has allocations or children.
    """
    seen = compute_nodes.by_uuid(connection, uuid)
    # Services are locked before nodes everywhere, so that no two wait for each other.
    service = services.by_hosts(connection, [seen.host], lock=True).get(seen.host)
    node = compute_nodes.by_uuid(connection, uuid, lock=True)
    if uuid in resource_providers.by_uuids(connection, [uuid]):
        # Another request may have deleted it before we have its lock.
        with suppress(NotFound):
            provider_trees.remove(connection, uuid)
    compute_nodes.remove(connection, node)
    if service and service.host == node.host and compute_nodes.is_last(connection, node):
        services.remove(connection, [service.id])
