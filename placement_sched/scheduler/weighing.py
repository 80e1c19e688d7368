"""Weighing for the instances of one request, one after the other.

The first instance has all hosts weighed. For a later one only the hosts are asked for that have
changed since, by the very same weighers, and the others keep their weights. Where the changes move
an end of a weigher's scale, all hosts get their shares of it again: so the weights are those that
a run for all hosts would give.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from math import isfinite
from typing import Any, Self, cast

from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.explanation import HostReport, WeigherReport, WeightReport
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import calling, overrides
from placement_sched.scheduler.weights import BaseHostWeigher, WeighedHost, aggregates_of, normalize

#: The ends of a weigher's scale.
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class WeightColumn:
    """The weights that one weigher gives the hosts, in the order they came.

    ``ends`` are those of its scale; None where it was not asked, since all hosts are
    equal to it for the request.
    """

    name: str
    raw: Sequence[float]
    normalized: Sequence[float]
    multipliers: Sequence[float]
    ends: Ends | None = None

    @property
    def counts(self) -> bool:
        """Return whether it adds anything to the weight of any host."""
        return any(self.normalized) and any(self.multipliers)

    @property
    def same(self) -> WeightReport | None:
        """Return its report on every host, where there are hosts and it is one for all."""
        numbers = (self.raw, self.normalized, self.multipliers)
        if not all(some and some[0] == some[-1] and len(set(some)) == 1 for some in numbers):
            return None
        return WeightReport(*(some[0] for some in numbers))

    def reports(self) -> list[WeightReport]:
        """Return its report on each host; hosts of the same weights share one."""
        reports: dict[tuple[float, ...], WeightReport] = {}
        return [
            reports.get(one) or reports.setdefault(one, WeightReport(*one))
            for one in zip(self.raw, self.normalized, self.multipliers, strict=True)
        ]

    def at(self, places: Sequence[int]) -> Self:
        """Return the weights of the hosts at these places."""
        return replace(
            self,
            raw=[self.raw[at] for at in places],
            normalized=[self.normalized[at] for at in places],
            multipliers=[self.multipliers[at] for at in places],
        )


@dataclass(frozen=True, slots=True)
class WeighRun:
    """The hosts with their weights, best first, and the weighers that ran.

    ``columns`` are in the order in which the hosts came; ``order`` has their places there. Among
    equal weights it is host then node ascending.
    """

    hosts: list[WeighedHost]
    reports: tuple[WeigherReport, ...]
    columns: tuple[WeightColumn, ...]
    order: list[int]

    @classmethod
    def of(cls, weighed: Sequence[WeighedHost], columns: Sequence[WeightColumn]) -> Self:
        """Return the hosts best first."""
        return cls.in_order(weighed, columns, _best_first(weighed, _by_name(weighed)))

    @classmethod
    def in_order(
        cls, weighed: Sequence[WeighedHost], columns: Sequence[WeightColumn], order: list[int]
    ) -> Self:
        """Return the hosts in the order of these places, which is best first."""
        return cls([weighed[at] for at in order], (), tuple(columns), order)

    def host_reports(self) -> tuple[HostReport, ...]:
        """Return what each weigher gave to each host, best first; made only when asked for."""
        if not self.hosts:
            return ()
        # Most weighers give all hosts the same: what they gave is copied, not put together again.
        same = {column.name: column.same for column in self.columns}
        differing = [
            (column.name, column.reports()) for column in self.columns if same[column.name] is None
        ]
        reports = []
        for weighed, at in zip(self.hosts, self.order, strict=True):
            weights = cast("dict[str, WeightReport]", same.copy())
            for name, of_hosts in differing:
                weights[name] = of_hosts[at]
            host = weighed.obj
            reports.append(HostReport(host.host, host.nodename, weighed.weight, weights))
        return tuple(reports)

    def reports_on(self, hosts: Sequence[WeighedHost]) -> tuple[HostReport, ...]:
        """Return what each weigher gave to a few of the hosts, in the order given."""
        wanted = {id(host.obj) for host in hosts}
        pairs = zip(self.hosts, self.order, strict=True)
        places = {id(one.obj): at for one, at in pairs if id(one.obj) in wanted}
        reports = []
        for weighed in hosts:
            host, at = weighed.obj, places[id(weighed.obj)]
            weights = {
                column.name: WeightReport(
                    column.raw[at], column.normalized[at], column.multipliers[at]
                )
                for column in self.columns
            }
            reports.append(HostReport(host.host, host.nodename, weighed.weight, weights))
        return tuple(reports)


def run_weighers(
    weighers: Sequence[BaseHostWeigher], hosts: Sequence[HostState], spec: RequestSpec
) -> WeighRun:
    """Return the hosts best first, a single one unweighed as in nova; raise PluginFailed."""
    if len(hosts) < 2:
        return WeighRun.of([WeighedHost(host) for host in hosts], ())
    aggregates = aggregates_of(hosts)
    columns = [_weigh(plugin, hosts, aggregates, spec) for plugin in weighers]
    weights = weights_by(columns, len(hosts))
    run = WeighRun.of(list(map(WeighedHost, hosts, weights)), columns)
    best = run.order[0]
    reports = []
    for plugin, column in zip(weighers, columns, strict=True):
        # Where none is configured, that of the best host is shown.
        by_option = plugin.multiplier_option is not None
        multiplier = plugin.configured_multiplier if by_option else column.multipliers[best]
        reports.append(WeigherReport(column.name, multiplier))
    return replace(run, reports=tuple(reports))


def weights_by(columns: Iterable[WeightColumn], number: int) -> list[float]:
    """Return the weights of so many hosts by what each weigher gives them."""
    weights = [0.0] * number
    for column in columns:
        if column.counts:
            shares = zip(weights, column.multipliers, column.normalized, strict=True)
            weights = [weight + multiplier * share for weight, multiplier, share in shares]
    return weights


def weight_at(at: int, columns: Iterable[WeightColumn]) -> float:
    """Return the weight of the host at a place, as :func:`weights_by` has it."""
    weight = 0.0
    for column in columns:
        if column.counts:
            weight += column.multipliers[at] * column.normalized[at]
    return weight


def _weigh(
    plugin: BaseHostWeigher,
    hosts: Sequence[HostState],
    aggregates: Collection[HostAggregate],
    spec: RequestSpec,
) -> WeightColumn:
    """Return the weights of the hosts; ``aggregates`` are those that any of them is in."""
    name, weigher = type(plugin).__name__, weigher_of(plugin)
    with calling(plugin):
        multipliers = _finite(weigher.multipliers(hosts, aggregates))
        if not plugin.concerns(spec):
            nothing = [0.0] * len(hosts)
            return WeightColumn(name, nothing, nothing, multipliers)
        # Some weigh in numbers of other kinds, which no answer could be made of.
        raw = _finite(weigher.weights(hosts, spec))
        if len(raw) != len(hosts):
            raise ValueError(f"{len(raw)} weights for {len(hosts)} hosts")
        ends = _ends(plugin, raw)
        return WeightColumn(name, raw, normalize(raw, *ends), multipliers, ends)


def _finite(given: Iterable[float]) -> list[float]:
    """Return numbers as weights are made of them; raise :class:`ValueError` for any other."""
    numbers = list(map(float, given))
    if not isfinite(sum(numbers)):  # few sums are not finite though all numbers are
        for number in numbers:
            if not isfinite(number):
                raise ValueError(f"a weight or multiplier of {number}")
    return numbers


def _ends(plugin: BaseHostWeigher, raw: Sequence[float]) -> Ends:
    """Return the ends of a weigher's scale among hosts."""
    low = min(raw) if plugin.minval is None else plugin.minval
    return low, max(raw) if plugin.maxval is None else plugin.maxval


