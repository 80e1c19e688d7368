"""Hosts that names decide of: those a request must not go to, those it may only go to."""

from collections.abc import Callable, Collection, Iterator, Sequence

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


#: The name of a stage, whether it keeps a host, and why it refuses the others.
Stage = tuple[str, Callable[[HostState], bool], str]


def sift(
    hosts: Sequence[HostState], spec: RequestSpec, disabled_cells: Collection[str] = ()
) -> FilterRun:
    """Return the hosts that the names in the request leave, told as filters tell.

    Those of the disabled cells are for nobody, by whatever name.
    """
    left = list(hosts)
    reports: list[FilterReport] = []
    for stage in _stages(spec, disabled_cells):
        left, report = _sifted(left, stage)
        reports.append(report)
    return FilterRun(left, tuple(reports))


def each_refusal_by_name(
    host: HostState, spec: RequestSpec, disabled_cells: Collection[str] = ()
) -> Iterator[FilterReport]:
    """Yield each stage of :func:`sift` that refuses this host, also after the first."""
    for stage in _stages(spec, disabled_cells):
        _, report = _sifted([host], stage)
        if report.rejected:
            yield report


def _sifted(hosts: list[HostState], stage: Stage) -> tuple[list[HostState], FilterReport]:
    name, keeps, reason = stage
    kept = [host for host in hosts if keeps(host)]
    rejected = tuple(
        Rejected(host.host, host.nodename, reason) for host in hosts if not keeps(host)
    )
    return kept, FilterReport(name=name, before=len(hosts), after=len(kept), rejected=rejected)


def _stages(spec: RequestSpec, disabled_cells: Collection[str]) -> Iterator[Stage]:
    """Yield the stages that the request, or the configuration, gives reason for."""
    ignored = {name.lower() for name in spec.ignore_hosts}
    cell = spec.destination.only_cell
    closed = {canonical(uuid) for uuid in disabled_cells}
    if closed:
        yield (
            "enabled_cells",
            lambda host: host.cell_uuid is None or canonical(host.cell_uuid) not in closed,
            "its cell is disabled",
        )
    if ignored:
        yield (
            "ignore_hosts",
            lambda host: host.host.lower() not in ignored,
            "the request asks to ignore it",
        )
    if names_hosts(spec):
        yield (
            "requested_hosts",
            lambda host: _may(spec, host.host, host.nodename),
            "the request names other hosts",
        )
    if cell is not None:
        yield (
            "requested_cell",
            lambda host: host.cell_uuid is not None and canonical(host.cell_uuid) == cell,
            f"the request names cell {cell}",
        )


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
