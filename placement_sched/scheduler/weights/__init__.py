# SPDX-License-Identifier: Apache-2.0
"""Base class of weighers, and the weighing of hosts per instance.

    weight = multiplier_1 * normalized_1 + multiplier_2 * normalized_2 + ...

The host with the greatest weight wins. Implement :meth:`~BaseHostWeigher.weigh_hosts`, which weighs
all hosts at once. nova's ``_weigh_object``, ``weigh_objects`` and ``weight_multiplier`` are
supported too.

All hosts are weighed for the first instance. For a later instance, the same weighers weigh only the
hosts that changed. Other hosts keep their raw weights. If a change moves an end of the scale of a
weigher, all hosts are normalized again, so the weights equal the weights of a full run.
"""

import sys
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from math import isfinite, nan
from typing import Any, ClassVar, Protocol, Self, cast

from oslo_config import cfg
from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.errors import NotExamined
from placement_sched.explain.values import HostReport, WeigherReport, WeightReport
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import (
    PluginCall,
    SchedulerPlugin,
    has_overrides,
    list_classes,
)

__all__ = ["BaseHostWeigher", "HostState", "Hosts", "RequestSpec", "WeighedHost", "Weights"]
__all__ += ["ExplainedWeights", "all_weighers", "collect_aggregates", "normalize"]

LOG = log.getLogger(__name__)
Hosts = Sequence[HostState]
#: A number for each host, in their order.
Weights = Sequence[float]
#: The lowest and highest raw weight of a weigher, for normalization.
Ends = tuple[float, float]
_ADDED = "added {:g} to the weight of the host itself"


@dataclass(slots=True)
class WeighedHost:
    """Host and its weight, with the attribute names of nova's WeighedObject."""

    obj: HostState
    weight: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return host and weight, as in nova."""
        return {"weight": self.weight, "host": self.obj.host}


class ExplainedWeights(list[float]):
    """Weights, with amounts of each host for :meth:`BaseHostWeigher.describe`."""

    def __init__(self, weights: Weights, amounts: Sequence[Any]) -> None:
        super().__init__(weights)
        self.amounts = amounts


class Weighed(Protocol):
    """Weighed host, the argument of nova's ``weigh_objects``."""

    obj: HostState


