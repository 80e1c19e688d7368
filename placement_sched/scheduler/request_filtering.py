# SPDX-License-Identifier: Apache-2.0
"""Run of the request filters, and validation of their results."""

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
from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.plugin import calling
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    RequestFilterContext,
    RequestFilterResult,
)
from placement_sched.scheduler.request_groups import aggregate_terms

T = TypeVar("T")

#: Fields that a request filter may not change.
_READ_ONLY = ("flavor", "image", "num_instances", "instance_uuids", "force_hosts", "force_nodes")


@dataclass(frozen=True, slots=True)
class RequestFilterRun:
    """The filtered request, the reports of the filters, and their first rejection or None."""

    spec: RequestSpec
    reports: tuple[RequestFilterReport, ...]
    rejection: Rejection | None = None


def check_request(filters: Sequence[BaseHostFilter], spec: RequestSpec) -> None:
    """Reject a request that an enabled host filter cannot process.

    Raises :class:`Invalid`.
    """
    for plugin in filters:
        with calling(plugin):
            plugin.check(spec)


def run_request_filters(
    filters: Sequence[BaseRequestFilter], spec: RequestSpec, context: RequestFilterContext
) -> RequestFilterRun:
    """Run all enabled request filters and return the resulting request.

    After a rejection the other filters still run, so that the whole query can be reported. Raises
    :class:`PluginFailed`, :class:`Invalid` if a trait of the root provider is both required and
    forbidden, and the errors of ``context``.
    """
    reports: list[RequestFilterReport] = []
    rejections: list[Rejection] = []
    recording = _RecordingContext(context)
    for plugin in filters:
        started = perf_counter()
        outcome = None
        with calling(plugin, recording.failures):
            if plugin.enabled(plugin.settings):
                outcome = plugin.apply(spec, recording)
                check_result(spec, outcome)
        rejection = outcome if isinstance(outcome, Rejection) else None
        reports.append(
            RequestFilterReport(
                name=plugin.name or type(plugin).__name__,
                applied=outcome is not None,
                elapsed_ms=(perf_counter() - started) * 1000,
                changes=outcome.changes if isinstance(outcome, RequestFilterResult) else {},
                rejection=rejection.reason if rejection else None,
            )
        )
        if rejection:
            rejections.append(rejection)
        if isinstance(outcome, RequestFilterResult):
            spec = outcome.spec
            for trait in sorted(spec.root_required & spec.root_forbidden):
                required = trait_source("root_required", trait, reports)
                forbidden = trait_source("root_forbidden", trait, reports)
                raise Invalid(
                    f"trait {trait} of the root provider is required by {required} and forbidden "
                    f"by {forbidden}"
                )
    return RequestFilterRun(spec, tuple(reports), next(iter(rejections), None))


def trait_source(kind: str, trait: str, reports: Sequence[RequestFilterReport]) -> str:
    """Return the request filter or JSON path that requires or forbids a root trait."""
    for report in reports:
        if trait in report.changes.get(kind, ()):
            return f"request filter {report.name}"
    return f"$.request_spec.request_level_params.{kind}"


class _RecordingContext:
    """Context that records its own errors, so that no request filter is blamed for them."""

    def __init__(self, context: RequestFilterContext) -> None:
        self._context = context
        self.failures: list[BaseException] = []

    def host_aggregates(self) -> tuple[HostAggregate, ...]:
        return self._call(self._context.host_aggregates)

    def provider_aggregates(self, uuids: Collection[str]) -> Mapping[str, frozenset[str]]:
        return self._call(self._context.provider_aggregates, uuids)

    def is_trait_of_all_nodes(self, trait: str) -> bool:
        return self._call(self._context.is_trait_of_all_nodes, trait)

    def _call(self, method: Callable[..., T], *arguments: Any) -> T:
        try:
            return method(*arguments)
        except Exception as failure:
            self.failures.append(failure)
            raise


def check_result(spec: RequestSpec, outcome: object) -> None:
    """Validate the result of a request filter.

    A valid result is a :class:`RequestFilterResult`, a :class:`Rejection` with a reason, or None.
    The resulting request must have the same field types and instances, and no fewer constraints.
    Raises :class:`TypeError` or :class:`ValueError`.
    """
    if isinstance(outcome, RequestFilterResult):
        orjson.dumps(dict(outcome.changes))  # explanations show it
        if outcome.spec is not spec:
            _check_spec(spec, outcome.spec)
    elif isinstance(outcome, Rejection):
        if not (isinstance(outcome.reason, str) and outcome.reason):
            raise TypeError(f"the reason of a Rejection must be a string, not {outcome.reason!r}")
    elif outcome is not None:
        actual = type(outcome).__name__
        raise TypeError(f"expected RequestFilterResult, Rejection or None, not {actual}")


def _check_spec(original: RequestSpec, new: object) -> None:
    if not isinstance(new, RequestSpec):
        actual = type(new).__name__
        raise TypeError(f"the spec of a RequestFilterResult must be a RequestSpec, not {actual}")
    for field in fields(RequestSpec):
        old_value, new_value = getattr(original, field.name), getattr(new, field.name)
        if old_value is not None and not isinstance(new_value, type(old_value)):
            raise TypeError(f"{field.name} became {type(new_value).__name__}")
        if field.name in _READ_ONLY and new_value != old_value:
            raise ValueError(f"a request filter may not change {field.name}")
    for trait in new.root_required | new.root_forbidden:
        if not isinstance(trait, str):
            raise TypeError(f"{trait!r} is not the name of a trait")
    old_target, target = original.destination, new.destination
    # Raises an error if an aggregate is not a uuid.
    aggregate_terms(
        (joined.split(",") for joined in target.aggregates), target.forbidden_aggregates
    )
    removed = (
        original.root_required - new.root_required
        or original.root_forbidden - new.root_forbidden
        or Counter(old_target.aggregates) - Counter(target.aggregates)
        or set(old_target.forbidden_aggregates) - set(target.forbidden_aggregates)
    )
    if removed:
        raise ValueError(f"a request filter removed constraints: {', '.join(sorted(removed))}")
