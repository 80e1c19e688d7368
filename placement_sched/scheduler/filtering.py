"""Leave out hosts: those that names in the request decide of, then those that a filter rejects."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from placement_sched.db.transaction import Connection
from placement_sched.errors import PluginFailed
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.explanation import FilterReport, Rejected
from placement_sched.model.names import canonical
from placement_sched.model.request_spec import REBUILD_HINT, RequestSpec
from placement_sched.model.verdict import Refusal, Remedy
from placement_sched.scheduler.filters import BaseHostFilter, Passed, Verdict
from placement_sched.scheduler.host_state import HostState, candidates_of, offer
from placement_sched.scheduler.plugin import calling, overrides
from placement_sched.store.compute import compute_nodes

#: Returns why a host is left out, or None.
_ReasonOf = Callable[[HostState], Refusal | None]
#: No cell is closed.
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FilterRun:
    """The hosts that passed, in the order they came, and what each filter rejected."""

    hosts: list[HostState]
    reports: tuple[FilterReport, ...]


def run_filters(
    filters: Sequence[BaseHostFilter],
    hosts: Sequence[HostState],
    spec: RequestSpec,
    index: int = 0,
    besides: int = 0,
) -> FilterRun:
    """Return the hosts that pass all filters that run for the instance of this index.

    Once no host is left, later filters do not run. ``besides`` is how many more hosts pass, by what
    is known of them: the reports count them. Raises :class:`PluginFailed`.
    """
    left = list(hosts)
    reports: list[FilterReport] = []
    for plugin in filters:
        if not left:
            break
        with calling(plugin):
            if not plugin.run_filter_for_index(index):
                continue
            verdicts = filter_of(plugin).verdicts(left, spec)
            left, report = _divided(type(plugin).__name__, left, verdicts, besides)
        reports.append(report)
    return FilterRun(left, tuple(reports))


def _divided(
    name: str, hosts: list[HostState], verdicts: Sequence[Verdict] | None, besides: int = 0
) -> tuple[list[HostState], FilterReport]:
    """Return the hosts that pass, with what the stage hands on, and why the others do not."""
    before = len(hosts) + besides
    if verdicts is None:
        return hosts, FilterReport(name=name, before=before, after=before)
    passed: list[HostState] = []
    rejected: list[Rejected] = []
    for host, verdict in zip(hosts, verdicts, strict=True):
        if verdict is None:
            passed.append(host)
        elif isinstance(verdict, Refusal):
            rejected.append(Rejected(host.host, host.nodename, verdict.reason))
        else:
            hand_on(verdict, host, name)
            passed.append(host)
    after = len(passed) + besides
    report = FilterReport(name=name, before=before, after=after, rejected=tuple(rejected))
    return passed, report


def hand_on(verdict: Passed, host: HostState, name: str) -> None:
    """Write what the filter of this name found out to the state of a host that passes.

    Raises :class:`PluginFailed` where a third-party filter answered something else.
    """
    if not isinstance(verdict, Passed):
        raise PluginFailed(
            f"{name} failed: its verdict on {host.host} is {repr(verdict)[:60]}, which is neither "
            "a Refusal nor Passed nor None"
        )
    verdict.hand_on(host)


def named_nodes(connection: Connection, spec: RequestSpec) -> tuple[ComputeNode, ...] | None:
    """Return the nodes that the request is confined to by name, or None where it names none.

    ``force_hosts``, ``force_nodes`` and host and node of the requested destination all narrow, as
    in nova. (A cell names none: it is removed from the hosts found.)
    """
    if not _names_hosts(spec):
        return None
    destination = spec.destination
    found = compute_nodes.named(
        connection,
        hosts={*spec.force_hosts, *filter(None, [destination.host])},
        nodes={*spec.force_nodes, *filter(None, [destination.node])},
    )
    may = _named_by(spec)
    return tuple(node for node in found if may(node.host, node.hypervisor_hostname))


def is_named(spec: RequestSpec, host: str, node: str) -> bool:
    """Return whether the request names this node of this host."""
    return _names_hosts(spec) and _named_by(spec)(host, node)


def is_forced(spec: RequestSpec) -> bool:
    """Return whether the hosts named are taken without asking the filters, as nova does.

    The hint ``_nova_check_type`` (a rebuild or a live migration to a host) asks them after all.
    """
    forced = bool(spec.force_hosts or spec.force_nodes)
    return forced and not spec.get_scheduler_hint(REBUILD_HINT)


def filter_by_name(
    hosts: Sequence[HostState], spec: RequestSpec, closed_cells: Mapping[str, str] = _NONE
) -> tuple[list[HostState], list[FilterReport]]:
    """Return the hosts that the names in the request leave, and a report for each stage.

    Those of closed cells, of which the reasons are given by uuid, are left out, by whatever name.
    """
    left = list(hosts)
    reports: list[FilterReport] = []
    for name, reason_of in _stages_by_name(spec, closed_cells):
        left, report = _divided(name, left, list(map(reason_of, left)))
        reports.append(report)
    return left, reports


def each_refusal(
    host: HostState,
    spec: RequestSpec,
    filters: Sequence[BaseHostFilter],
    closed_cells: Mapping[str, str] = _NONE,
) -> Iterator[FilterReport]:
    """Yield each stage, by name and by filter, that refuses this host, also after the first one.

    With what would have to change. The first instance is asked for. Raises :class:`PluginFailed`
    where a filter raises.
    """
    for name, reason_of in _stages_by_name(spec, closed_cells):
        refusal = reason_of(host)
        if refusal is not None:
            report = _divided(name, [host], [refusal])[1]
            yield _with_changes(report, (change_by_name(name, host, spec),))
    for plugin in filters:
        for report in run_filters((plugin,), [host], spec).reports:
            if report.rejected:
                with calling(plugin):
                    changes = tuple(plugin.changes(host, spec))
                yield _with_changes(report, changes)


def every_refusal(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[BaseHostFilter],
    closed_cells: Mapping[str, str] = _NONE,
) -> list[list[tuple[str, Refusal]]]:
    """Return for each host the stages that refuse it, each with its refusal, as one by one.

    Each stage is asked once, of all hosts, also of those that another refuses. The first instance
    is asked for. Raises :class:`PluginFailed` where a filter raises.
    """
    found: list[list[tuple[str, Refusal]]] = [[] for _ in hosts]
    for name, reason_of in _stages_by_name(spec, closed_cells):
        for host, refusals in zip(hosts, found, strict=True):
            if (refusal := reason_of(host)) is not None:
                refusals.append((name, refusal))
    for plugin in filters:
        with calling(plugin):
            asked = plugin.run_filter_for_index(0)
            verdicts = filter_of(plugin).verdicts(hosts, spec) if asked else None
        if verdicts is None:
            continue
        for host, refusals, verdict in zip(hosts, found, verdicts, strict=True):
            if isinstance(verdict, Refusal):
                refusals.append((type(plugin).__name__, verdict))
            elif verdict is not None:
                hand_on(verdict, host, type(plugin).__name__)
    return found


def stage_names(
    spec: RequestSpec, filters: Sequence[BaseHostFilter], closed_cells: Mapping[str, str] = _NONE
) -> list[str]:
    """Return the names of the stages that :func:`each_refusal` goes through, in order."""
    by_name = [name for name, _ in _stages_by_name(spec, closed_cells)]
    return [*by_name, *(type(one).__name__ for one in filters if one.run_filter_for_index(0))]


def _with_changes(report: FilterReport, changes: tuple[Remedy, ...]) -> FilterReport:
    rejected = tuple([replace(one, changes=changes) for one in report.rejected])
    return replace(report, rejected=rejected)


def change_by_name(name: str, host: HostState, spec: RequestSpec) -> Remedy:
    """Return what would have to change so that a stage by name keeps a host."""
    if name == "ignore_hosts":
        left = tuple(one for one in spec.ignore_hosts if one.lower() != host.host.lower())
        return Remedy("ask", "do not ignore it", spec=replace(spec, ignore_hosts=left))
    anywhere = replace(spec, force_hosts=(), force_nodes=())
    if name == "requested_hosts":
        there = replace(spec.destination, host=None, node=None)
        anywhere = replace(anywhere, requested_destination=there)
        return Remedy("ask", "name this host in the request, or none", spec=anywhere)
    if name == "requested_cell":
        there = replace(spec.destination, cell=None, allow_cross_cell_move=False)
        anywhere = replace(spec, requested_destination=there)
        return Remedy("ask", f"name its cell {host.cell_uuid}, or none", spec=anywhere)
    return Remedy("enable_cell", f"enable its cell {host.cell_uuid}")


def _stages_by_name(
    spec: RequestSpec, closed_cells: Mapping[str, str]
) -> Iterator[tuple[str, _ReasonOf]]:
    """Yield the name of each stage that is needed, and what returns why it leaves a host out."""
    ignored = {name.lower() for name in spec.ignore_hosts}
    cell = spec.destination.only_cell

    def unless(keeps: Callable[[HostState], bool], reason: str, several: str = "") -> _ReasonOf:
        refusal = Refusal(reason, of_one=reason, of_several=several or reason)
        return lambda host: None if keeps(host) else refusal

    if closed_cells:
        yield "enabled_cells", lambda host: _closed(closed_cells, host)
    if ignored:
        reasons = "the request asks to ignore it", "the request asks to ignore them"
        yield "ignore_hosts", unless(lambda host: host.host.lower() not in ignored, *reasons)
    if _names_hosts(spec):
        reason, may = "the request names other hosts", _named_by(spec)
        yield "requested_hosts", unless(lambda host: may(host.host, host.nodename), reason)
    if cell is not None:
        yield (
            "requested_cell",
            unless(
                lambda host: host.cell_uuid is not None and canonical(host.cell_uuid) == cell,
                f"the request names cell {cell}",
            ),
        )


def _closed(closed_cells: Mapping[str, str], host: HostState) -> Refusal | None:
    reason = closed_cells.get(canonical(host.cell_uuid or ""))
    return None if reason is None else Refusal(reason)


def _names_hosts(spec: RequestSpec) -> bool:
    """Return whether the request may only go to hosts it names."""
    destination = spec.destination
    return bool(spec.force_hosts or spec.force_nodes or destination.host or destination.node)


def _named_by(spec: RequestSpec) -> Callable[[str, str], bool]:
    """Return what says whether the names in the request leave a node of a host.

    Case of host names is ignored.
    """
    hosts = {name.lower() for name in spec.force_hosts}
    nodes, destination = set(spec.force_nodes), spec.destination
    return lambda host, node: (
        (not hosts or host.lower() in hosts)
        and (not nodes or node in nodes)
        and destination.host in {None, host}
        and destination.node in {None, node}
    )


def filter_of(plugin: BaseHostFilter) -> "BaseHostFilter | NovaFilter":
    """Return the filter, wrapped where it overrides a method of nova's."""
    names = ("host_passes", "_filter_one", "filter_all")
    return NovaFilter(plugin) if overrides(plugin, BaseHostFilter, names) else plugin