class BaseHostWeigher(SchedulerPlugin):
    """Base class of all weighers.

    ``minval`` and ``maxval`` are the ends of the scale. None is the smallest or greatest weight.
    """

    minval: float | None = None
    maxval: float | None = None

    #: The multiplier: an option of ``[filter_scheduler]`` and its help, or group and name of an
    #: option that is declared elsewhere.
    weight_option: ClassVar[cfg.Opt | None] = None
    weight_help: ClassVar[str | None] = None
    multiplier_option: ClassVar[tuple[str, str] | None] = None

    #: Metadata keys of aggregates that override the multiplier. Empty: the option's name, with and
    #: without its group.
    multiplier_keys: ClassVar[tuple[str, ...]] = ()

    #: Whether a large weight is bad: the configured multiplier is then negated.
    is_penalty: ClassVar[bool] = False

    #: Whether a host's weight depends on that host alone: only changed hosts are then weighed again
    #: for the second and later instances of a request.
    by_host: bool = False

    #: Whether the weigher reads ``spec_obj.cloud_flavors``, the flavors of the cloud.
    reads_flavors: ClassVar[bool] = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        # Reset inherited declarations that may be wrong for an overridden weighing method.
        own = vars(cls)
        if option := own.get("weight_option"):
            option.help = option.help or cls.weight_help
            cls.multiplier_option = ("filter_scheduler", option.dest)
            cls.options = (("filter_scheduler", option), *cls.options)
        super().__init_subclass__(**arguments)
        if own.keys() & {"_weigh_object", "weigh_objects", "weigh_hosts"}:
            if "concerns" not in own:
                cls.concerns = BaseHostWeigher.concerns  # type: ignore[method-assign]
            if "by_host" not in own:
                cls.by_host = False

    @classmethod
    def is_enabled_by(cls, settings: Settings) -> bool:  # noqa: ARG003 - for overrides
        """Return whether to run, and to report, the weigher under these settings."""
        return True

    def is_requested(self, spec_obj: RequestSpec, aggregates: Collection[HostAggregate]) -> bool:
        """Return whether the request or an aggregate states a preference.

        If not, the weigher does not run, and reports do not list it.
        """
        return True

    def concerns(self, spec_obj: RequestSpec) -> bool:
        """Return whether hosts can differ in weight for this request.

        If not, every host weighs 0. A class that overrides only a weighing method always runs.
        """
        return True

    def weight_multiplier(self, host_state: HostState) -> float:
        """Return the multiplier for this host, negative to reverse the order."""
        return self.multipliers((host_state,))[0]

    @property
    def configured_multiplier(self) -> float:
        """Return the multiplier for hosts whose aggregates do not override it."""
        return 1.0 if self.multiplier_option is None else self._with_sign(self._configured)

    def multipliers(
        self, hosts: Hosts, aggregates: Collection[HostAggregate] | None = None
    ) -> list[float]:
        """Return the :meth:`weight_multiplier` of each host.

        Each aggregate is read once. ``aggregates`` are all aggregates of the hosts, if collected.
        """
        overrides: dict[int, float] = {}
        if self.multiplier_option is not None:
            for aggregate in collect_aggregates(hosts) if aggregates is None else aggregates:
                if (value := self._find_aggregate_multiplier(aggregate)) is not None:
                    overrides[aggregate.id] = value
        if not overrides:
            return [self.configured_multiplier] * len(hosts)
        configured = self._configured
        values_by_host = (
            [overrides[aggregate.id] for aggregate in host.aggregates if aggregate.id in overrides]
            for host in hosts
        )
        return [self._with_sign(min(values, default=configured)) for values in values_by_host]

    def _with_sign(self, multiplier: float) -> float:
        """Negate the multiplier of a penalty, without a negative zero."""
        return (-multiplier or 0.0) if self.is_penalty else multiplier

    @property
    def _configured(self) -> float:
        group, name = self.multiplier_option or ("", "")
        return float(getattr(getattr(self.settings, group), name))

    def _find_aggregate_multiplier(self, aggregate: HostAggregate) -> float | None:
        """Return the multiplier in an aggregate's metadata, or None."""
        numbers = []
        group, name = self.multiplier_option or ("", "")
        for key in self.multiplier_keys or (name, f"{group}.{name}"):
            if (text := aggregate.metadata.get(key)) is None:
                continue
            try:
                number = float(text)
            except ValueError:
                number = nan
            if isfinite(number):
                numbers.append(number)
            else:
                LOG.warning("aggregate %s: %s is not a number: %r", aggregate.name, key, text)
        return min(numbers, default=None)

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return the weight of each host, on any scale."""
        raise NotImplementedError(f"{type(self).__name__} implements no _weigh_object()")

    def weights(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return the weight of each host, limited to ``minval`` and ``maxval``."""
        return self._clamp_weights(self.weigh_hosts(hosts, spec_obj))

    def describe(self, amounts: Any) -> str:
        """Describe a host's amounts in :class:`ExplainedWeights` for explanations."""
        raise NotImplementedError

    # nova's names, which third-party weighers override or call

    def _weigh_object(self, host_state: HostState, weight_properties: RequestSpec) -> float:
        return self.weigh_hosts((host_state,), weight_properties)[0]

    def weigh_objects(
        self, weighed_obj_list: Sequence[Weighed], weight_properties: RequestSpec
    ) -> Weights:
        """Return the weight of each host within the scale, as in nova."""
        hosts = [item.obj for item in weighed_obj_list]
        if type(self)._weigh_object is BaseHostWeigher._weigh_object:  # noqa: SLF001 - own class
            return self.weights(hosts, weight_properties)
        return self._clamp_weights([self._weigh_object(host, weight_properties) for host in hosts])

    def _clamp_weights(self, weights: Weights) -> Weights:
        low, high = self.minval, self.maxval
        if low is not None:
            weights = [max(weight, low) for weight in weights]
        if high is not None:
            weights = [min(weight, high) for weight in weights]
        return weights


