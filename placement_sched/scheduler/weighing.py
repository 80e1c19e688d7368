# SPDX-License-Identifier: Apache-2.0
"""Weighing of hosts for each instance of a request in turn.

All hosts are weighed for the first instance. For a later instance only changed hosts are weighed
again, by the same weighers, and the others keep their raw weights. If a change moves an end of the
scale of a weigher, all hosts are normalized again, so the weights equal the weights of a full run.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from math import isfinite
from typing import Any, Self, cast

from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.explanation import HostReport, WeigherReport, WeightReport
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import calling, overrides
from placement_sched.scheduler.weights import (
    BaseHostWeigher,
    ExplainedWeights,
    WeighedHost,
    aggregates_of,
    normalize,
)

#: The lowest and highest raw weight of a weigher, for normalization.
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class WeightColumn:
    """The weights that a weigher gives the hosts, in input order.

    ``ends`` are the ends of its scale, or None if the weigher did not run because all hosts are
    equal for the request. ``amounts`` are the amounts of each host that ``describe`` formats, or
    empty if the weigher has none.
    """

    name: str
    raw: Sequence[float]
    normalized: Sequence[float]
    multipliers: Sequence[float]
    ends: Ends | None = None
    amounts: Sequence[Any] = ()
    describe: Callable[[Any], str] | None = None

    @property
    def changes_weights(self) -> bool:
        """Return whether the weigher changes the weight of any host."""
        return any(self.normalized) and any(self.multipliers)

    @property
    def shared_report(self) -> WeightReport | None:
        """Return the report that all hosts share, or None if there is none."""
        numbers = (self.raw, self.normalized, self.multipliers)
        if self.amounts or not all(
            row and row[0] == row[-1] and len(set(row)) == 1 for row in numbers
        ):
            return None
        return self.report_at(0)

    def reports(self) -> list[WeightReport]:
        """Build a report on each host, shared by hosts with equal weights."""
        if self.amounts:
            return [self.report_at(position) for position in range(len(self.raw))]
        reports: dict[tuple[float, ...], WeightReport] = {}
        return [
            reports.get(weights) or reports.setdefault(weights, WeightReport(*weights))
            for weights in zip(self.raw, self.normalized, self.multipliers, strict=True)
        ]

    def report_at(self, position: int) -> WeightReport:
        """Return a report on the host at a position."""
        numbers = self.raw[position], self.normalized[position], self.multipliers[position]
        if not self.amounts or self.describe is None:
            return WeightReport(*numbers)
        return WeightReport(*numbers, self.describe(self.amounts[position]))

    def at(self, places: Sequence[int]) -> Self:
        """Return the column with only the hosts at these positions."""
        return replace(
            self,
            raw=[self.raw[position] for position in places],
            normalized=[self.normalized[position] for position in places],
            multipliers=[self.multipliers[position] for position in places],
            amounts=[self.amounts[position] for position in places] if self.amounts else (),
        )


@dataclass(frozen=True, slots=True)
class WeighRun:
    """The result of weighing: the hosts, best first, and the weights of each weigher.

    ``columns`` are in input order, and ``order`` has the input positions of ``hosts``. Hosts with
    equal weights are ordered by host, then node. ``weighers`` are the requested weighers.
    """

    hosts: list[WeighedHost]
    reports: tuple[WeigherReport, ...]
    columns: tuple[WeightColumn, ...]
    order: list[int]
    weighers: Sequence[BaseHostWeigher] = ()

    @classmethod
    def of(
        cls,
        weighed: Sequence[WeighedHost],
        columns: Sequence[WeightColumn],
        order: list[int] | None = None,
    ) -> Self:
        """Sort the hosts best first.

        A caller that has sorted them passes their positions as ``order``.
        """
        if order is None:
            order = _sort_best_first(weighed, _by_name(weighed))
        return cls([weighed[position] for position in order], (), tuple(columns), order)

    def host_reports(self) -> tuple[HostReport, ...]:
        """Return a report with all weights on each host, best first."""
        if not self.hosts:
            return ()
        # Most weighers give all hosts the same weight, so their reports are shared.
        same = {column.name: column.shared_report for column in self.columns}
        individual = [
            (column.name, column.reports()) for column in self.columns if same[column.name] is None
        ]
        reports = []
        for weighed, position in zip(self.hosts, self.order, strict=True):
            weights = cast("dict[str, WeightReport]", same.copy())
            for name, host_reports in individual:
                weights[name] = host_reports[position]
            host = weighed.obj
            reports.append(HostReport(host.host, host.nodename, weighed.weight, weights))
        return tuple(reports)

    def reports_on(self, hosts: Sequence[WeighedHost]) -> tuple[HostReport, ...]:
        """Build reports on some of the hosts, in their order."""
        ids = {id(host.obj) for host in hosts}
        pairs = zip(self.hosts, self.order, strict=True)
        positions = {id(entry.obj): position for entry, position in pairs if id(entry.obj) in ids}
        reports = []
        for weighed in hosts:
            host, position = weighed.obj, positions[id(weighed.obj)]
            weights = {column.name: column.report_at(position) for column in self.columns}
            reports.append(HostReport(host.host, host.nodename, weighed.weight, weights))
        return tuple(reports)


def run_weighers(
    weighers: Sequence[BaseHostWeigher], hosts: Sequence[HostState], spec: RequestSpec
) -> WeighRun:
    """Weigh the hosts and return them best first.

    A single host is not weighed, as in nova. Raises :class:`PluginFailed`.
    """
    if len(hosts) < 2:
        return WeighRun.of([WeighedHost(host) for host in hosts], ())
    aggregates = aggregates_of(hosts)
    weighers = [plugin for plugin in weighers if _is_requested(plugin, spec, aggregates)]
    columns = [_weigh(plugin, hosts, aggregates, spec) for plugin in weighers]
    weights = weights_by(columns, len(hosts))
    run = WeighRun.of(list(map(WeighedHost, hosts, weights)), columns)
    best = run.order[0]
    reports = []
    for plugin, column in zip(weighers, columns, strict=True):
        # If no multiplier is configured, the multiplier of the best host is reported.
        by_option = plugin.multiplier_option is not None
        multiplier = plugin.configured_multiplier if by_option else column.multipliers[best]
        reports.append(WeigherReport(column.name, multiplier))
    return replace(run, reports=tuple(reports), weighers=weighers)


def _is_requested(
    plugin: BaseHostWeigher, spec: RequestSpec, aggregates: Collection[HostAggregate]
) -> bool:
    with calling(plugin):
        return plugin.is_requested(spec, aggregates)


def weights_by(columns: Iterable[WeightColumn], number: int) -> list[float]:
    """Sum the weights of each of ``number`` hosts over all columns."""
    weights = [0.0] * number
    for column in columns:
        if column.changes_weights:
            shares = zip(weights, column.multipliers, column.normalized, strict=True)
            weights = [weight + multiplier * share for weight, multiplier, share in shares]
    return weights


def weight_at(at: int, columns: Iterable[WeightColumn]) -> float:
    """Sum the weights of the host at a position, as :func:`weights_by` does."""
    weight = 0.0
    for column in columns:
        if column.changes_weights:
            weight += column.multipliers[at] * column.normalized[at]
    return weight


def _weigh(
    plugin: BaseHostWeigher,
    hosts: Sequence[HostState],
    aggregates: Collection[HostAggregate],
    spec: RequestSpec,
) -> WeightColumn:
    """Weigh hosts with a weigher, given the ``aggregates`` of all hosts."""
    name, weigher = type(plugin).__name__, weigher_of(plugin)
    with calling(plugin):
        multipliers = _to_finite(weigher.multipliers(hosts, aggregates))
        if not plugin.concerns(spec):
            zeros = [0.0] * len(hosts)
            return WeightColumn(name, zeros, zeros, multipliers)
        # Some weighers return other number types, which cannot be serialized.
        weights = weigher.weights(hosts, spec)
        raw = _to_finite(weights)
        if len(raw) != len(hosts):
            raise ValueError(f"{len(raw)} weights for {len(hosts)} hosts")
        ends = _ends(plugin, raw)
        column = WeightColumn(name, raw, normalize(raw, *ends), multipliers, ends)
        if isinstance(weights, ExplainedWeights):
            return replace(column, amounts=weights.amounts, describe=plugin.describe)
        return column


def _to_finite(values: Iterable[float]) -> list[float]:
    """Convert weights to finite floats, or raise :class:`ValueError`."""
    numbers = list(map(float, values))
    if not isfinite(sum(numbers)):  # a finite sum is the quick and usual check
        for number in numbers:
            if not isfinite(number):
                raise ValueError(f"a weight or multiplier must be finite, not {number}")
    return numbers


def _ends(plugin: BaseHostWeigher, raw: Sequence[float]) -> Ends:
    low = min(raw) if plugin.minval is None else plugin.minval
    return low, max(raw) if plugin.maxval is None else plugin.maxval


def _sort_best_first(weighed: Sequence[WeighedHost], positions_by_name: Sequence[int]) -> list[int]:
    """Sort the positions of hosts by weight, best first, and equal weights by name."""
    # Sorting is stable: hosts of equal weights stay by name.
    negated = [-host.weight for host in weighed]
    return sorted(positions_by_name, key=negated.__getitem__)


def _by_name(weighed: Sequence[WeighedHost]) -> list[int]:
    names = [(host.obj.host, host.obj.nodename) for host in weighed]
    return sorted(range(len(weighed)), key=names.__getitem__)


class Weighing:
    """Weigh the hosts of a request for each instance in turn."""

    def __init__(self, weighers: Sequence[BaseHostWeigher]) -> None:
        self._weighers = weighers
        # The weighers that the request uses, in the order of the columns.
        self._requested: Sequence[BaseHostWeigher] = ()
        self._weighed: list[WeighedHost] = []
        self._columns: list[WeightColumn] = []
        # Positions by name and best first, the rank of each position by name, and the positions
        # of the nodes of each host.
        self._by_name: list[int] = []
        self._order: list[int] = []
        self._ranks: list[int] = []
        self._positions: dict[str, list[int]] = {}
        self._changed: set[str] = set()

    def note(self, host: HostState) -> None:
        """Record that a host, with all its nodes, has changed."""
        self._changed.add(host.host)

    def weigh(self, hosts: Sequence[HostState], spec: RequestSpec) -> WeighRun:
        """Weigh the changed hosts, and return all hosts best first.

        ``hosts`` are the hosts of the previous call, or some of them in the same order.
        """
        if not self._weighed or len(hosts) < 2:
            return self.weigh_all(hosts, spec)
        same_hosts = len(hosts) == len(self._weighed)
        if not same_hosts:  # drop the weights of removed hosts
            ids = {id(host) for host in hosts}
            places = [at for at, host in enumerate(self._weighed) if id(host.obj) in ids]
            self._weighed = [self._weighed[at] for at in places]
            self._columns = [column.at(places) for column in self._columns]
            self._by_name = []
        if not self._by_name:
            self._index_hosts()
        places = sorted(at for name in self._changed for at in self._positions.get(name, ()))
        changed = {at: hosts[at] for at in places}
        self._changed.clear()
        old_columns = self._columns
        self._columns = [
            _weigh_again(plugin, column, hosts, spec, changed, same_hosts=same_hosts)
            for plugin, column in zip(self._requested, old_columns, strict=True)
        ]
        is_rescaled = any(
            not weigher_of(each).by_host or column.ends != old.ends
            for each, column, old in zip(self._requested, self._columns, old_columns, strict=True)
            if column is not old
        )
        # Replace the objects, because earlier instances may still refer to the old objects.
        if is_rescaled:
            self._weighed = list(map(WeighedHost, hosts, weights_by(self._columns, len(hosts))))
            self._order = _sort_best_first(self._weighed, self._by_name)
        else:
            for position, host in changed.items():
                self._weighed[position] = WeighedHost(host, weight_at(position, self._columns))
            self._reinsert(changed)
        return WeighRun.of(self._weighed, self._columns, self._order)

    def _reinsert(self, changed: Collection[int]) -> None:
        """Move the hosts at these positions to their place in the best-first order."""

        def key(position: int) -> tuple[float, int]:
            return -self._weighed[position].weight, self._ranks[position]

        # A new list, because the previous instance may still refer to the old list.
        self._order = [position for position in self._order if position not in changed]
        for position in changed:
            insort(self._order, position, key=key)

    def _index_hosts(self) -> None:
        """Index the positions of each host's nodes, and sort positions by name and weight."""
        self._by_name = _by_name(self._weighed)
        self._order = _sort_best_first(self._weighed, self._by_name)
        self._ranks = sorted(range(len(self._by_name)), key=self._by_name.__getitem__)
        self._positions = defaultdict(list)
        for position, host in enumerate(self._weighed):
            self._positions[host.obj.host].append(position)

    def weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> WeighRun:
        """Weigh all hosts again and return them best first."""
        run = run_weighers(self._weighers, hosts, spec)
        self._requested = run.weighers
        self._changed.clear()
        # A single host is not weighed, so there are no weights to reuse.
        pairs = zip(run.order, run.hosts, strict=True) if len(hosts) > 1 else ()
        self._weighed = [host for _, host in sorted(pairs, key=lambda pair: pair[0])]
        self._columns, self._by_name = list(run.columns), []
        return run


