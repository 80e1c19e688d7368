# SPDX-License-Identifier: Apache-2.0
"""Base class of host filters, suggested changes, and amounts on hosts.

A filter implements :meth:`~BaseHostFilter.rejection`, which returns the reason why a host is
rejected. It implements :meth:`~BaseHostFilter.prepare` instead if part of the work is the same for
every host, if most requests need no check, or if a passing host gets limits. Neither method changes
the host state. ``host_passes``, ``_filter_one`` and ``filter_all`` of nova's filters work as in
nova (see ``scheduler/filtering.py``).

Sources for amounts and ratios: nova's "Filter Scheduler" of Icehouse to Victoria, and the release
notes of Liberty.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, ClassVar, TypeVar

from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.explain.advice import build_change
from placement_sched.model.image import ImageProperties
from placement_sched.model.names import shorten_names
from placement_sched.model.rejection import Rejection, SuggestedChange, SuggestedChanges
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters.utils import aggregate_values_from_key
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import SchedulerPlugin, list_classes

__all__ = [
    "BaseHostFilter",
    "CandidateFilterMixin",
    "HostCheck",
    "HostState",
    "Passed",
    "SuggestedChange",
    "SuggestedChanges",
]
__all__ += ["FilterResult", "Rejection", "RequestSpec", "all_filters"]
#: Maximum number of names in the text and in the values of a change. A request may have a thousand.
MAX_NAMES_IN_TEXT, _MAX_NAMES_IN_VALUES = 10, 20
LOG = log.getLogger(__name__)
Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Passed:
    """Result of a filter for a host that passes.

    ``limits`` go to the selection. ``candidates`` are the remaining candidates, or None for all.
    """

    limits: Mapping[str, Any] = field(default_factory=dict)
    candidates: Sequence[Any] | None = None

    def apply_to(self, host_state: HostState) -> None:
        """Write the result to the host state, for later filters and weighers."""
        host_state.limits.update(self.limits)
        if self.candidates is not None:
            host_state.allocation_candidates = self.candidates


#: A rejection, a pass with limits or candidates, or None for a plain pass.
FilterResult = Rejection | Passed | None

#: The check of a host for one request.
HostCheck = Callable[[HostState], FilterResult]


class BaseHostFilter(SchedulerPlugin):
    """Base class of all host filters."""

    #: Whether to run only for the first instance of a request. This is correct if the placement of
    #: an instance cannot change the result for later instances.
    run_filter_once_per_request = False

    #: Whether the filter also runs when an instance is rebuilt on its host.
    RUN_ON_REBUILD = False

    #: Scheduler hints that name hosts or instances. Requests with such a hint have no limit of
    #: candidates.
    unlimited_hints: ClassVar[tuple[str, ...]] = ()

    #: Whether the filter only enforces ``max_server_per_host`` of an anti-affinity group. Capacity
    #: reports then count members. Not inherited, because a subclass may have another rule.
    caps_group_members = False

    #: Whether the filter reads the last failover result (``model/figures.py``). Simulations skip
    #: such filters, because the result is for the unchanged cloud.
    reads_failover_result = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        # A class implements rejection or prepare. Derive the other method from it.
        own = vars(cls).keys() & {"rejection", "prepare"}
        if own == {"rejection"}:
            cls.prepare = BaseHostFilter.prepare  # type: ignore[method-assign]
        elif own == {"prepare"}:
            prepare: Callable[[Any, RequestSpec], HostCheck | None] = cls.prepare

            def rejection(
                self: Any, host_state: HostState, spec_obj: RequestSpec
            ) -> Rejection | None:
                check_host = prepare(self, spec_obj)
                result = None if check_host is None else check_host(host_state)
                return result if isinstance(result, Rejection) else None

            cls.rejection = rejection  # type: ignore[method-assign]

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        """Return the reason why the host is rejected, or None if it passes."""
        raise NotImplementedError(f"{type(self).__name__} has neither host_passes nor rejection")

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        """Return the check to run on each host, or None if every host passes.

        The scheduler calls it once per instance of the request.
        """
        return lambda host_state: self.rejection(host_state, spec_obj)

    def evaluate_hosts(
        self, hosts: Sequence[HostState], spec_obj: RequestSpec
    ) -> Sequence[FilterResult] | None:
        """Return the result for each host, or None if every host passes."""
        check_host = self.prepare(spec_obj)
        return None if check_host is None else [check_host(host) for host in hosts]

    def check(self, spec_obj: RequestSpec) -> None:
        """Validate the request, once and before any host is checked.

        Raises :class:`~placement_sched.errors.Invalid` if the request is invalid for any host.
        """

    def compares_hosts(self, spec_obj: RequestSpec) -> bool:
        """Return whether a placement on a host can let another host pass."""
        return False

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        """Suggest changes that each let a rejected host pass, smallest first.

        The method runs only for reports on a single host.
        """
        return ()

    def run_filter_for_index(self, index: int) -> bool:
        """Return whether to run for the instance with this index (from 0)."""
        return index == 0 or not self.run_filter_once_per_request

    # nova's names, which third-party filters override or call

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        """Return whether the host passes, and write limits to the host state."""
        check_host = self.prepare(spec_obj)
        result = None if check_host is None else check_host(host_state)
        if isinstance(result, Passed):
            result.apply_to(host_state)
        return not isinstance(result, Rejection)

    def _filter_one(self, obj: HostState, spec_obj: RequestSpec) -> bool:
        return self.host_passes(obj, spec_obj)

    def filter_all(
        self, filter_obj_list: Iterable[HostState], spec_obj: RequestSpec
    ) -> Iterable[HostState] | None:
        """Return the hosts that pass, or None (only in overrides) for no hosts."""
        return (host for host in filter_obj_list if self._filter_one(host, spec_obj))


class CandidateFilterMixin:
    """Mixin of nova filters that check the allocation candidates of a host."""

    def filter_candidates(
        self, host_state: HostState, filter_func: Callable[[Any], object]
    ) -> list[Any]:
        """Keep the allocation candidates for which ``filter_func`` is true.

        Returns the remaining candidates of the host. A filter rejects the host if none remain.
        """
        passing = [
            candidate for candidate in host_state.allocation_candidates if filter_func(candidate)
        ]
        host_state.allocation_candidates = passing
        return passing


def all_filters() -> list[type[BaseHostFilter]]:
    """Return the shipped filter classes."""
    return list_classes(sys.modules[__name__], BaseHostFilter)


def drop_hint(spec: RequestSpec, name: str) -> SuggestedChange:
    """Return the change to a request without a scheduler hint."""
    hints = {key: value for key, value in spec.scheduler_hints.items() if key != name}
    return build_change("drop_hint", {"hint": name}, spec=replace(spec, scheduler_hints=hints))


def shorten(names: Sequence[str]) -> str:
    """Join the first names for a message, with the number of further names."""
    return shorten_names(names, MAX_NAMES_IN_TEXT)


def list_values(
    key: str, names: Sequence[str], limit: int = _MAX_NAMES_IN_VALUES
) -> Mapping[str, Any]:
    """Map ``key`` to the first names, and ``more`` to the number of others."""
    more = len(names) - limit
    return {key: list(names[:limit]), **({"more": more} if more > 0 else {})}


def suggest_without_extra_specs(
    spec: RequestSpec, keys: Sequence[str], kind: str
) -> SuggestedChange:
    """Return the change to a flavor without some extra specs.

    ``kind`` is the kind of the rejection.
    """
    flavor, removed = spec.flavor, frozenset(keys)
    remaining = {key: value for key, value in flavor.extra_specs.items() if key not in removed}
    return build_change(
        "drop_extra_specs",
        list_values("keys", keys),
        kind=kind,
        spec=replace(spec, flavor=replace(flavor, extra_specs=remaining)),
        names=shorten(keys),
    )


def drop_properties(
    spec: RequestSpec, keys: Collection[str], kind: str, **shown: Any
) -> SuggestedChange:
    """Return the change to an image without some properties.

    ``kind`` is the kind of the rejection, and ``shown`` are the values of the sentence.
    """
    properties = spec.image.properties
    remaining = {key: value for key, value in properties.to_dict().items() if key not in keys}
    return build_change(
        "change_image_properties",
        list_values("keys", [key for key in keys if key in properties]),
        kind=kind,
        spec=replace(spec, image=replace(spec.image, properties=ImageProperties(remaining))),
        **shown,
    )


def suggest_smaller(spec: RequestSpec, field: str, maximum: int) -> SuggestedChange:
    """Return the change to a flavor with a smaller value of ``field``."""
    change: dict[str, Any] = {field: maximum}
    smaller = replace(spec.flavor, **change)
    return build_change("change_request", change, kind=field, spec=replace(spec, flavor=smaller))


def find_aggregate_minimum(
    host_state: HostState, key: str, cast_to: Callable[[str], Number], otherwise: Number
) -> Number:
    """Return the smallest value of ``key`` in the host's aggregate metadata.

    Returns ``otherwise`` if no aggregate has the key, or, with a warning in the log, if a value is
    not a number. Source: nova's "Filter Scheduler" of Stein, and the behavior of nova 34.
    """
    values = aggregate_values_from_key(host_state, key)
    try:
        return min(map(cast_to, values), default=otherwise)
    except ValueError as error:
        text = "host %s: %s of its aggregates is not a number (%s): using %s"
        LOG.warning(text, host_state.host, key, error, otherwise)
        return otherwise


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """Total and used amount of a resource on a host, and its allocation ratio."""

    total: int
    used: int
    ratio: float

    @property
    def limit(self) -> float:
        """Return the maximum of the used amount: the total times the ratio."""
        return self.total * self.ratio

    @property
    def max_amount(self) -> int:
        """Return the largest whole amount that an instance can get."""
        return max(int(min(self.total, self.limit - self.used)), 0)

    def find_rejection(self, amount: int, resource_class: str, unit: str) -> Rejection | None:
        """Return the reason why the amount does not fit, or None if it does.

        An instance never gets more than the total. All amounts are in ``unit``.
        """
        free = self.limit - self.used
        if amount <= self.total and amount <= free:
            return None
        values = {"resource_class": resource_class, "unit": unit, "free": free}
        values |= {"capacity": self.limit, "total": self.total, "allocation_ratio": self.ratio}
        return Rejection(kind="capacity", requested=amount, values=values)


def get_reported_ratio(host_state: HostState, name: str, settings: Settings) -> float:
    """Return a ratio of the host, or else of ``[DEFAULT]`` if it has none."""
    options = settings.DEFAULT
    ratio = getattr(host_state, name)
    return float(ratio or getattr(options, name) or getattr(options, f"initial_{name}"))


def find_aggregate_ratio(host_state: HostState, name: str, otherwise: float) -> float:
    """Return the smallest ratio ``name`` in the host's aggregate metadata.

    Returns ``otherwise`` if no aggregate has the ratio, or if a value is not a finite number.
    """

    def parse_ratio(text: str) -> float:
        ratio = float(text)
        if not isfinite(ratio):
            raise ValueError(f"not a finite number: {text!r}")
        return ratio

    return find_aggregate_minimum(host_state, name, parse_ratio, otherwise)


class RatioFilter(BaseHostFilter):
    """Base class of host filters with an allocation ratio.

    ``ratio`` is its name, such as ``ram_allocation_ratio``. With ``uses_aggregates``, the ratio in
    the metadata of the host's aggregates overrides the ratio of the host.
    """

    ratio: ClassVar[str]
    uses_aggregates = False

    def get_allocation_ratio(self, host_state: HostState) -> float:
        """Return the ratio of the host, its aggregates or the options."""
        ratio = get_reported_ratio(host_state, self.ratio, self.settings)
        if not self.uses_aggregates:
            return ratio
        return find_aggregate_ratio(host_state, self.ratio, ratio)


class MaximumFilter(BaseHostFilter):
    """Base class of host filters that reject hosts at a maximum of instances.

    ``maximum_option`` is an option of ``[filter_scheduler]``, ``counted`` an attribute of host
    states. With ``uses_aggregates``, the smallest maximum in the metadata of the host's aggregates
    overrides the option. ``kind`` is the kind of the rejections.
    """

    maximum_option: ClassVar[str]
    counted: ClassVar[str]
    kind: ClassVar[str]
    uses_aggregates = False

    def get_maximum(self, host_state: HostState) -> int:
        """Return the maximum of the host's aggregates or the option."""
        maximum = int(getattr(self.settings.filter_scheduler, self.maximum_option))
        if not self.uses_aggregates:
            return maximum
        return find_aggregate_minimum(host_state, self.maximum_option, int, maximum)

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        """Return the reason if the host has reached the maximum, or None."""
        count, maximum = getattr(host_state, self.counted), self.get_maximum(host_state)
        if count < maximum:
            return None
        values = {"option": self.maximum_option, "maximum": maximum}
        return Rejection(kind=self.kind, actual=count, values=values)

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        """Suggest fewer instances on the host, and a larger maximum."""
        count, maximum = getattr(host_state, self.counted), self.get_maximum(host_state)
        if maximum:
            surplus = count - maximum + 1
            after = {self.counted: maximum - 1}
            values = {"instances": surplus}
            yield build_change("remove_instances", values, kind=self.kind, host=after)
        key, value = self.maximum_option, count + 1
        if self.uses_aggregates and aggregate_values_from_key(host_state, key):
            yield build_change("tag_aggregate", {"key": key, "value": value}, kind="maximum")
        else:
            yield build_change("raise_option", {"option": key, "value": value})