def normalize(
    weights: Weights, minval: float | None = None, maxval: float | None = None
) -> list[float]:
    """Return the weights on a scale from 0 (``minval``) to 1 (``maxval``).

    An end that is None is that of the weights. If both ends are equal, every weight is 0.
    """
    if not weights:
        return []
    low = min(weights) if minval is None else minval
    high = max(weights) if maxval is None else maxval
    span = high - low
    if span == 0:
        return [0.0] * len(weights)
    return [(weight - low) / span for weight in weights]


def collect_aggregates(hosts: Iterable[HostState]) -> Collection[HostAggregate]:
    """Return the distinct aggregates of the hosts."""
    return {each.id: each for host in hosts for each in host.aggregates}.values()


def all_weighers() -> list[type[BaseHostWeigher]]:
    """Return the shipped weigher classes."""
    return list_classes(sys.modules[__name__], BaseHostWeigher)


@dataclass(frozen=True, slots=True)
class WeightColumn:
    """The weights that a weigher gives the hosts, in input order.

    ``ends`` are the ends of its scale, or None if the weigher did not run. ``describe`` formats the
    ``amounts`` of a host. ``missing`` are names that the shim lacks.
    """

    name: str
    raw: Sequence[float]
    normalized: Sequence[float]
    multipliers: Sequence[float]
    ends: Ends | None = None
    amounts: Sequence[Any] = ()
    describe: Callable[[Any], str] | None = None
    missing: tuple[str, ...] = ()
    #: The amounts that a weigher written for nova has added to the weights by assignment.
    added: Sequence[float] = ()
    #: The field of the report that the weigher reads, if it is unknown for any host.
    unexamined: str | None = None

    @property
    def changes_weights(self) -> bool:
        """Return whether the weigher changes the weight of any host."""
        return bool(self.added) or (any(self.normalized) and any(self.multipliers))

    @property
    def shared_report(self) -> WeightReport | None:
        """Return the report that all hosts share, or None if there is none."""
        numbers = (self.raw, self.normalized, self.multipliers)
        if self.amounts or not all(
            row and row[0] == row[-1] and len(set(row)) == 1 for row in numbers
        ):
            return None
        return self.report_at(0)

    def build_reports(self) -> list[WeightReport]:
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
        if self.added and (amount := self.added[position]):
            return WeightReport(*numbers, _ADDED.format(amount), amount)
        if not self.amounts or self.describe is None:
            return WeightReport(*numbers)
        return WeightReport(*numbers, self.describe(self.amounts[position]))

    def select_positions(self, places: Sequence[int]) -> Self:
        """Return the column with only the hosts at these positions."""
        return replace(
            self,
            raw=[self.raw[position] for position in places],
            normalized=[self.normalized[position] for position in places],
            multipliers=[self.multipliers[position] for position in places],
            amounts=[self.amounts[position] for position in places] if self.amounts else (),
            added=[self.added[position] for position in places] if self.added else (),
        )


