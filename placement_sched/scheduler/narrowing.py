"""Narrow a request: run the request filters, and check what each of them returns."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from time import perf_counter
from typing import Any, TypeVar

import orjson

from placement_sched.errors import Invalid
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.explanation import RequestFilterReport
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.plugin import calling
from placement_sched.scheduler.request_filters import BaseRequestFilter, Outcome, World
from placement_sched.scheduler.request_groups import aggregate_terms

T = TypeVar("T")

#: What a request filter leaves as it is.
_KEPT = ("flavor", "image", "num_instances", "instance_uuids", "force_hosts", "force_nodes")


@dataclass(frozen=True, slots=True)
class RequestFilterRun:
    """The narrowed request, what each filter did, and the refusal that ended it, if any."""

    spec: RequestSpec
    reports: tuple[RequestFilterReport, ...]
    refusal: Refusal | None = None


def check_request(filters: Sequence[BaseHostFilter], spec: RequestSpec) -> None:
    """Raise :class:`Invalid` where a host filter cannot make sense of the request."""
    for plugin in filters:
        with calling(plugin):
            plugin.check(spec)


def narrow(
    filters: Sequence[BaseRequestFilter], spec: RequestSpec, world: World
) -> RequestFilterRun:
    """Return the request as all enabled filters narrow it.

    One that refuses it does not keep the others from narrowing: the whole question is reported.
    Raises :class:`PluginFailed`, :class:`Invalid` where the root of a host would need a trait and
    must not have it, and whatever ``world`` raises.
    """
    reports: list[RequestFilterReport] = []
    refusals: list[Refusal] = []
    watched = _WatchedWorld(world)
    for plugin in filters:
        began = perf_counter()
        outcome = None
        with calling(plugin, watched.failures):
            if plugin.enabled(plugin.settings):
                outcome = plugin.apply(spec, watched)
                check_outcome(spec, outcome)
        refusal = outcome if isinstance(outcome, Refusal) else None
        reports.append(
            RequestFilterReport(
                name=plugin.name or type(plugin).__name__,
                applied=outcome is not None,
                elapsed_ms=(perf_counter() - began) * 1000,
                changes=outcome.changes if isinstance(outcome, Outcome) else {},
                refusal=refusal.reason if refusal else None,
            )
        )
        if refusal:
            refusals.append(refusal)
        if isinstance(outcome, Outcome):
            spec = outcome.spec
            for trait in sorted(spec.root_required & spec.root_forbidden):
                required = who_said("root_required", trait, reports)
                forbidden = who_said("root_forbidden", trait, reports)
                raise Invalid(
                    f"trait {trait} of the root provider is required by {required} and forbidden "
                    f"by {forbidden}"
                )
    return RequestFilterRun(spec, tuple(reports), next(iter(refusals), None))


def who_said(way: str, trait: str, reports: Sequence[RequestFilterReport]) -> str:
    """Return which request filter named a trait of the root, or where the request itself did."""
    for report in reports:
        if trait in report.changes.get(way, ()):
            return f"request filter {report.name}"
    return f"$.request_spec.request_level_params.{way}"


class _WatchedWorld:
    """The world, remembering what it raised, so that a request filter is not blamed for it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.failures: list[BaseException] = []

    def host_aggregates(self) -> tuple[HostAggregate, ...]:
        return self._asked(self._world.host_aggregates)

    def provider_aggregates(self, uuids: Collection[str]) -> Mapping[str, frozenset[str]]:
        return self._asked(self._world.provider_aggregates, uuids)

    def all_nodes_have(self, trait: str) -> bool:
        return self._asked(self._world.all_nodes_have, trait)

    def _asked(self, ask: Callable[..., T], *arguments: Any) -> T:
        try:
            return ask(*arguments)
        except Exception as failure:
            self.failures.append(failure)
            raise


def check_outcome(spec: RequestSpec, outcome: object) -> None:
    """Raise :class:`TypeError` or :class:`ValueError` for what a filter of ``spec`` may not return.

    Neither of them is anything but an outcome, a refusal or None; a refusal says why; the request
    of an outcome is of the types it was of, for the same instances, and never wider.
    """
    if isinstance(outcome, Outcome):
        orjson.dumps(dict(outcome.changes))  # explanations show it
        if outcome.spec is not spec:
            _check_spec(spec, outcome.spec)
    elif isinstance(outcome, Refusal):
        if not (isinstance(outcome.reason, str) and outcome.reason):
            raise TypeError(f"the reason of a Refusal must be a string, not {outcome.reason!r}")
    elif outcome is not None:
        raise TypeError(f"expected Outcome, Refusal or None, not {type(outcome).__name__}")


def _check_spec(before: RequestSpec, after: RequestSpec) -> None:
    if not isinstance(after, RequestSpec):
        raise TypeError(f"the spec of an Outcome must be a RequestSpec, not {type(after).__name__}")
    for field in fields(RequestSpec):
        was, now = getattr(before, field.name), getattr(after, field.name)
        if was is not None and not isinstance(now, type(was)):
            raise TypeError(f"{field.name} became {type(now).__name__}")
        if field.name in _KEPT and now != was:
            raise ValueError(f"a request filter may not change {field.name}")
    for trait in after.root_required | after.root_forbidden:
        if not isinstance(trait, str):
            raise TypeError(f"{trait!r} is not the name of a trait")
    places, left = before.destination, after.destination
    # Raises where one is not a uuid.
    aggregate_terms((joined.split(",") for joined in left.aggregates), left.forbidden_aggregates)
    lost = (
        before.root_required - after.root_required
        or before.root_forbidden - after.root_forbidden
        or Counter(places.aggregates) - Counter(left.aggregates)
        or set(places.forbidden_aggregates) - set(left.forbidden_aggregates)
    )
    if lost:
        raise ValueError(f"a request filter removed constraints: {', '.join(sorted(lost))}")
