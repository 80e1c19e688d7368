"""The stages of a run, each written once for all plugins of its family.

A runner stamps names, counts, times and collects refusals; the plugin only decides. What a plugin
raises becomes :class:`~placement_sched.errors.PluginFailed` naming its class.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from time import perf_counter

from oslo_log import log

from placement_sched import errors
from placement_sched.config.in_effect import in_effect
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.host_report import HostReport, WeightReport
from placement_sched.model.report import (
    FilterReport,
    Rejected,
    RequestFilterReport,
    WeigherReport,
)
from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter, Question
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.outcomes import check_outcome
from placement_sched.scheduler.plugin import SchedulerPlugin, path_of
from placement_sched.scheduler.request_filters import BaseRequestFilter, Outcome, World
from placement_sched.scheduler.strange_code import one_line
from placement_sched.scheduler.weights import (
    BaseHostWeigher,
    WeighedHost,
    aggregates_of,
    normalize,
)

LOG = log.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RequestFilterRun:
    """The narrowed request, what each filter did, and the refusal that ended it, if any."""

    spec: RequestSpec
    reports: tuple[RequestFilterReport, ...]
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class FilterRun:
    """The hosts that passed, in the order they came, and what each filter refused."""

    hosts: list[HostState]
    reports: tuple[FilterReport, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """What one weigher said of all hosts, in the order they came."""

    name: str
    raw: Sequence[float]
    normalized: Sequence[float]
    multipliers: Sequence[float]

    @property
    def counts(self) -> bool:
        """Return whether it adds anything to the weight of any host."""
        return any(self.normalized) and any(self.multipliers)

    def reports(self) -> list[WeightReport]:
        """Return what it said of each host; hosts of which it said the same share one report."""
        told = list(zip(self.raw, self.normalized, self.multipliers, strict=True))
        reports = {one: WeightReport(*one) for one in set(told)}
        return [reports[one] for one in told]


@dataclass(frozen=True, slots=True)
class WeighRun:
    """The hosts with their weights, best first, and the weighers that ran."""

    hosts: list[WeighedHost]
    reports: tuple[WeigherReport, ...]
    columns: tuple[Column, ...]
    order: list[int]

    def host_reports(self) -> tuple[HostReport, ...]:
        """Return what each weigher gave to each host, best first; made only when asked for."""
        columns = [(column.name, column.reports()) for column in self.columns]
        return tuple(
            [
                HostReport(
                    weighed.obj.host,
                    weighed.obj.nodename,
                    weighed.weight,
                    {name: reports[index] for name, reports in columns},
                )
                for weighed, index in zip(self.hosts, self.order, strict=True)
            ]
        )


def check_request(filters: Sequence[BaseHostFilter], spec: RequestSpec) -> None:
    """Raise :class:`~placement_sched.errors.Invalid` where a filter cannot make sense of it."""
    for plugin in filters:
        with calling(plugin):
            plugin.check(spec)


def run_request_filters(
    filters: Sequence[BaseRequestFilter], spec: RequestSpec, world: World
) -> RequestFilterRun:
    """Return the request as all enabled filters narrow it.

    One that refuses it does not keep the others from narrowing: the question is told whole.
    Raises :class:`PluginFailed`, :class:`~placement_sched.errors.Invalid` where the root of a host
    would need a trait and must not have it, and whatever ``world`` raises.
    """
    reports: list[RequestFilterReport] = []
    refusals: list[Refusal] = []
    watched = _WatchedWorld(world)
    for plugin in filters:
        began = perf_counter()
        outcome = _apply(plugin, spec, watched)
        elapsed_ms = (perf_counter() - began) * 1000
        refusal = outcome if isinstance(outcome, Refusal) else None
        reports.append(
            RequestFilterReport(
                name=plugin.name or type(plugin).__name__,
                applied=outcome is not None,
                elapsed_ms=elapsed_ms,
                changes=outcome.changes if isinstance(outcome, Outcome) else {},
                refusal=refusal.reason if refusal else None,
            )
        )
        if refusal:
            refusals.append(refusal)
        if isinstance(outcome, Outcome):
            spec = outcome.spec
            _check_root(spec, reports)
    return RequestFilterRun(spec, tuple(reports), next(iter(refusals), None))


def _check_root(spec: RequestSpec, reports: Sequence[RequestFilterReport]) -> None:
    """Raise :class:`~placement_sched.errors.Invalid` for a root trait both wanted and not."""
    for trait in sorted(spec.root_required & spec.root_forbidden):
        raise errors.Invalid(
            f"trait {trait} of the root provider is required by "
            f"{who_said('root_required', trait, reports)} and forbidden by "
            f"{who_said('root_forbidden', trait, reports)}"
        )


def who_said(way: str, trait: str, reports: Sequence[RequestFilterReport]) -> str:
    """Return which request filter named a trait of the root, or where the request itself did."""
    saying = (one.name for one in reports if trait in one.changes.get(way, ()))
    name = next(saying, None)
    return f"request filter {name}" if name else f"$.request_spec.request_level_params.{way}"


def run_filters(
    filters: Sequence[BaseHostFilter],
    hosts: Sequence[HostState],
    spec: RequestSpec,
    index: int = 0,
) -> FilterRun:
    """Return the hosts that pass all filters that run for the instance of this index.

    Once no host is left, later filters do not run. Raises :class:`PluginFailed`.
    """
    left = list(hosts)
    reports: list[FilterReport] = []
    for plugin in filters:
        if not left:
            break
        with calling(plugin):
            if not plugin.run_filter_for_index(index):
                continue
            passed, rejected = _sift(plugin, left, spec)
        reports.append(
            FilterReport(
                name=type(plugin).__name__,
                before=len(left),
                after=len(passed),
                rejected=tuple(rejected),
            )
        )
        left = passed
    return FilterRun(left, tuple(reports))


def run_weighers(
    weighers: Sequence[BaseHostWeigher], hosts: Sequence[HostState], spec: RequestSpec
) -> WeighRun:
    """Return the hosts best first; among equal weights, host then node ascending.

    As in nova, a single host is not weighed. Raises :class:`PluginFailed`.
    """
    weighed = [WeighedHost(host) for host in hosts]
    aggregates = aggregates_of(hosts)
    columns = [weigh(plugin, weighed, aggregates, spec) for plugin in weighers if len(hosts) > 1]
    for column in columns:
        if not column.counts:
            continue
        for item, multiplier, share in zip(
            weighed, column.multipliers, column.normalized, strict=True
        ):
            item.weight += multiplier * share
    order = sorted(
        range(len(weighed)),
        key=lambda i: (-weighed[i].weight, weighed[i].obj.host, weighed[i].obj.nodename),
    )
    reports = tuple(
        WeigherReport(column.name, _multiplier(plugin, column.multipliers[order[0]]))
        for plugin, column in zip(weighers, columns, strict=False)
    )
    return WeighRun([weighed[i] for i in order], reports, tuple(columns), order)


class _WatchedWorld:
    """The world, remembering what it raised, so that it is not taken for the plugin's fault."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.failure: Exception | None = None

    def host_aggregates(self) -> tuple[HostAggregate, ...]:
        with self._watched():
            return self._world.host_aggregates()

    def provider_aggregates(self, uuids: Collection[str]) -> Mapping[str, frozenset[str]]:
        with self._watched():
            return self._world.provider_aggregates(uuids)

    def all_nodes_have(self, trait: str) -> bool:
        with self._watched():
            return self._world.all_nodes_have(trait)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except Exception as failure:
            self.failure = failure
            raise