def _weigh_again(
    plugin: BaseHostWeigher,
    column: WeightColumn,
    hosts: Sequence[HostState],
    spec: RequestSpec,
    changed: Mapping[int, HostState],
    *,
    same_hosts: bool,
) -> WeightColumn:
    """Weigh only the hosts at the positions in ``changed`` again.

    If hosts were removed, the ends of the scale may have changed too.
    """
    weigher, ends = weigher_of(plugin), column.ends
    # The first instance may turn an empty server group into a group with members.
    if not weigher.by_host or (ends is None and _weighs_members(plugin, spec)):
        return _weigh(plugin, hosts, aggregates_of(hosts), spec)
    if ends is None:  # all hosts are equal for this request
        return column
    with calling(plugin):
        weights = weigher.weights(list(changed.values()), spec)
        new_weights = _to_finite(weights)
    if isinstance(weights, ExplainedWeights):
        amounts = list(column.amounts)
        for position, amount in zip(changed, weights.amounts, strict=True):
            amounts[position] = amount
        column = replace(column, amounts=amounts)
    elif same_hosts and new_weights == [column.raw[position] for position in changed]:
        return column
    raw = list(column.raw)
    for position, weight in zip(changed, new_weights, strict=True):
        raw[position] = weight
    new_ends = _ends(plugin, raw)
    if new_ends != ends:
        shares = normalize(raw, *new_ends)
        return replace(column, raw=raw, normalized=shares, ends=new_ends)
    shares = list(column.normalized)
    for position in changed:
        shares[position] = normalize([raw[position]], *ends)[0]
    return replace(column, raw=raw, normalized=shares)


