# SPDX-License-Identifier: Apache-2.0
"""Application of request filters, requested names and host filters."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from time import perf_counter

import orjson

from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NotExamined, PluginFailed
from placement_sched.explain.advice import build_change
from placement_sched.explain.phrases import describe_silent_rejection
from placement_sched.explain.values import FilterReport, Rejected, RequestFilterReport, Unexamined
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.names import canonicalize_uuid
from placement_sched.model.rejection import OTHER, Rejection, SuggestedChange
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import BaseHostFilter, FilterResult, Passed
from placement_sched.scheduler.host_state import HostState, get_candidates, set_candidates
from placement_sched.scheduler.plugin import PluginCall, has_overrides
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    NotApplied,
    RequestFilterContext,
    RequestFilterResult,
)
from placement_sched.scheduler.request_groups import build_aggregate_terms
from placement_sched.store.compute import compute_nodes

_RejectionFinder = Callable[[HostState], Rejection | None]
#: Fields that a request filter may not change.
_READ_ONLY = ("flavor", "image", "num_instances", "instance_uuids", "force_hosts", "force_nodes")


@dataclass(frozen=True, slots=True)
class FilterRun:
    """The hosts that passed, in input order, and a report of each filter."""

    hosts: list[HostState]
    reports: tuple[FilterReport, ...]


def run_filters(
    filters: Sequence[BaseHostFilter],
    hosts: Sequence[HostState],
    spec: RequestSpec,
    index: int = 0,
    already_passed: int = 0,
) -> FilterRun:
    """Run all filters for the instance with this index (from 0).

    Once no host remains, later filters do not run. ``already_passed`` hosts are counted as passed
    without running the filters. Raises :class:`PluginFailed`.
    """
    passed = list(hosts)
    reports: list[FilterReport] = []
    for plugin in filters:
        if not passed:
            break
        with PluginCall(plugin) as call:
            if not plugin.run_filter_for_index(index):
                continue
            results, unexamined = _evaluate(plugin, passed, spec)
            passed, report = _split_by_result(
                type(plugin).__name__, passed, results, already_passed
            )
        if call.missing_names or unexamined:
            report = replace(report, missing=call.missing_names, unexamined=unexamined)
        reports.append(report)
    return FilterRun(passed, tuple(reports))


def _evaluate(
    plugin: BaseHostFilter, hosts: Sequence[HostState], spec: RequestSpec
) -> tuple[Sequence[FilterResult] | None, tuple[Unexamined, ...]]:
    """Evaluate a filter, which passes the hosts whose unknown values it reads.

    Returns a result for each host, and the hosts that were not examined. If any value is unknown,
    each host is evaluated alone.
    """
    host_filter = get_filter(plugin)
    with suppress(NotExamined):
        return host_filter.evaluate_hosts(hosts, spec), ()
    results: list[FilterResult] = []
    unexamined: list[Unexamined] = []
    for host in hosts:
        try:
            result = host_filter.evaluate_hosts((host,), spec)
        except NotExamined as unknown:
            unexamined.append(Unexamined(host.host, host.nodename, unknown.field))
            result = None
        results.append(result[0] if result else None)
    return results, tuple(unexamined)


def _split_by_result(
    name: str,
    hosts: list[HostState],
    results: Sequence[FilterResult] | None,
    already_passed: int = 0,
) -> tuple[list[HostState], FilterReport]:
    total = len(hosts) + already_passed
    if results is None:
        return hosts, FilterReport(name=name, before=total, after=total)
    passed: list[HostState] = []
    rejected: list[Rejected] = []
    for host, result in zip(hosts, results, strict=True):
        if result is None:
            passed.append(host)
        elif isinstance(result, Rejection):
            if result.kind == OTHER and not result.text:
                raise TypeError(f"the rejection of {host.host} has no text")
            rejected.append(Rejected(host.host, host.nodename, result))
        else:
            apply_passed(result, host, name)
            passed.append(host)
    passing = len(passed) + already_passed
    report = FilterReport(name=name, before=total, after=passing, rejected=tuple(rejected))
    return passed, report


def apply_passed(result: Passed, host: HostState, name: str) -> None:
    """Write the limits and candidates of a result to the host state.

    Raises :class:`PluginFailed` if the result of a third-party filter is no :class:`Passed`.
    """
    if not isinstance(result, Passed):
        raise PluginFailed(
            f"{name} failed: its result for {host.host} is {repr(result)[:60]}, which is neither "
            "a Rejection nor Passed nor None"
        )
    result.apply_to(host)


def find_named_nodes(connection: Connection, spec: RequestSpec) -> tuple[ComputeNode, ...] | None:
    """Return the nodes that the request names, None if it names none.

    A node must match ``force_hosts``, ``force_nodes`` and the requested destination, as in nova.
    The cell of the destination is evaluated by :func:`filter_by_name`.
    """
    if not _has_named_hosts(spec):
        return None
    destination = spec.destination
    nodes = compute_nodes.list_by_names(
        connection,
        hosts={*spec.force_hosts, *filter(None, [destination.host])},
        nodes={*spec.force_nodes, *filter(None, [destination.node])},
    )
    is_match = _build_name_matcher(spec)
    return tuple(node for node in nodes if is_match(node.host, node.hypervisor_hostname))


def is_named(spec: RequestSpec, host: str, node: str) -> bool:
    """Return whether the request names this node of this host."""
    return _has_named_hosts(spec) and _build_name_matcher(spec)(host, node)


def filter_by_name(
    hosts: Sequence[HostState], spec: RequestSpec, closed_cells: Mapping[str, Rejection]
) -> tuple[list[HostState], list[FilterReport]]:
    """Filter hosts by the requested names, with a report per stage.

    ``closed_cells`` maps excluded cells to rejections, even of hosts that the request names.
    """
    remaining = list(hosts)
    reports: list[FilterReport] = []
    for name, find_rejection in _iterate_name_stages(spec, closed_cells):
        remaining, report = _split_by_result(name, remaining, list(map(find_rejection, remaining)))
        reports.append(report)
    return remaining, reports


def iterate_rejections(
    host: HostState,
    spec: RequestSpec,
    filters: Sequence[BaseHostFilter],
    closed_cells: Mapping[str, Rejection],
) -> Iterator[FilterReport]:
    """Yield a report for each stage that rejects this host.

    Every stage is evaluated for the first instance, also after a rejection. A report suggests
    changes that would let the host pass. Raises :class:`PluginFailed` if a filter raises.
    """
    for name, plugin, (rejection,) in _iterate_stages([host], spec, filters, closed_cells):
        if rejection is None:
            continue
        if plugin is None:
            changes: tuple[SuggestedChange, ...] = (change_by_name(name, host, spec),)
        else:
            changes = ()
            with PluginCall(plugin), suppress(NotExamined):
                changes = tuple(plugin.suggested_changes(host, spec))
        rejected = Rejected(host.host, host.nodename, rejection, changes)
        yield FilterReport(name=name, before=1, after=0, rejected=(rejected,))


def list_rejections(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[BaseHostFilter],
    closed_cells: Mapping[str, Rejection],
) -> list[list[tuple[str, Rejection]]]:
    """List for each host all stages that reject it, with their rejections.

    Each stage is evaluated once for the first instance, on all hosts, including hosts that other
    stages reject. Raises :class:`PluginFailed` if a filter raises.
    """
    reasons: list[list[tuple[str, Rejection]]] = [[] for _ in hosts]
    for name, _, rejections in _iterate_stages(hosts, spec, filters, closed_cells):
        for reasons_of_host, rejection in zip(reasons, rejections, strict=True):
            if rejection is not None:
                reasons_of_host.append((name, rejection))
    return reasons


def _iterate_stages(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    filters: Sequence[BaseHostFilter],
    closed_cells: Mapping[str, Rejection],
) -> Iterator[tuple[str, BaseHostFilter | None, Sequence[Rejection | None]]]:
    """Yield each stage: its name, filter or None, and a rejection per host."""
    for name, find_rejection in _iterate_name_stages(spec, closed_cells):
        yield name, None, list(map(find_rejection, hosts))
    for plugin in filters:
        name = type(plugin).__name__
        with PluginCall(plugin):
            runs = plugin.run_filter_for_index(0)
            results = _evaluate(plugin, hosts, spec)[0] if runs else None
            if results is None:
                continue
            rejections = [each if isinstance(each, Rejection) else None for each in results]
            for host, result in zip(hosts, results, strict=True):
                if not isinstance(result, Rejection | None):
                    apply_passed(result, host, name)
        yield name, plugin, rejections


def list_stage_names(spec: RequestSpec, filters: Sequence[BaseHostFilter]) -> list[str]:
    """List the stages that can reject a host of an enabled cell, in order."""
    by_name = [name for name, _ in _iterate_name_stages(spec, {})]
    return [*by_name, *(type(each).__name__ for each in filters if each.run_filter_for_index(0))]


def change_by_name(name: str, host: HostState, spec: RequestSpec) -> SuggestedChange:
    """Return the change that lets a host pass the stage ``name``.

    It is a stage of :func:`filter_by_name`.
    """
    if name == "ignore_hosts":
        names = tuple(entry for entry in spec.ignore_hosts if entry.lower() != host.host.lower())
        return build_change("change_request", kind=name, spec=replace(spec, ignore_hosts=names))
    changed_spec = replace(spec, force_hosts=(), force_nodes=())
    if name == "requested_hosts":
        destination = replace(spec.destination, host=None, node=None)
        changed_spec = replace(changed_spec, requested_destination=destination)
        return build_change("change_request", kind=name, spec=changed_spec)
    if name == "requested_cell":
        destination = replace(spec.destination, cell=None, allow_cross_cell_move=False)
        changed_spec = replace(spec, requested_destination=destination)
        return build_change("change_request", kind=name, spec=changed_spec, cell=host.cell_uuid)
    return build_change("enable_cell", cell=host.cell_uuid)


def _iterate_name_stages(
    spec: RequestSpec, closed_cells: Mapping[str, Rejection]
) -> Iterator[tuple[str, _RejectionFinder]]:
    """Yield the name and the check of each stage of :func:`filter_by_name`."""
    ignored = {name.lower() for name in spec.ignore_hosts}
    cell = spec.destination.only_cell

    def build_check(
        passes: Callable[[HostState], bool], kind: str, **values: str
    ) -> _RejectionFinder:
        rejection = Rejection(kind=kind, values=values)
        return lambda host: None if passes(host) else rejection

    if closed_cells:
        yield (
            "enabled_cells",
            lambda host: closed_cells.get(canonicalize_uuid(host.cell_uuid or "")),
        )
    if ignored:
        check_host = build_check(lambda host: host.host.lower() not in ignored, "ignored_host")
        yield "ignore_hosts", check_host
    if _has_named_hosts(spec):
        matches = _build_name_matcher(spec)
        check_host = build_check(lambda host: matches(host.host, host.nodename), "other_host")
        yield "requested_hosts", check_host
    if cell is not None:
        yield (
            "requested_cell",
            build_check(
                lambda host: (
                    host.cell_uuid is not None and canonicalize_uuid(host.cell_uuid) == cell
                ),
                "other_host",
                cell=cell,
            ),
        )


def _has_named_hosts(spec: RequestSpec) -> bool:
    destination = spec.destination
    return bool(spec.force_hosts or spec.force_nodes or destination.host or destination.node)


def _build_name_matcher(spec: RequestSpec) -> Callable[[str, str], bool]:
    """Return the check of host and node names (case counts for nodes)."""
    hosts = {name.lower() for name in spec.force_hosts}
    nodes, destination = set(spec.force_nodes), spec.destination
    return lambda host, node: (
        (not hosts or host.lower() in hosts)
        and (not nodes or node in nodes)
        and destination.host in {None, host}
        and destination.node in {None, node}
    )


def get_filter(plugin: BaseHostFilter) -> "BaseHostFilter | NovaFilter":
    """Return a filter, adapted if it overrides a method of nova's filters."""
    names = ("host_passes", "_filter_one", "filter_all")
    return NovaFilter(plugin) if has_overrides(type(plugin), BaseHostFilter, names) else plugin