@contextmanager
def calling(plugin: SchedulerPlugin, world: _WatchedWorld | None = None) -> Iterator[None]:
    """Run a plugin's code: its settings are in effect, and what it raises names its class."""
    try:
        with in_effect(plugin.settings):
            yield
    except errors.Error:
        raise
    except (Exception, GeneratorExit, SystemExit) as failure:
        if world is not None and failure is world.failure:
            raise
        path = path_of(type(plugin))
        LOG.exception("%s failed", path)
        reason = one_line(f"{type(failure).__name__}: {_words(failure)}").rstrip(": ")
        raise errors.PluginFailed(f"{path} failed: {reason}") from failure


def _words(failure: BaseException) -> str:
    """Return what a failure says, as text that can be sent, whatever it is made of."""
    try:
        return str(failure).encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 - a stranger's, of which anything may come
        return "what it says cannot be told"


def _apply(
    plugin: BaseRequestFilter, spec: RequestSpec, world: _WatchedWorld
) -> Outcome | Refusal | None:
    with calling(plugin, world):
        if not plugin.enabled(plugin.settings):
            return None
        outcome = plugin.apply(spec, world)
        check_outcome(spec, outcome)
        return outcome


def _sift(
    plugin: BaseHostFilter, hosts: list[HostState], spec: RequestSpec
) -> tuple[list[HostState], list[Rejected]]:
    if _only_refuses(type(plugin)):
        return _sift_by_refusal(_question(plugin, spec), hosts)
    result = plugin.filter_all(hosts, spec)
    passed = [] if result is None else list({id(host): host for host in result}.values())
    kept = {id(host) for host in passed}
    if not kept <= {id(host) for host in hosts}:
        raise ValueError("it returned a host that it was not asked about")
    if len(passed) == len(hosts):
        return passed, []
    return passed, [
        Rejected(host.host, host.nodename, _reason(plugin, host, spec))
        for host in hosts
        if id(host) not in kept
    ]