class NovaFilter:
    """A filter that decides by ``host_passes``, ``_filter_one`` or ``filter_all``, as nova's do.

    Plugins of every release of nova are subclasses of our bases, with their import lines changed.
    It may write to the host states; those that it rejects get their allocation candidates back.
    """

    def __init__(self, plugin: BaseHostFilter) -> None:
        self._plugin = plugin

    def verdicts(self, hosts: Sequence[HostState], spec_obj: RequestSpec) -> Sequence[Verdict]:
        """Return None for each host that ``filter_all`` returns, and a refusal for the others.

        Raises :class:`ValueError` where it returns a host that it was not given.
        """
        before = [candidates_of(host) for host in hosts]
        returned = self._plugin.filter_all(list(hosts), spec_obj)
        # nova's filters may have changed the request in place.
        spec_obj.read_again()
        passed = {id(host) for host in returned or ()}
        if not passed <= {id(host) for host in hosts}:
            raise ValueError("it returned a host that it was not given")
        return [
            None if id(host) in passed else self._refusal(host, candidates, spec_obj)
            for host, candidates in zip(hosts, before, strict=True)
        ]

    def _refusal(self, host: HostState, candidates: Sequence[object], spec: RequestSpec) -> Refusal:
        """Return why a host is rejected: what ``refusal`` says, where the class has one.

        That is asked only now, of the few that are rejected: it explains, and does not decide. The
        host has its candidates back by then.
        """
        offer(host, candidates)
        kind = type(self._plugin)
        own = kind.refusal is not BaseHostFilter.refusal
        refusal = self._plugin.refusal(host, spec) if own else None
        return refusal or Refusal(f"rejected by {kind.__name__}")
