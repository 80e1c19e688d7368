# SPDX-License-Identifier: Apache-2.0
"""Runs of request filters, and their possible results."""

import sys
from dataclasses import replace
from uuid import UUID

import pytest

from placement_sched.errors import Invalid, PluginFailed, Unavailable
from placement_sched.model.request_spec import RequestLevelParams, RequestSpec
from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.filtering import check_request, check_result, run_request_filters
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    RequestFilterResult,
    forbid_aggregates,
    forbid_traits,
    require_aggregates,
    require_traits,
)
from placement_sched.schemas.formats import DocumentError
from tests.support.states import build_aggregates, build_spec

AGGREGATES = [str(UUID(int=number)) for number in (1, 2)]
PLAIN = build_spec()
SPEC = build_spec(
    request_level_params={"root_required": ["CUSTOM_A"], "root_forbidden": ["CUSTOM_B"]},
    requested_destination={"aggregates": AGGREGATES, "forbidden_aggregates": [str(UUID(int=3))]},
)


def build_result_with_params(**changes):
    return RequestFilterResult(
        replace(SPEC, request_level_params=replace(SPEC.request_level_params, **changes))
    )


def build_result_with_destination(**changes):
    return RequestFilterResult(
        replace(SPEC, requested_destination=replace(SPEC.destination, **changes))
    )


@pytest.mark.parametrize(
    "outcome",
    [
        None,
        Rejection("no"),
        RequestFilterResult(SPEC),
        RequestFilterResult(SPEC, {"found": ["x"], "how": {"many": 2}}),
        require_traits(SPEC, "CUSTOM_C"),
        forbid_traits(SPEC, "CUSTOM_C"),
        require_aggregates(SPEC, AGGREGATES),
        forbid_aggregates(SPEC, AGGREGATES),
    ],
    ids=range(8),
)
def test_filter_may_return_a_narrower_request_a_rejection_or_none(outcome):
    check_result(SPEC, outcome)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (True, "expected .*, not bool"),
        ("no", "expected .*, not str"),
        (SPEC, "expected .*, not RequestSpec"),
        (
            RequestFilterResult(None),
            "the spec of a RequestFilterResult must be a RequestSpec, not NoneType",
        ),
        (RequestFilterResult(SPEC, None), None),
        (RequestFilterResult(SPEC, [1]), None),
        (RequestFilterResult(SPEC, {1: 2}), None),
        (RequestFilterResult(SPEC, {"x": object()}), None),
        (Rejection(None), "the reason of a Rejection must be a string, not None"),
        (Rejection(""), "the reason of a Rejection must be a string, not ''"),
        (
            RequestFilterResult(replace(SPEC, request_level_params=None)),
            "request_level_params became NoneType",
        ),
        (RequestFilterResult(replace(SPEC, flavor=None)), "flavor became NoneType"),
        (
            RequestFilterResult(replace(SPEC, scheduler_hints=None)),
            "scheduler_hints became NoneType",
        ),
        (RequestFilterResult(replace(SPEC, num_instances=5)), "may not change num_instances"),
        (
            build_result_with_params(root_required=SPEC.root_required | {5}),
            "5 is not the name of a trait",
        ),
        (require_aggregates(SPEC, ["not-a-uuid"]), "is not a uuid"),
        (require_aggregates(SPEC, []), "is not a uuid"),
        (forbid_aggregates(SPEC, ["zz"]), "is not a uuid"),
        (forbid_aggregates(SPEC, ["0x00000000_0000_0000_0000_0000000001"]), "is not a uuid"),
        (build_result_with_params(root_required=frozenset()), "removed constraints: CUSTOM_A"),
        (build_result_with_params(root_forbidden=frozenset()), "removed constraints: CUSTOM_B"),
        (
            build_result_with_destination(aggregates=SPEC.destination.aggregates[:1]),
            f"removed constraints: {AGGREGATES[1]}",
        ),
        (
            build_result_with_destination(forbidden_aggregates=()),
            f"removed constraints: {UUID(int=3)}",
        ),
    ],
    ids=range(23),
)
def test_invalid_result_of_a_request_filter_is_an_error(outcome, expected):
    with pytest.raises((TypeError, ValueError, DocumentError), match=expected):
        check_result(SPEC, outcome)


class CloudWithAnAggregate:
    def host_aggregates(self):
        return build_aggregates({"ssd": "true"})