def _best_first(weighed: Sequence[WeighedHost], by_name: Sequence[int]) -> list[int]:
    """Return the places of hosts, best first; ``by_name`` has them in the order of their names."""
    # Sorting is stable: hosts of equal weights stay by name.
    less = [-one.weight for one in weighed]
    return sorted(by_name, key=less.__getitem__)


def _by_name(weighed: Sequence[WeighedHost]) -> list[int]:
    """Return the places of hosts in the order of their names."""
    names = [(one.obj.host, one.obj.nodename) for one in weighed]
    return sorted(range(len(weighed)), key=names.__getitem__)


class Weighing:
    """Weighs the hosts of one request for each of its instances."""

    def __init__(self, weighers: Sequence[BaseHostWeigher]) -> None:
        self._weighers = weighers
        self._weighed: list[WeighedHost] = []
        self._columns: list[WeightColumn] = []
        # The places of the hosts by name and best first, the rank of each by name, and the places
        # of the nodes of each host.
        self._by_name: list[int] = []
        self._order: list[int] = []
        self._ranks: list[int] = []
        self._places: dict[str, list[int]] = {}
        self._changed: set[str] = set()

    def note(self, host: HostState) -> None:
        """Note that a host has changed, as by an instance: nodes of one host share theirs."""
        self._changed.add(host.host)

    def weigh(self, hosts: Sequence[HostState], spec: RequestSpec) -> WeighRun:
        """Return the hosts best first: those of the call before, or some of them in that order."""
        if not self._weighed or len(hosts) < 2:
            return self._weigh_all(hosts, spec)
        same_hosts = len(hosts) == len(self._weighed)
        if not same_hosts:  # forget the weights of those that are gone
            left = {id(host) for host in hosts}
            places = [at for at, one in enumerate(self._weighed) if id(one.obj) in left]
            self._weighed = [self._weighed[at] for at in places]
            self._columns = [column.at(places) for column in self._columns]
            self._by_name = []
        if not self._by_name:
            self._find_names()
        places = sorted(at for name in self._changed for at in self._places.get(name, ()))
        changed = {at: hosts[at] for at in places}
        self._changed.clear()
        before = self._columns
        self._columns = [
            _weigh_again(plugin, column, hosts, spec, changed, same_hosts=same_hosts)
            for plugin, column in zip(self._weighers, before, strict=True)
        ]
        moved = any(
            not weigher_of(plugin).by_host or column.ends != earlier.ends
            for plugin, column, earlier in zip(self._weighers, self._columns, before, strict=True)
            if column is not earlier
        )
        # New ones: the old ones may be what earlier instances were given.
        if moved:
            self._weighed = list(map(WeighedHost, hosts, weights_by(self._columns, len(hosts))))
            self._order = _best_first(self._weighed, self._by_name)
        else:
            for at, host in changed.items():
                self._weighed[at] = WeighedHost(host, weight_at(at, self._columns))
            self._put_in_order(changed)
        return WeighRun.in_order(self._weighed, self._columns, self._order)

    def _put_in_order(self, changed: Collection[int]) -> None:
        """Put the hosts at these places where they belong among the others, best first."""

        def key(at: int) -> tuple[float, int]:
            return -self._weighed[at].weight, self._ranks[at]

        # Another list: the old one is what the instance before was given.
        self._order = [at for at in self._order if at not in changed]
        for at in changed:
            insort(self._order, at, key=key)

    def _find_names(self) -> None:
        """Learn where the nodes of each host are, and their order by name and by weight."""
        self._by_name = _by_name(self._weighed)
        self._order = _best_first(self._weighed, self._by_name)
        self._ranks = sorted(range(len(self._by_name)), key=self._by_name.__getitem__)
        self._places = defaultdict(list)
        for at, one in enumerate(self._weighed):
            self._places[one.obj.host].append(at)

    def _weigh_all(self, hosts: Sequence[HostState], spec: RequestSpec) -> WeighRun:
        run = run_weighers(self._weighers, hosts, spec)
        self._changed.clear()
        # A single host was not weighed, so that nothing can be kept of it.
        places = zip(run.order, run.hosts, strict=True) if len(hosts) > 1 else ()
        self._weighed = [one for _, one in sorted(places, key=lambda pair: pair[0])]
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
    """Return the weights of the hosts now that some have changed, which are given by their places.

    Where hosts were dropped since, the ends of the scale may be others, too.
    """
    weigher, ends = weigher_of(plugin), column.ends
    # The first instance makes a server group one with members.
    if not weigher.by_host or (ends is None and _concerned(plugin, spec)):
        return _weigh(plugin, hosts, aggregates_of(hosts), spec)
    if ends is None:  # all hosts are equal to it for this request
        return column
    with calling(plugin):
        again = _finite(weigher.weights(list(changed.values()), spec))
    if same_hosts and again == [column.raw[at] for at in changed]:
        return column
    raw = list(column.raw)
    for at, weight in zip(changed, again, strict=True):
        raw[at] = weight
    new_ends = _ends(plugin, raw)
    if new_ends != ends:
        shares = normalize(raw, *new_ends)
        return WeightColumn(column.name, raw, shares, column.multipliers, new_ends)
    shares = list(column.normalized)
    for at in changed:
        shares[at] = normalize([raw[at]], *ends)[0]
    return WeightColumn(column.name, raw, shares, column.multipliers, ends)