@dataclass(frozen=True, slots=True)
class WeighRun:
    """Result of weighing: hosts, best first, and the weights of each weigher.

    ``order`` has the input positions of ``hosts``. Equal weights are ordered by host, then node.
    The request uses ``weighers``.
    """

    hosts: list[WeighedHost]
    reports: tuple[WeigherReport, ...]
    columns: tuple[WeightColumn, ...]
    order: list[int]
    weighers: Sequence[BaseHostWeigher] = ()

    @classmethod
    def from_columns(
        cls,
        weighed: Sequence[WeighedHost],
        columns: Sequence[WeightColumn],
        order: list[int] | None = None,
    ) -> Self:
        """Sort the hosts best first, unless ``order`` has their sorted positions."""
        if order is None:
            order = _sort_best_first(weighed, _sort_by_name(weighed))
        return cls([weighed[position] for position in order], (), tuple(columns), order)

    def build_host_reports(self) -> tuple[HostReport, ...]:
        """Return a report with all weights on each host, best first."""
        if not self.hosts:
            return ()
        # Most weighers give all hosts the same weight, so their reports are shared.
        same = {column.name: column.shared_report for column in self.columns}
        individual = [
            (column.name, column.build_reports())
            for column in self.columns
            if same[column.name] is None
        ]
        reports = []
        for weighed, position in zip(self.hosts, self.order, strict=True):
            weights = cast("dict[str, WeightReport]", same.copy())
            for name, host_reports in individual:
                weights[name] = host_reports[position]
            host = weighed.obj
            reports.append(HostReport(host.host, host.nodename, weighed.weight, weights))
        return tuple(reports)

    def build_reports(self, hosts: Sequence[WeighedHost]) -> tuple[HostReport, ...]:
        """Build reports on some hosts of the run, in the order of ``hosts``."""
        ids = {id(weighed.obj) for weighed in hosts}
        # The position of each host state in the columns.
        positions = {
            id(weighed.obj): position
            for weighed, position in zip(self.hosts, self.order, strict=True)
            if id(weighed.obj) in ids
        }

        def build_report(weighed: WeighedHost) -> HostReport:
            host, position = weighed.obj, positions[id(weighed.obj)]
            weights = {column.name: column.report_at(position) for column in self.columns}
            return HostReport(host.host, host.nodename, weighed.weight, weights)

        return tuple(map(build_report, hosts))


def run_weighers(
    weighers: Sequence[BaseHostWeigher], hosts: Sequence[HostState], spec: RequestSpec
) -> WeighRun:
    """Weigh the hosts and return them best first.

    A single host is not weighed, as in nova. Raises :class:`PluginFailed` if a weigher fails.
    """
    if len(hosts) < 2:
        return WeighRun.from_columns([WeighedHost(host) for host in hosts], ())
    aggregates = collect_aggregates(hosts)
    requested: list[BaseHostWeigher] = []
    columns: list[WeightColumn] = []
    for plugin in weighers:
        with PluginCall(plugin):
            is_requested = plugin.is_requested(spec, aggregates)
        if is_requested:
            requested.append(plugin)
            columns.append(_weigh(plugin, hosts, aggregates, spec, columns))
    weights = sum_weights(columns, len(hosts))
    run = WeighRun.from_columns(list(map(WeighedHost, hosts, weights)), columns)
    best = run.order[0]
    reports = []
    for plugin, column in zip(requested, columns, strict=True):
        # Without an option for the multiplier, the multiplier of the best host is reported.
        by_option = plugin.multiplier_option is not None
        multiplier = plugin.configured_multiplier if by_option else column.multipliers[best]
        reports.append(WeigherReport(column.name, multiplier, column.missing, column.unexamined))
    return replace(run, reports=tuple(reports), weighers=requested)


def sum_weights(columns: Iterable[WeightColumn], number: int) -> list[float]:
    """Sum the weights of each of ``number`` hosts over all columns."""
    weights = [0.0] * number
    for column in columns:
        if column.changes_weights:
            added = column.added or [0.0] * number
            rows = zip(weights, column.multipliers, column.normalized, added, strict=True)
            weights = [weight + factor * share + more for weight, factor, share, more in rows]
    return weights