class NovaFilter:
    """Adapter of a filter that overrides a method of nova's filters.

    Filters written for any nova release work with the base classes of this package. They may write
    to host states, but the allocation candidates of rejected hosts are restored.
    """

    def __init__(self, plugin: BaseHostFilter) -> None:
        self._plugin = plugin

    def evaluate_hosts(
        self, hosts: Sequence[HostState], spec_obj: RequestSpec
    ) -> Sequence[FilterResult]:
        """Return for each host None if it passes, otherwise a rejection.

        Raises :class:`ValueError` if ``filter_all`` returns a host that is not in ``hosts``.
        """
        candidates_before = [get_candidates(host) for host in hosts]
        returned = self._plugin.filter_all(list(hosts), spec_obj)
        # nova's filters may have changed the request in place.
        spec_obj.clear_read_cache()
        passed = {id(host) for host in returned or ()}
        if not passed <= {id(host) for host in hosts}:
            raise ValueError("filter_all returned a host that it was not given")
        filter_class = type(self._plugin)
        has_reasons = filter_class.rejection is not BaseHostFilter.rejection
        results: list[FilterResult] = []
        for host, candidates in zip(hosts, candidates_before, strict=True):
            rejection = None
            if id(host) not in passed:
                set_candidates(host, candidates)
                rejection = self._plugin.rejection(host, spec_obj) if has_reasons else None
                rejection = rejection or Rejection(describe_silent_rejection(filter_class.__name__))
            results.append(rejection)
        return results


