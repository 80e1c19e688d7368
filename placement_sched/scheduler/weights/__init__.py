"""Weighers: each says how good a host is that may take a request.

    weight = multiplier_1 * normalized_1 + multiplier_2 * normalized_2 + ...

The heaviest host wins. A weigher has nova's interface: write ``_weigh_object``, or
``weigh_objects`` where all hosts must be seen to judge one.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, Protocol

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

    #: Group and name of the option that says how much this weigher counts. Metadata of a host's
    #: aggregates under the option's name override it for that host.
    multiplier_option: ClassVar[tuple[str, str] | None] = None

    @classmethod
    def is_wanted(cls, settings: Settings) -> bool:  # noqa: ARG003 - for those that override it
        """Return whether it runs under these settings: one that is switched off is not told of."""
        return True

    def weight_multiplier(self, host_state: HostState) -> float:
        """Return how much this weigher counts for this host; negative turns the order round."""
        if self.multiplier_option is None:
            return 1.0
        return _smallest(
            (self._aggregate_multiplier(aggregate) for aggregate in host_state.aggregates),
            self.configured_multiplier,
        )

    @property
    def configured_multiplier(self) -> float:
        """Return how much this weigher counts for hosts whose aggregates say nothing else."""
        if self.multiplier_option is None:
            return 1.0
        group, name = self.multiplier_option
        return float(getattr(getattr(self.settings, group), name))

    def multipliers(self, hosts: Sequence[HostState]) -> list[float]:
        """Return :meth:`weight_multiplier` of each host, reading each aggregate only once."""
        if type(self).weight_multiplier is not BaseHostWeigher.weight_multiplier:
            return [self.weight_multiplier(host) for host in hosts]
        configured = self.configured_multiplier
        if self.multiplier_option is None:
            return [configured] * len(hosts)
        aggregates = {agg.id: agg for host in hosts for agg in host.aggregates}
        known = {id_: self._aggregate_multiplier(agg) for id_, agg in aggregates.items()}
        if all(value is None for value in known.values()):
            return [configured] * len(hosts)
        return [_smallest((known[agg.id] for agg in host.aggregates), configured) for host in hosts]

    def _aggregate_multiplier(self, aggregate: HostAggregate) -> float | None:
        """Return what the aggregate's metadata say; what is not a number is logged and ignored."""
        group, name = self.multiplier_option or ("", "")
        found = []
        for key in (name, f"{group}.{name}"):
            text = aggregate.metadata.get(key)
            if text is None:
                continue
            number = _number(text)
            if number is None:
                LOG.warning("aggregate %s: %s is no number: %r", aggregate.name, key, text)
            else:
                found.append(number)
        return min(found, default=None)

    def _weigh_object(self, host_state: HostState, weight_properties: RequestSpec) -> float:
        """Return how good this host is, on a scale of this weigher's own."""
        raise NotImplementedError(f"{type(self).__name__} weighs nothing")

    def weigh_objects(
        self, weighed_obj_list: Sequence[Weighed], weight_properties: RequestSpec
    ) -> Sequence[float]:
        """Return how good each host is, within ``minval`` and ``maxval`` where they are fixed."""
        weigh = self._weigh_object
        weights = [weigh(item.obj, weight_properties) for item in weighed_obj_list]
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