def _weigh(
    plugin: BaseHostWeigher,
    hosts: Sequence[HostState],
    aggregates: Collection[HostAggregate],
    spec: RequestSpec,
    earlier: Sequence[WeightColumn],
) -> WeightColumn:
    name, weigher = type(plugin).__name__, wrap_weigher(plugin)
    with PluginCall(plugin) as call:
        multipliers = _to_finite(weigher.multipliers(hosts, aggregates))
        if not plugin.concerns(spec):
            return _build_neutral_column(name, multipliers)
        # Some weighers return other number types, which cannot be serialized.
        try:
            if isinstance(weigher, NovaWeigher):
                weights, added = weigher.weigh(hosts, spec, sum_weights(earlier, len(hosts)))
            else:
                weights, added = weigher.weights(hosts, spec), []
        except NotExamined as unknown:  # only examined hosts can be compared
            return replace(_build_neutral_column(name, multipliers), unexamined=unknown.field)
        raw = _to_finite(weights)
        if len(raw) != len(hosts):
            raise ValueError(f"{len(raw)} weights for {len(hosts)} hosts")
        ends = _ends(plugin, raw)
        shares = normalize(raw, *ends)
        column = WeightColumn(name, raw, shares, multipliers, ends, missing=call.missing_names)
        if isinstance(weights, ExplainedWeights):
            return replace(column, amounts=weights.amounts, describe=plugin.describe)
        if any(added):
            added = _to_finite(added)
            return replace(column, added=added, amounts=added)
        return column


def _build_neutral_column(name: str, multipliers: Sequence[float]) -> WeightColumn:
    zeros = [0.0] * len(multipliers)
    return WeightColumn(name, zeros, zeros, multipliers)


def _to_finite(values: Iterable[float]) -> list[float]:
    """Convert weights to finite floats, or raise :class:`ValueError`."""
    numbers = list(map(float, values))
    if not isfinite(sum(numbers)):  # quick check: the sum is usually finite
        for number in numbers:
            if not isfinite(number):
                raise ValueError(f"a weight or multiplier must be finite, not {number}")
    return numbers


def _ends(plugin: BaseHostWeigher, raw: Sequence[float]) -> Ends:
    low = min(raw) if plugin.minval is None else plugin.minval
    return low, max(raw) if plugin.maxval is None else plugin.maxval


def _sort_best_first(weighed: Sequence[WeighedHost], positions_by_name: Sequence[int]) -> list[int]:
    """Sort the positions of hosts by weight, best first, then by name."""
    # Sorting is stable: hosts with equal weights stay in the order of their names.
    negated = [-host.weight for host in weighed]
    return sorted(positions_by_name, key=negated.__getitem__)


def _sort_by_name(weighed: Sequence[WeighedHost]) -> list[int]:
    names = [(host.obj.host, host.obj.nodename) for host in weighed]
    return sorted(range(len(weighed)), key=names.__getitem__)