@dataclass(frozen=True, slots=True)
class RequestFilterRun:
    """Result of request filters: new request, reports and first rejection."""

    spec: RequestSpec
    reports: tuple[RequestFilterReport, ...]
    rejection: Rejection | None = None


def check_request(filters: Sequence[BaseHostFilter], spec: RequestSpec) -> None:
    """Raise :class:`Invalid` for a request that a host filter cannot process."""
    for plugin in filters:
        with PluginCall(plugin):
            plugin.check(spec)


def run_request_filters(
    filters: Sequence[BaseRequestFilter], spec: RequestSpec, context: RequestFilterContext
) -> RequestFilterRun:
    """Run all enabled request filters and return the resulting request.

    After a rejection, later filters still run, so that an explanation can show the whole candidates
    query. Raises :class:`PluginFailed` if a filter raises, :class:`Invalid` if a trait of the root
    provider is both required and forbidden, and the errors of ``context``.
    """
    reports: list[RequestFilterReport] = []
    rejections: list[Rejection] = []
    for plugin in filters:
        started = perf_counter()
        outcome = None
        with PluginCall(plugin):
            if plugin.enabled(plugin.settings):
                outcome = plugin.apply(spec, context)
                check_result(spec, outcome)
        rejection = outcome if isinstance(outcome, Rejection) else None
        reports.append(
            RequestFilterReport(
                name=plugin.name or type(plugin).__name__,
                applied=isinstance(outcome, RequestFilterResult | Rejection),
                elapsed_ms=(perf_counter() - started) * 1000,
                changes=outcome.changes if isinstance(outcome, RequestFilterResult) else {},
                rejection=rejection,
                reason=outcome.reason if isinstance(outcome, NotApplied) else None,
            )
        )
        if rejection:
            rejections.append(rejection)
        if isinstance(outcome, RequestFilterResult):
            spec = outcome.spec
            for trait in sorted(spec.root_required & spec.root_forbidden):
                required = find_trait_source("root_required", trait, reports)
                forbidden = find_trait_source("root_forbidden", trait, reports)
                raise Invalid(
                    f"trait {trait} of the root provider is required by {required} and forbidden "
                    f"by {forbidden}"
                )
    return RequestFilterRun(spec, tuple(reports), next(iter(rejections), None))