def _only_refuses(kind: type[BaseHostFilter]) -> bool:
    """Return whether a filter says why it refuses, and nothing else decides for it."""
    return (
        (kind.refusal is not BaseHostFilter.refusal or kind.prepares())
        and kind.host_passes is BaseHostFilter.host_passes
        and kind._filter_one is BaseHostFilter._filter_one  # noqa: SLF001 - nova's seam
        and kind.filter_all is BaseHostFilter.filter_all
    )


def _question(plugin: BaseHostFilter, spec: RequestSpec) -> Question | None:
    """Return what to ask of each host, by ``for_request`` unless a child decides by ``refusal``."""
    ways = {"for_request", "refusal"}
    last = next(
        vars(each).keys() & ways for each in type(plugin).__mro__ if vars(each).keys() & ways
    )
    if "for_request" in last:
        return plugin.for_request(spec)
    return lambda host: plugin.refusal(host, spec)


def _sift_by_refusal(
    ask: Question | None, hosts: list[HostState]
) -> tuple[list[HostState], list[Rejected]]:
    if ask is None:
        return hosts, []
    passed: list[HostState] = []
    rejected: list[Rejected] = []
    for host in hosts:
        refusal = ask(host)
        if refusal is None:
            passed.append(host)
        else:
            rejected.append(Rejected(host.host, host.nodename, refusal.reason))
    return passed, rejected


def _reason(plugin: BaseHostFilter, host: HostState, spec: RequestSpec) -> str:
    """Return why a filter that decides in its own way refused a host."""
    refusal = None
    if type(plugin).refusal is not BaseHostFilter.refusal or plugin.prepares():
        refusal = plugin.refusal(host, spec)
    return refusal.reason if refusal else f"refused by {type(plugin).__name__}"


def weigh(
    plugin: BaseHostWeigher,
    weighed: list[WeighedHost],
    aggregates: Collection[HostAggregate],
    spec: RequestSpec,
) -> Column:
    """Return what a weigher says of the hosts; ``aggregates`` are those that any of them is in."""
    with calling(plugin):
        told = plugin.multipliers([item.obj for item in weighed], aggregates)
        multipliers = finite(told)
        if has_a_say(type(plugin)) and not plugin.concerns(spec):
            nothing = [0.0] * len(weighed)
            return Column(type(plugin).__name__, nothing, nothing, multipliers)
        # Some weigh in numbers of other kinds, which no answer could be made of.
        raw = finite(plugin.weigh_objects(weighed, spec))
        if len(raw) != len(weighed):
            raise ValueError(f"{len(raw)} weights for {len(weighed)} hosts")
        normalized = normalize(raw, plugin.minval, plugin.maxval)
        return Column(type(plugin).__name__, raw, normalized, multipliers)


def finite(told: Iterable[float]) -> list[float]:
    """Return numbers as weights are made of them; one that is none would spoil every order."""
    numbers = list(map(float, told))
    if not isfinite(sum(numbers)):  # few sums are not finite though all numbers are
        for number in numbers:
            if not isfinite(number):
                raise ValueError(f"a weight or multiplier of {number}")
    return numbers


def has_a_say(kind: type[BaseHostWeigher]) -> bool:
    """Return whether ``concerns`` speaks of how this class weighs, not of how its parent did."""
    weighing = {"_weigh_object", "weigh_objects", "column"}
    first = next(each for each in kind.__mro__ if vars(each).keys() & {"concerns", *weighing})
    return "concerns" in vars(first)


def _multiplier(plugin: BaseHostWeigher, best: float) -> float:
    """Return the configured multiplier, or that of the best host where none is configured."""
    return best if plugin.multiplier_option is None else plugin.configured_multiplier