def _weighs_members(plugin: BaseHostWeigher, spec: RequestSpec) -> bool:
    """Return whether a weigher's weights depend on the members of the server group."""
    if not plugin.counts_members:
        return False
    with calling(plugin):
        return plugin.concerns(spec)


def weigher_of(plugin: BaseHostWeigher) -> "BaseHostWeigher | NovaWeigher":
    """Return a weigher, wrapped if it overrides a method of nova's base class."""
    names = ("_weigh_object", "weigh_objects", "weight_multiplier", "_weight_multiplier")
    return NovaWeigher(plugin) if overrides(plugin, BaseHostWeigher, names) else plugin


class NovaWeigher:
    """A weigher that overrides a method of nova's weighers.

    Its weights may depend on other hosts, so that all hosts are weighed for each instance.
    """

    by_host = False

    def __init__(self, plugin: BaseHostWeigher) -> None:
        self._plugin = plugin

    def weights(self, hosts: Sequence[HostState], spec_obj: RequestSpec) -> Sequence[float]:
        """Return the result of ``weigh_objects``, which calls ``_weigh_object`` by default."""
        return self._plugin.weigh_objects([WeighedHost(host) for host in hosts], spec_obj)

    def multipliers(
        self, hosts: Sequence[HostState], aggregates: Collection[HostAggregate]
    ) -> Sequence[float]:
        """Return the multiplier of each host, equal in plugins before Stein."""
        plugin, kind = self._plugin, type(self._plugin)
        multiplier: Any
        if kind.weight_multiplier is not BaseHostWeigher.weight_multiplier:
            multiplier = plugin.weight_multiplier
        elif hasattr(plugin, "_weight_multiplier"):  # before Juno
            multiplier = plugin._weight_multiplier  # noqa: SLF001 - nova's name
        else:
            return plugin.multipliers(hosts, aggregates)
        if not signature(multiplier).parameters:
            return [multiplier()] * len(hosts)
        return [multiplier(host) for host in hosts]