def find_trait_source(kind: str, trait: str, reports: Sequence[RequestFilterReport]) -> str:
    """Return the request filter or JSON path that names a trait of the root."""
    for report in reports:
        if trait in report.changes.get(kind, ()):
            return f"request filter {report.name}"
    return f"$.request_spec.request_level_params.{kind}"


def check_result(spec: RequestSpec, outcome: object) -> None:
    """Validate the result of a request filter.

    A valid result is a :class:`RequestFilterResult`, a :class:`Rejection` with a reason, or None.
    The resulting request must keep the types of its fields, its instances, and all constraints of
    ``spec``. Raises :class:`TypeError` or :class:`ValueError`.
    """
    if isinstance(outcome, RequestFilterResult):
        orjson.dumps(dict(outcome.changes))  # explanations show it
        if outcome.spec is not spec:
            _check_spec(spec, outcome.spec)
    elif isinstance(outcome, Rejection | NotApplied):
        reason = outcome.text if isinstance(outcome, Rejection) else outcome.reason
        has_values = isinstance(outcome, Rejection) and outcome.kind != OTHER
        if not has_values and not (isinstance(reason, str) and reason):
            kind = type(outcome).__name__
            raise TypeError(f"the reason of a {kind} must be a string, not {reason!r}")
    elif outcome is not None:
        actual = type(outcome).__name__
        raise TypeError(f"expected RequestFilterResult, Rejection or None, not {actual}")


def _check_spec(original: RequestSpec, new: object) -> None:
    if not isinstance(new, RequestSpec):
        actual = type(new).__name__
        raise TypeError(f"the spec of a RequestFilterResult must be a RequestSpec, not {actual}")
    for field in fields(RequestSpec):
        old_value, new_value = getattr(original, field.name), getattr(new, field.name)
        if old_value is not None and not isinstance(new_value, type(old_value)):
            raise TypeError(f"{field.name} became {type(new_value).__name__}")
        if field.name in _READ_ONLY and new_value != old_value:
            raise ValueError(f"a request filter may not change {field.name}")
    for trait in new.root_required | new.root_forbidden:
        if not isinstance(trait, str):
            raise TypeError(f"{trait!r} is not the name of a trait")
    old_target, target = original.destination, new.destination
    # Raises an error if an aggregate is not a uuid.
    build_aggregate_terms(
        (joined.split(",") for joined in target.aggregates), target.forbidden_aggregates
    )
    removed = (
        original.root_required - new.root_required
        or original.root_forbidden - new.root_forbidden
        or Counter(old_target.aggregates) - Counter(target.aggregates)
        or set(old_target.forbidden_aggregates) - set(target.forbidden_aggregates)
    )
    if removed:
        raise ValueError(f"a request filter removed constraints: {', '.join(sorted(removed))}")
