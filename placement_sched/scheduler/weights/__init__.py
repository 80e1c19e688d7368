"""Weighers: each says how good a host is that may take a request.

    weight = multiplier_1 * normalized_1 + multiplier_2 * normalized_2 + ...

The heaviest host wins. A weigher has nova's interface: write ``_weigh_object``, or
``weigh_objects`` where all hosts must be seen to judge one. Or, better, write ``column``, which
weighs all hosts in one go.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from inspect import isfunction, signature
from math import isfinite
from typing import Any, ClassVar, Protocol

from oslo_log import log

from placement_sched.config import Settings
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.folder import classes_in
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import SchedulerPlugin

LOG = log.getLogger(__name__)


@dataclass(slots=True)
class WeighedHost:
    """A host and its weight; ``obj`` is the host state, as nova's weighed objects name it."""

    obj: HostState
    weight: float = 0.0


class Weighed(Protocol):
    """What ``weigh_objects`` looks at."""

    obj: HostState


class BaseHostWeigher(SchedulerPlugin):
    """The base of all weighers.

    ``minval`` and ``maxval`` fix the ends of the scale; where they are None, the least and the
    greatest weight among the hosts are its ends.
    """

    minval: float | None = None
    maxval: float | None = None

    #: Group and name of the option that says how much this weigher counts.
    multiplier_option: ClassVar[tuple[str, str] | None] = None

    #: The keys under which metadata of a host's aggregates override it for that host; where there
    #: are none, the option's name, with and without its group.
    multiplier_keys: ClassVar[tuple[str, ...]] = ()

    #: Whether a weight tells what is bad: then what is configured counts against the host.
    is_penalty: ClassVar[bool] = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Let weighers of before Stein, whose multiplier is of no host, be asked as others are."""
        super().__init_subclass__(**arguments)
        for name in ("_weight_multiplier", "weight_multiplier"):
            older = vars(cls).get(name)
            if isfunction(older) and len(signature(older).parameters) == 1:
                cls.weight_multiplier = _of_any_host(older)  # type: ignore[method-assign]

    @classmethod
    def is_wanted(cls, settings: Settings) -> bool:  # noqa: ARG003 - for those that override it
        """Return whether it runs under these settings: one that is switched off is not told of."""
        return True

    def concerns(self, spec_obj: RequestSpec) -> bool:
        """Return whether this weigher can tell hosts apart for this request.

        Where it cannot, it is not asked, and every host weighs 0. A class that overrides one of the
        weighing methods and not this one is always asked.
        """
        return True

    def weight_multiplier(self, host_state: HostState) -> float:
        """Return how much this weigher counts for this host; negative turns the order round."""
        if self.multiplier_option is None:
            return 1.0
        found = map(self._aggregate_multiplier, host_state.aggregates)
        return self._counting(_smallest(found, self._configured))

    @property
    def configured_multiplier(self) -> float:
        """Return how much this weigher counts for hosts whose aggregates say nothing else."""
        return 1.0 if self.multiplier_option is None else self._counting(self._configured)

    def multipliers(
        self, hosts: Sequence[HostState], aggregates: Collection[HostAggregate] | None = None
    ) -> list[float]:
        """Return :meth:`weight_multiplier` of each host, reading each aggregate only once.

        ``aggregates`` are those of all the hosts, where the caller has them ready.
        """
        if type(self).weight_multiplier is not BaseHostWeigher.weight_multiplier:
            return [self.weight_multiplier(host) for host in hosts]
        if self.multiplier_option is not None:
            every = aggregates_of(hosts) if aggregates is None else aggregates
            told = {each.id: self._aggregate_multiplier(each) for each in every}
            if any(value is not None for value in told.values()):
                return self._multipliers_by(told, hosts)
        return [self.configured_multiplier] * len(hosts)

    def _multipliers_by(
        self, told: dict[int, float | None], hosts: Sequence[HostState]
    ) -> list[float]:
        """Return the multiplier of each host, by what each aggregate tells."""
        configured = self._configured
        return [
            self._counting(_smallest((told[each.id] for each in host.aggregates), configured))
            for host in hosts
        ]

    def _counting(self, multiplier: float) -> float:
        """Return a multiplier as it counts; a penalty of nothing is nothing, not minus nothing."""
        return (-multiplier or 0.0) if self.is_penalty else multiplier

    @property
    def _configured(self) -> float:
        """Return the multiplier that is configured, as it is written."""
        group, name = self.multiplier_option or ("", "")
        return float(getattr(getattr(self.settings, group), name))

    def _aggregate_multiplier(self, aggregate: HostAggregate) -> float | None:
        """Return what the aggregate's metadata say; what is not a number is logged and ignored."""
        found = []
        for key in self._keys:
            text = aggregate.metadata.get(key)
            if text is None:
                continue
            number = _number(text)
            if number is None:
                LOG.warning("aggregate %s: %s is no number: %r", aggregate.name, key, text)
            else:
                found.append(number)
        return min(found, default=None)

    @property
    def _keys(self) -> tuple[str, ...]:
        group, name = self.multiplier_option or ("", "")
        return self.multiplier_keys or (name, f"{group}.{name}")

    def _weigh_object(self, host_state: HostState, weight_properties: RequestSpec) -> float:
        """Return how good this host is, on a scale of this weigher's own."""
        return self.column((host_state,), weight_properties)[0]

    def column(self, hosts: Sequence[HostState], spec_obj: RequestSpec) -> Sequence[float]:
        """Return how good each host is, as ``_weigh_object`` would say of one after the other.

        Not asked of a class that has a ``_weigh_object`` or ``weigh_objects`` of its own.
        """
        raise NotImplementedError(f"{type(self).__name__} weighs nothing")

    def weigh_objects(
        self, weighed_obj_list: Sequence[Weighed], weight_properties: RequestSpec
    ) -> Sequence[float]:
        """Return how good each host is, within ``minval`` and ``maxval`` where they are fixed."""
        hosts = [item.obj for item in weighed_obj_list]
        if type(self)._weigh_object is BaseHostWeigher._weigh_object:  # noqa: SLF001 - own class
            weights = self.column(hosts, weight_properties)
        else:
            weigh = self._weigh_object
            weights = [weigh(host, weight_properties) for host in hosts]
        if self.minval is None and self.maxval is None:
            return weights
        return [self.clamp(weight) for weight in weights]

    def clamp(self, weight: float) -> float:
        """Return the weight, brought within ``minval`` and ``maxval`` where they are fixed."""
        if self.minval is not None and weight < self.minval:
            return self.minval
        if self.maxval is not None and weight > self.maxval:
            return self.maxval
        return weight