class ConfiningFilter(BaseRequestFilter):
    name = "confines"

    def enabled(self, _settings):
        return True

    def apply(self, spec, world):
        uuids = [aggregate.uuid for aggregate in world.host_aggregates()]
        return RequestFilterResult(spec.for_instance("x"), {"aggregates": uuids})


class DisabledFilter(ConfiningFilter):
    name = "off"

    def enabled(self, _settings):
        return False


class UnchangingFilter(ConfiningFilter):
    name = ""

    def apply(self, _spec, _world):
        return None


class RejectingFilter(ConfiningFilter):
    name = "no"

    def apply(self, _spec, _world):
        return Rejection("never")


def test_enabled_filters_narrow_the_request():
    run = run_request_filters(
        [ConfiningFilter(), DisabledFilter(), UnchangingFilter()], PLAIN, CloudWithAnAggregate()
    )
    assert run.spec.instance_uuid == "x"
    assert run.rejection is None
    applied = [(report.name, report.applied) for report in run.reports]
    assert applied == [("confines", True), ("off", False), ("UnchangingFilter", False)]
    assert run.reports[0].changes == {"aggregates": [build_aggregates({})[0].uuid]}
    assert run.reports[0].elapsed_ms > 0
    assert PLAIN.instance_uuid is None


def test_filters_after_a_rejection_still_narrow_the_request():
    class LaterRejectingFilter(RejectingFilter):
        name = "never"

        def apply(self, _spec, _world):
            return Rejection("nor this")

    run = run_request_filters(
        [ConfiningFilter(), RejectingFilter(), ConfiningFilter(), LaterRejectingFilter()],
        PLAIN,
        CloudWithAnAggregate(),
    )
    assert run.rejection == Rejection("never")
    assert [report.name for report in run.reports] == ["confines", "no", "confines", "never"]
    refusals = [report.as_json().get("refusal") for report in run.reports]
    assert refusals == [None, "never", None, "nor this"]
    assert isinstance(run.spec, RequestSpec)
    assert run.spec.instance_uuid == "x"


def test_error_for_a_forbidden_root_trait_names_the_filter():
    class TraitRequiringFilter(ConfiningFilter):
        name = "wants"

        def apply(self, spec, _world):
            return require_traits(spec, "CUSTOM_A")

    spec = replace(PLAIN, request_level_params=RequestLevelParams(root_forbidden={"CUSTOM_A"}))
    both = "request filter wants and forbidden by .*request_level_params.root_forbidden"
    with pytest.raises(Invalid, match=both):
        run_request_filters([TraitRequiringFilter()], spec, CloudWithAnAggregate())


@pytest.mark.parametrize("failure", [ConnectionError("gone"), Unavailable("locked")])
def test_failure_to_read_the_cloud_is_not_reported_as_filter_failure(failure):
    class FailingCloud:
        def host_aggregates(self):
            raise failure

    with pytest.raises(type(failure), match=str(failure)):
        run_request_filters([ConfiningFilter()], PLAIN, FailingCloud())


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (lambda _spec: 42, "expected RequestFilterResult, Rejection or None, not int"),
        (
            lambda _spec: RequestFilterResult(None),
            "the spec of a RequestFilterResult must be a RequestSpec, not NoneType",
        ),
        (lambda spec: RequestFilterResult(spec, {"x": {1}}), "TypeError"),
        (lambda _spec: sys.exit(3), "SystemExit"),
        (lambda _spec: 1 / 0, "ZeroDivisionError"),
    ],
    ids=["number", "no request", "not JSON", "exit", "exception"],
)
def test_error_names_the_request_filter(result, expected):
    class InvalidFilter(ConfiningFilter):
        def apply(self, spec, _world):
            return result(spec)

    with pytest.raises(PluginFailed, match=f"InvalidFilter failed: .*{expected}"):
        run_request_filters([InvalidFilter()], PLAIN, CloudWithAnAggregate())


class PassingHostFilter(BaseHostFilter):
    def host_passes(self, _host, _spec):
        return True


class FailingCheckFilter(PassingHostFilter):
    def check(self, _spec):
        raise KeyError("early")


def test_error_of_a_check_names_the_filter():
    check_request([PassingHostFilter()], PLAIN)
    with pytest.raises(PluginFailed, match="FailingCheckFilter failed: KeyError: 'early'"):
        check_request([PassingHostFilter(), FailingCheckFilter()], PLAIN)
