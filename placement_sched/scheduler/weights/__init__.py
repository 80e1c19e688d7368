# SPDX-License-Identifier: Apache-2.0
"""Weighers, and the base class for writing them.

    weight = multiplier_1 * normalized_1 + multiplier_2 * normalized_2 + ...

The host with the greatest weight wins. Implement :meth:`~BaseHostWeigher.column`, which weighs all
hosts at once. nova's ``_weigh_object``, ``weigh_objects`` and ``weight_multiplier`` are supported
too (see ``scheduler/weighing.py``).
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
__all__ += ["ExplainedWeights", "aggregates_of", "all_weighers", "normalize"]

LOG = log.getLogger(__name__)
Hosts = Sequence[HostState]
#: A number for each host, in their order.
Weights = Sequence[float]


@dataclass(slots=True)
class WeighedHost:
    """A host and its weight, with the attribute names of nova's weighed objects."""

    obj: HostState
    weight: float = 0.0


class ExplainedWeights(list[float]):
    """Weights with the amounts of each host, which :meth:`BaseHostWeigher.describe` formats."""

    def __init__(self, weights: Weights, amounts: Sequence[Any]) -> None:
        super().__init__(weights)
        self.amounts = amounts


class Weighed(Protocol):
    """Argument type of nova's ``weigh_objects``."""

    obj: HostState


class BaseHostWeigher(SchedulerPlugin):
    """Base class of all weighers.

    ``minval`` and ``maxval`` are the ends of the scale. If they are None, the smallest and the
    greatest weight of the hosts are the ends.
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
    #: Whether the weight depends on the members of the server group, which each instance joins.
    counts_members: ClassVar[bool] = False

    #: Whether the weigher reads ``spec_obj.cloud_flavors``, the flavors of the cloud.
    reads_flavors: ClassVar[bool] = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        # Reset inherited declarations that may be wrong for another way of weighing.
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
    def is_wanted(cls, settings: Settings) -> bool:  # noqa: ARG003 - for overrides
        """Return whether to run, and to report, the weigher under these settings."""
        return True

    def is_requested(self, spec_obj: RequestSpec, aggregates: Collection[HostAggregate]) -> bool:
        """Return whether the request, or an aggregate of its hosts, states a preference.

        If not, the weigher does not run, and reports do not list it.
        """
        return True

    def concerns(self, spec_obj: RequestSpec) -> bool:
        """Return whether hosts can differ in weight for this request.

        If not, the weigher does not run, and every host weighs 0. A class that overrides a weighing
        method but not this method always runs.
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
        """Return each host's :meth:`weight_multiplier`, from a single read of each aggregate.

        ``aggregates`` are the aggregates of all hosts, if the caller already has them.
        """
        overrides: dict[int, float] = {}
        if self.multiplier_option is not None:
            for aggregate in aggregates_of(hosts) if aggregates is None else aggregates:
                if (value := self._aggregate_multiplier(aggregate)) is not None:
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
        """Return the multiplier with its sign, without a negative zero."""
        return (-multiplier or 0.0) if self.is_penalty else multiplier

    @property
    def _configured(self) -> float:
        group, name = self.multiplier_option or ("", "")
        return float(getattr(getattr(self.settings, group), name))

    def _aggregate_multiplier(self, aggregate: HostAggregate) -> float | None:
        """Return the multiplier in an aggregate's metadata, or None without a valid number."""
        numbers = []
        group, name = self.multiplier_option or ("", "")
        for key in self.multiplier_keys or (name, f"{group}.{name}"):
            text = aggregate.metadata.get(key)
            number = None if text is None else _parse_number(text)
            if number is not None:
                numbers.append(number)
            elif text is not None:
                LOG.warning("aggregate %s: %s is not a number: %r", aggregate.name, key, text)
        return min(numbers, default=None)

    def column(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return the weight of each host, on any scale."""
        raise NotImplementedError(f"{type(self).__name__} implements no _weigh_object()")

    def weights(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return the weight of each host, limited to ``minval`` and ``maxval``."""
        return self._clamped(self.column(hosts, spec_obj))

    def describe(self, amounts: Any) -> str:
        """Describe a host's amounts in :class:`ExplainedWeights` for explanations."""
        raise NotImplementedError

    # nova's names, which third-party weighers override or call

    def _weigh_object(self, host_state: HostState, weight_properties: RequestSpec) -> float:
        return self.column((host_state,), weight_properties)[0]

    def weigh_objects(
        self, weighed_obj_list: Sequence[Weighed], weight_properties: RequestSpec
    ) -> Weights:
        """Return the weight of each host, with nova's signature, limited to the scale."""
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

    An end that is None is the smallest or greatest weight. If both ends are equal, every weight is
    0, so that a weigher without preference has no effect.
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
    """Return the distinct aggregates of the hosts."""
    return {each.id: each for host in hosts for each in host.aggregates}.values()


def _parse_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def all_weighers() -> list[type[BaseHostWeigher]]:
    """Return the shipped weigher classes."""
    return classes_in(sys.modules[__name__], BaseHostWeigher)
