"""Hosts that names decide of: those a request must not go to, those it may only go to."""

from collections.abc import Callable, Collection, Sequence

from placement_sched.db.connection import Connection
from placement_sched.model.allocation import canonical
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.report import FilterReport, Rejected
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.question import Confinement
from placement_sched.scheduler.stages import FilterRun
from placement_sched.store import compute_nodes


def named_nodes(connection: Connection, spec: RequestSpec) -> tuple[ComputeNode, ...] | None:
    """Return the nodes that the request is confined to by name, or None where it names none.

    ``force_hosts``, ``force_nodes`` and host and node of the requested destination all narrow, as
    in nova. (A cell names none: it is sifted out of the hosts found.)
    """
    if not names_hosts(spec):
        return None
    destination = spec.destination
    found = compute_nodes.named(
        connection,
        hosts={*spec.force_hosts, *_given(destination.host)},
        nodes={*spec.force_nodes, *_given(destination.node)},
    )
    return tuple(node for node in found if _may(spec, node.host, node.hypervisor_hostname))


def confinement(connection: Connection, spec: RequestSpec) -> Confinement:
    """Return the nodes to which the request is confined by name, as the question asks of them."""
    nodes = named_nodes(connection, spec)
    return Confinement(None if nodes is None else tuple(node.uuid for node in nodes))


def names_hosts(spec: RequestSpec) -> bool:
    """Return whether the request may only go to hosts it names."""
    destination = spec.destination
    return bool(spec.force_hosts or spec.force_nodes or destination.host or destination.node)


def is_forced(spec: RequestSpec) -> bool:
    """Return whether the hosts named are taken without asking the filters, as nova does.

    The hint ``_nova_check_type`` (a rebuild or a live migration to a host) asks them after all.
    """
    forced = bool(spec.force_hosts or spec.force_nodes)
    return forced and not spec.get_scheduler_hint("_nova_check_type")


def sift(
    hosts: Sequence[HostState], spec: RequestSpec, disabled_cells: Collection[str] = ()
) -> FilterRun:
    """Return the hosts that the names in the request leave, told as filters tell.

    Those of the disabled cells are for nobody, by whatever name.
    """
    left = list(hosts)
    reports: list[FilterReport] = []
    ignored = {name.lower() for name in spec.ignore_hosts}
    cell = spec.destination.only_cell
    closed = {canonical(uuid) for uuid in disabled_cells}
    stages: tuple[tuple[str, bool, Callable[[HostState], bool], str], ...] = (
        (
            "enabled_cells",
            bool(closed),
            lambda host: host.cell_uuid is None or canonical(host.cell_uuid) not in closed,
            "its cell is disabled",
        ),
        (
            "ignore_hosts",
            bool(ignored),
            lambda host: host.host.lower() not in ignored,
            "the request asks to ignore it",
        ),
        (
            "requested_hosts",
            names_hosts(spec),
            lambda host: _may(spec, host.host, host.nodename),
            "the request names other hosts",
        ),
        (
            "requested_cell",
            cell is not None,
            lambda host: host.cell_uuid is not None and canonical(host.cell_uuid) == cell,
            f"the request names cell {cell}",
        ),
    )
    for name, applies, keeps, reason in stages:
        if not applies:
            continue
        kept = [host for host in left if keeps(host)]
        rejected = tuple(
            Rejected(host.host, host.nodename, reason) for host in left if not keeps(host)
        )
        reports.append(
            FilterReport(name=name, before=len(left), after=len(kept), rejected=rejected)
        )
        left = kept
    return FilterRun(left, tuple(reports))


def _may(spec: RequestSpec, host: str, node: str) -> bool:
    """Return whether the names in the request leave this node; host names heed no case."""
    hosts = {name.lower() for name in spec.force_hosts}
    destination = spec.destination
    return (
        (not hosts or host.lower() in hosts)
        and (not spec.force_nodes or node in spec.force_nodes)
        and destination.host in {None, host}
        and destination.node in {None, node}
    )


def _given(name: str | None) -> tuple[str, ...]:
    return (name,) if name else ()