def _of_any_host(older: Callable[[Any], float]) -> Any:
    def weight_multiplier(weigher: Any, host_state: HostState) -> float:  # noqa: ARG001 - see above
        return older(weigher)

    return weight_multiplier


def normalize(
    weights: Sequence[float], minval: float | None = None, maxval: float | None = None
) -> list[float]:
    """Return the weights on a scale from 0 (``minval``) to 1 (``maxval``).

    An end that is None is the least or greatest weight. Where both ends are the same, every
    weight is 0, so that a weigher without preference does not count.
    """
    if not weights:
        return []
    low = min(weights) if minval is None else minval
    high = max(weights) if maxval is None else maxval
    span = high - low
    if span == 0:
        return [0.0] * len(weights)
    return [(weight - low) / span for weight in weights]


def aggregates_of(hosts: Iterable[HostState]) -> Collection[HostAggregate]:
    """Return each aggregate that any of the hosts is in, once."""
    return {each.id: each for host in hosts for each in host.aggregates}.values()


def _number(text: str) -> float | None:
    """Return the text as a number that can be calculated with, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _smallest(values: Iterable[float | None], default: float) -> float:
    return min((value for value in values if value is not None), default=default)


def all_weighers() -> list[type[BaseHostWeigher]]:
    """Return the weigher classes that are shipped."""
    return classes_in(sys.modules[__name__], BaseHostWeigher)