class IncrementalWeighing:
    """Weights of the hosts of a request, updated for each instance in turn."""

    def __init__(self, weighers: Sequence[BaseHostWeigher]) -> None:
        self._weighers = weighers
        # The weighers that the request uses, in the order of the columns.
        self._requested: Sequence[BaseHostWeigher] = ()
        self._weighed: list[WeighedHost] = []
        self._columns: list[WeightColumn] = []
        # The positions sorted by name and best first, the rank of each position by name, and the
        # positions of each host's nodes.
        self._by_name: list[int] = []
        self._order: list[int] = []
        self._ranks: list[int] = []
        self._positions: dict[str, list[int]] = {}
        self._changed: set[str] = set()

    def record_change(self, host: HostState) -> None:
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
            self._columns = [column.select_positions(places) for column in self._columns]
            self._by_name = []
        if not self._by_name:
            self._index_hosts()
        places = sorted(at for name in self._changed for at in self._positions.get(name, ()))
        changed = {at: hosts[at] for at in places}
        self._changed.clear()
        old_columns = self._columns
        self._columns = []
        for plugin, old in zip(self._requested, old_columns, strict=True):
            column = old  # all hosts are still equal for this request
            if _depends_on_all_hosts(plugin, old, spec):
                aggregates = collect_aggregates(hosts)
                column = _weigh(plugin, hosts, aggregates, spec, self._columns)
            elif old.ends is not None:
                column = _weigh_again(plugin, old, spec, changed, same_hosts=same_hosts)
            self._columns.append(column)
        is_rescaled = any(
            not wrap_weigher(each).by_host or column.ends != old.ends
            for each, column, old in zip(self._requested, self._columns, old_columns, strict=True)
            if column is not old
        )
        # Replace the objects, because earlier instances may still refer to the old objects.
        if is_rescaled:
            self._weighed = list(map(WeighedHost, hosts, sum_weights(self._columns, len(hosts))))
            self._order = _sort_best_first(self._weighed, self._by_name)
        else:
            # A new list, because the previous instance may still refer to the old list.
            self._order = [position for position in self._order if position not in changed]
            effective = [column for column in self._columns if column.changes_weights]
            for position, host in changed.items():
                weight = 0.0
                for column in effective:  # as sum_weights() does
                    weight += column.multipliers[position] * column.normalized[position]
                self._weighed[position] = WeighedHost(host, weight)
            for position in changed:
                insort(
                    self._order,
                    position,
                    key=lambda at: (-self._weighed[at].weight, self._ranks[at]),
                )
        return WeighRun.from_columns(self._weighed, self._columns, self._order)

    def _index_hosts(self) -> None:
        """Index positions by host, and sort them by name and by weight."""
        self._by_name = _sort_by_name(self._weighed)
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


def _depends_on_all_hosts(plugin: BaseHostWeigher, column: WeightColumn, spec: RequestSpec) -> bool:
    if not wrap_weigher(plugin).by_host:
        return True
    if column.ends is not None:
        return False
    with PluginCall(plugin):  # the first instance may turn an empty group into a group with members
        return plugin.concerns(spec)


def _weigh_again(
    plugin: BaseHostWeigher,
    column: WeightColumn,
    spec: RequestSpec,
    changed: Mapping[int, HostState],
    *,
    same_hosts: bool,
) -> WeightColumn:
    """Weigh only the hosts at the positions in ``changed`` again.

    If hosts were removed, the ends of the scale may have changed too.
    """
    ends = column.ends
    with PluginCall(plugin):
        weights = plugin.weights(list(changed.values()), spec)
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


def wrap_weigher(plugin: BaseHostWeigher) -> "BaseHostWeigher | NovaWeigher":
    """Return a weigher, wrapped if it overrides a method of nova's base class."""
    names = ("_weigh_object", "weigh_objects", "weight_multiplier", "_weight_multiplier")
    return NovaWeigher(plugin) if has_overrides(type(plugin), BaseHostWeigher, names) else plugin


class NovaWeigher:
    """Wrapper of a nova weigher, which may compare all hosts each time."""

    by_host = False

    def __init__(self, plugin: BaseHostWeigher) -> None:
        self._plugin = plugin

    def weigh(
        self, hosts: Sequence[HostState], spec_obj: RequestSpec, before: Sequence[float]
    ) -> tuple[Weights, Weights]:
        """Return the weights, and the amounts that the plugin assigns.

        It may change the weights of the hosts so far, ``before``, and nova counts the change.
        """
        weighed = list(map(WeighedHost, hosts, before))
        weights = self._plugin.weigh_objects(weighed, spec_obj)
        if not isinstance(weights, list):  # a generator may change the objects
            weights = list(weights)
        pairs = zip(weighed, before, strict=True)
        added = [item.weight - weight if item.weight != weight else 0.0 for item, weight in pairs]
        return weights, added

    def multipliers(
        self, hosts: Sequence[HostState], aggregates: Collection[HostAggregate]
    ) -> Sequence[float]:
        """Return the multiplier of each host.

        In plugins written for releases before Stein, all hosts have the same multiplier.
        """
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