def _concerned(plugin: BaseHostWeigher, spec: RequestSpec) -> bool:
    """Return whether the instances placed before make a difference for a weigher."""
    if not plugin.counts_members:
        return False
    with calling(plugin):
        return plugin.concerns(spec)


def weigher_of(plugin: BaseHostWeigher) -> "BaseHostWeigher | NovaWeigher":
    """Return the weigher, wrapped where it overrides a method of nova's."""
    names = ("_weigh_object", "weigh_objects", "weight_multiplier", "_weight_multiplier")
    return NovaWeigher(plugin) if overrides(plugin, BaseHostWeigher, names) else plugin


class NovaWeigher:
    """A weigher that weighs by ``_weigh_object`` or ``weigh_objects``, or has its own multiplier.

    It may go by more than the host, so that it is asked for all hosts each time.
    """

    by_host = False

    def __init__(self, plugin: BaseHostWeigher) -> None:
        self._plugin = plugin

    def weights(self, hosts: Sequence[HostState], spec_obj: RequestSpec) -> Sequence[float]:
        """Return what ``weigh_objects`` returns, which asks ``_weigh_object`` by default."""
        return self._plugin.weigh_objects([WeighedHost(host) for host in hosts], spec_obj)

    def multipliers(
        self, hosts: Sequence[HostState], aggregates: Collection[HostAggregate]
    ) -> Sequence[float]:
        """Return the multipliers; before Stein a weigher has one, whatever the host."""
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
