"""Records what hosts report: nodes, heartbeats, root providers and inventories, all or nothing."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.db.batches import batches
from placement_sched.db.connection import Connection
from placement_sched.errors import Invalid
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.node_report import Defaults, NodeReport, parse
from placement_sched.operations import policy_ratios, root_providers
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.store import compute_nodes, services

#: So many reports share their statements.
CHUNK = 1000


@dataclass(frozen=True, slots=True)
class Recorded:
    """How many nodes are new, how many changed, and how many only were heard of again."""

    created: int = 0
    changed: int = 0
    unchanged: int = 0

    def __add__(self, other: "Recorded") -> "Recorded":
        return Recorded(
            self.created + other.created,
            self.changed + other.changed,
            self.unchanged + other.unchanged,
        )


def defaults(settings: Settings, now: datetime) -> Defaults:
    """Return what holds where reports are silent: the ratios of ``[DEFAULT]``, 0.0 being unset."""
    options = settings.DEFAULT
    return Defaults(
        now=now,
        cpu_allocation_ratio=options.cpu_allocation_ratio or options.initial_cpu_allocation_ratio,
        ram_allocation_ratio=options.ram_allocation_ratio or options.initial_ram_allocation_ratio,
        disk_allocation_ratio=(
            options.disk_allocation_ratio or options.initial_disk_allocation_ratio
        ),
    )


def parse_reports(
    documents: Iterable[Any], settings: Settings, now: datetime
) -> tuple[NodeReport, ...]:
    """Return the reports that a list of decoded JSON documents makes.

    Raises :class:`Invalid` with the JSON path of the first fault, which may be that two reports
    are of one node.
    """
    silent = defaults(settings, now)
    reports = tuple(
        parse(document, silent, f"$[{index}]") for index, document in enumerate(documents)
    )
    _refuse_twice(reports, "uuid", lambda report: report.node.uuid)
    _refuse_twice(
        reports,
        "hypervisor_hostname",
        lambda report: (report.node.host, report.node.hypervisor_hostname),
    )
    _refuse_twice(
        reports,
        "hypervisor_hostname",
        # It names a provider, and of those no two may have one name, on whatever hosts.
        lambda report: report.node.hypervisor_hostname if report.inventories else report.node.uuid,
    )
    return reports


def _refuse_twice(
    reports: Sequence[NodeReport], key: str, identity: Callable[[NodeReport], object]
) -> None:
    """Raise :class:`Invalid`, naming ``key``, where two reports have the same identity."""
    seen: dict[object, int] = {}
    for index, report in enumerate(reports):
        before = seen.setdefault(identity(report), index)
        if before != index:
            raise Invalid(
                f"{getattr(report.node, key)!r} is reported at $[{before}] already "
                f"(at $[{index}].{key})",
                code="scheduler.bad_value",
            )


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
    told = Recorded()
    for chunk in batches(reports, CHUNK):
        told += _record_chunk(connection, chunk, policies, now)
    return told


def _record_chunk(
    connection: Connection,
    reports: Sequence[NodeReport],
    policies: Policies | None,
    now: datetime,
) -> Recorded:
    nodes = [report.node for report in reports]
    # Services come first: whoever disables a host locks its service before looking for its nodes.
    disabled = _beat(connection, nodes, now)
    written = compute_nodes.write(connection, nodes, now)
    following: Sequence[ComputeNode] = [report.node for report in reports if report.inventories]
    if policies is not None:
        following = policy_ratios.under(connection, following, policies)
    new_providers = root_providers.follow(connection, following, now)
    came = written.created | written.came_from.keys() | new_providers
    root_providers.join_aggregates(
        connection,
        {node.uuid: node.host for node in nodes if node.uuid in came},
        written.came_from,
        now,
    )
    barred = {node.uuid for node in nodes if node.host in disabled}
    # Always, as whoever replaces a provider's traits may have dropped the mark.
    root_providers.mark_disabled(connection, barred, disabled=True, now=now)
    moved = written.came_from.keys()
    root_providers.mark_disabled(connection, moved - barred, disabled=False, now=now)
    return Recorded(
        created=len(written.created),
        changed=len(written.changed),
        unchanged=len(nodes) - len(written.created) - len(written.changed),
    )


def _beat(connection: Connection, nodes: Sequence[ComputeNode], now: datetime) -> frozenset[str]:
    """Note the hosts' heartbeats; return those hosts whose compute service is disabled."""
    heartbeats: dict[str, datetime] = {}
    for node in nodes:
        heartbeats[node.host] = max(node.last_seen_up, heartbeats.get(node.host, node.last_seen_up))
    found = services.beat(connection, heartbeats, now)
    return frozenset(host for host, service in found.items() if service.disabled)
