"""Weighers: each says how good a host is that may take a request.

    weight = multiplier_1 * normalized_1 + multiplier_2 * normalized_2 + ...

The heaviest host wins. Write :meth:`~BaseHostWeigher.column`, which weighs all hosts in one go.
nova's ``_weigh_object``, ``weigh_objects`` and ``weight_multiplier`` work as well (see
``scheduler/weighing.py``).
"""

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, Protocol

from oslo_config import cfg
from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import SchedulerPlugin, classes_in

__all__ = ["BaseHostWeigher", "HostState", "Hosts", "RequestSpec", "WeighedHost", "Weights"]
__all__ += ["aggregates_of", "all_weighers", "normalize"]

LOG = log.getLogger(__name__)
Hosts = Sequence[HostState]
#: A number for each host, in their order.
Weights = Sequence[float]


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

    #: The option of ``[filter_scheduler]`` that says how much this weigher counts, and its help;
    #: or group and name of one that is declared elsewhere.
    weight_option: ClassVar[cfg.Opt | None] = None
    weight_help: ClassVar[str | None] = None
    multiplier_option: ClassVar[tuple[str, str] | None] = None

    #: The keys under which metadata of a host's aggregates override it for that host; where there
    #: are none, the option's name, with and without its group.
    multiplier_keys: ClassVar[tuple[str, ...]] = ()

    #: Whether a large weight is bad: then what is configured counts against the host.
    is_penalty: ClassVar[bool] = False

    #: Whether a host's weight depends on that host alone: then, from the second instance of a
    #: request on, only hosts that changed are weighed again.
    by_host: bool = False
    #: Whether the members of the request's server group count, which each instance joins.
    counts_members: ClassVar[bool] = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Reset inherited declarations where a class weighs differently."""
        own = vars(cls)
        if option := own.get("weight_option"):
            option.help = option.help or cls.weight_help
            cls.multiplier_option = ("filter_scheduler", option.dest)
            cls.options = (("filter_scheduler", option), *cls.options)
        super().__init_subclass__(**arguments)
        if own.keys() & {"_weigh_object", "weigh_objects", "column"}:
            if "concerns" not in own:
                cls.concerns = BaseHostWeigher.concerns  # type: ignore[method-assign]
            if "by_host" not in own:
                cls.by_host = False

    @classmethod
    def is_wanted(cls, settings: Settings) -> bool:  # noqa: ARG003 - for those that override it
        """Return whether it runs under these settings: one that does not is not reported."""
        return True

    def concerns(self, spec_obj: RequestSpec) -> bool:
        """Return whether hosts can differ for this weigher, for this request.

        Where it cannot, it is not asked, and every host weighs 0. A class that overrides one of the
        weighing methods and not this one is always asked.
        """
        return True

    def weight_multiplier(self, host_state: HostState) -> float:
        """Return how much this weigher counts for this host; negative reverses the order."""
        return self.multipliers((host_state,))[0]

    @property
    def configured_multiplier(self) -> float:
        """Return how much this weigher counts for hosts whose aggregates say nothing else."""
        return 1.0 if self.multiplier_option is None else self._counting(self._configured)

    def multipliers(
        self, hosts: Hosts, aggregates: Collection[HostAggregate] | None = None
    ) -> list[float]:
        """Return :meth:`weight_multiplier` of each host, reading each aggregate only once.

        ``aggregates`` are those of all the hosts, where the caller has them ready.
        """
        named: dict[int, float] = {}
        if self.multiplier_option is not None:
            for each in aggregates_of(hosts) if aggregates is None else aggregates:
                if (value := self._aggregate_multiplier(each)) is not None:
                    named[each.id] = value
        if not named:
            return [self.configured_multiplier] * len(hosts)
        configured = self._configured
        found = ([named[one.id] for one in host.aggregates if one.id in named] for host in hosts)
        return [self._counting(min(some, default=configured)) for some in found]

    def _counting(self, multiplier: float) -> float:
        """Return a multiplier as it counts; a penalty of nothing is nothing, not minus nothing."""
        return (-multiplier or 0.0) if self.is_penalty else multiplier

    @property
    def _configured(self) -> float:
        group, name = self.multiplier_option or ("", "")
        return float(getattr(getattr(self.settings, group), name))

    def _aggregate_multiplier(self, aggregate: HostAggregate) -> float | None:
        """Return what the aggregate's metadata say; what is not a number is logged and ignored."""
        found = []
        group, name = self.multiplier_option or ("", "")
        for key in self.multiplier_keys or (name, f"{group}.{name}"):
            text = aggregate.metadata.get(key)
            number = None if text is None else _number(text)
            if number is not None:
                found.append(number)
            elif text is not None:
                LOG.warning("aggregate %s: %s is not a number: %r", aggregate.name, key, text)
        return min(found, default=None)

    def column(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return how good each host is, on a scale of this weigher's own."""
        raise NotImplementedError(f"{type(self).__name__} implements no _weigh_object()")

    def weights(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return how good each host is, within ``minval`` and ``maxval`` where they are fixed."""
        return self._clamped(self.column(hosts, spec_obj))

    # nova's names, which third-party weighers override or call

    def _weigh_object(self, host_state: HostState, weight_properties: RequestSpec) -> float:
        """Return how good this host is, on a scale of this weigher's own."""
        return self.column((host_state,), weight_properties)[0]

    def weigh_objects(
        self, weighed_obj_list: Sequence[Weighed], weight_properties: RequestSpec
    ) -> Weights:
        """Return how good each host is, within ``minval`` and ``maxval`` where they are fixed."""
        hosts = [item.obj for item in weighed_obj_list]
        if type(self)._weigh_object is BaseHostWeigher._weigh_object:  # noqa: SLF001 - own class
            return self.weights(hosts, weight_properties)
        return self._clamped([self._weigh_object(host, weight_properties) for host in hosts])

    def _clamped(self, weights: Weights) -> Weights:
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


def all_weighers() -> list[type[BaseHostWeigher]]:
    """Return the weigher classes that are shipped."""
    return classes_in(sys.modules[__name__], BaseHostWeigher)
