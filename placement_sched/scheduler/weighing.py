"""Weighing for the instances of one request, one after the other.

The first instance has all hosts weighed. For a later one only the hosts are asked for that have
changed since, by the very same weighers, and the others keep what was said of them. Where the
changes move an end of a weigher's scale, all hosts get their shares of it anew: so the weights are
those that a run for all hosts would give.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.stages import (
    Column,
    WeighRun,
    calling,
    finite,
    has_a_say,
    run_weighers,
    weigh,
)
from placement_sched.scheduler.weights import (
    BaseHostWeigher,
    WeighedHost,
    aggregates_of,
    normalize,
)

#: Weighers of other packages may go by more than the host: they are always asked of all.
_SHIPPED = "placement_sched.scheduler.weights."


#: The ends of a weigher's scale.
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Scale:
    """What a weigher said of some hosts, and the ends of the scale that their shares are of.

    There are none where the weigher did not weigh.
    """

    column: Column
    ends: Ends | None


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was said of some hosts: their weights, and each weigher's column, in their order."""

    weighed: list[WeighedHost]
    scales: list[_Scale]


class Weighing:
    """Weighs the hosts of one request for each of its instances."""

    def __init__(self, weighers: Sequence[BaseHostWeigher]) -> None:
        self._weighers = weighers
        self._kept: _Kept | None = None
        self._changed: set[str] = set()

    def note(self, host: HostState) -> None:
        """Note that an instance was placed on a host: nodes of one host share their instances."""
        self._changed.add(host.host)

    def weigh(self, hosts: Sequence[HostState], spec: RequestSpec) -> WeighRun:
        """Return the hosts best first, as :func:`run_weighers` does.

        They are those of the call before, or some of them in the same order.
        """
        # The members of a server group, which each instance joins, may tell on any host.
        if self._kept is None or len(hosts) < 2 or spec.instance_group is not None:
            return self._all(hosts, spec)
        kept = _only(self._kept, hosts)
        changed = [at for at, host in enumerate(hosts) if host.host in self._changed]
        self._changed.clear()
        anew = [
            _anew(plugin, scale, hosts, spec, changed)
            for plugin, scale in zip(self._weighers, kept.scales, strict=True)
        ]
        columns = [scale.column for scale, _ in anew]
        moved = any(all_of_them for _, all_of_them in anew)
        weighed = list(kept.weighed)
        counting = [column for column in columns if column.counts]
        for at in range(len(hosts)) if moved else changed:
            weight = 0.0
            for column in counting:
                weight += column.multipliers[at] * column.normalized[at]
            # A new one: the old one may be what an earlier instance was given.
            weighed[at] = WeighedHost(hosts[at], weight)
        self._kept = _Kept(weighed, [scale for scale, _ in anew])
        order = sorted(
            range(len(weighed)),
            key=[(-one.weight, one.obj.host, one.obj.nodename) for one in weighed].__getitem__,
        )
        return WeighRun([weighed[at] for at in order], (), tuple(columns), order)

    def _all(self, hosts: Sequence[HostState], spec: RequestSpec) -> WeighRun:
        run = run_weighers(self._weighers, hosts, spec)
        self._changed.clear()
        weighed = [run.hosts[0]] * len(hosts) if hosts else []
        for one, at in zip(run.hosts, run.order, strict=True):
            weighed[at] = one
        # A single host was not weighed, so that nothing can be kept of it.
        several = zip(self._weighers, run.columns, strict=True) if len(hosts) > 1 else ()
        scales = [_scale(plugin, column, spec) for plugin, column in several]
        self._kept = _Kept(weighed, scales) if len(hosts) > 1 else None
        return run


def _scale(plugin: BaseHostWeigher, column: Column, spec: RequestSpec) -> _Scale:
    with calling(plugin):
        weighs = not has_a_say(type(plugin)) or plugin.concerns(spec)
    return _Scale(column, _ends(plugin, column.raw) if weighs else None)


def _only(kept: _Kept, hosts: Sequence[HostState]) -> _Kept:
    """Return what was said of these hosts, which are some of those kept."""
    if len(hosts) == len(kept.weighed):
        return kept
    left = {id(host) for host in hosts}
    places = [at for at, one in enumerate(kept.weighed) if id(one.obj) in left]
    return _Kept(
        [kept.weighed[at] for at in places],
        [
            _Scale(
                replace(
                    column,
                    raw=[column.raw[at] for at in places],
                    normalized=[column.normalized[at] for at in places],
                    multipliers=[column.multipliers[at] for at in places],
                ),
                scale.ends,
            )
            for scale in kept.scales
            for column in (scale.column,)
        ],
    )


def _anew(
    plugin: BaseHostWeigher,
    scale: _Scale,
    hosts: Sequence[HostState],
    spec: RequestSpec,
    changed: Collection[int],
) -> tuple[_Scale, bool]:
    """Return what a weigher says of the hosts now, and whether all shares may be others."""
    column, ends = scale.column, scale.ends
    kind = type(plugin)
    alone = kind.__module__.startswith(_SHIPPED) and (
        kind.weigh_objects is BaseHostWeigher.weigh_objects
    )
    if not alone:
        weighed = [WeighedHost(host) for host in hosts]
        return _scale(plugin, weigh(plugin, weighed, aggregates_of(hosts), spec), spec), True
    if ends is None:  # it cannot tell hosts apart for this request
        return scale, False
    raw = list(column.raw)
    with calling(plugin):
        told = finite(plugin.weigh_objects([WeighedHost(hosts[at]) for at in changed], spec))
    for at, weight in zip(changed, told, strict=True):
        raw[at] = weight
    new_ends = _ends(plugin, raw)
    if new_ends != ends:
        normalized = normalize(raw, plugin.minval, plugin.maxval)
        return _Scale(replace(column, raw=raw, normalized=normalized), new_ends), True
    shares = list(column.normalized)
    for at in changed:
        shares[at] = normalize([raw[at]], *ends)[0]
    return _Scale(replace(column, raw=raw, normalized=shares), ends), False


def _ends(plugin: BaseHostWeigher, raw: Sequence[float]) -> Ends:
    """Return the ends of a weigher's scale among hosts."""
    low = min(raw) if plugin.minval is None else plugin.minval
    return low, max(raw) if plugin.maxval is None else plugin.maxval
