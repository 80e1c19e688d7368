# SPDX-License-Identifier: Apache-2.0
"""Runs of host filters: counts, reasons and errors.

Runs of request filters, and their possible results.
"""

import logging
import sys
from dataclasses import replace
from uuid import UUID

import pytest
from sqlalchemy.exc import NoResultFound, OperationalError

from placement_sched.config.conf import CONF
from placement_sched.errors import Invalid, PluginFailed, Unavailable
from placement_sched.explain.values import Rejected
from placement_sched.model.rejection import Rejection
from placement_sched.model.request_spec import RequestLevelParams, RequestSpec
from placement_sched.scheduler.filtering import (
    check_request,
    check_result,
    run_filters,
    run_request_filters,
)
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
from tests.support.states import build_aggregates, build_host_state, build_settings, build_spec

HOSTS = [build_host_state(name) for name in ("cn1", "cn2", "cn3")]
DEFAULT_SPEC = build_spec()


class ReasonGivingFilter(BaseHostFilter):
    """A filter that gives reasons, like the shipped filters."""

    names = ("cn2",)

    def rejection(self, host_state, _spec):
        return (
            Rejection(f"{host_state.host} is not liked") if host_state.host in self.names else None
        )


class HostPassesFilter(BaseHostFilter):
    names = ("cn1",)

    def host_passes(self, host_state, _spec):
        return host_state.host not in self.names


def list_host_names(run):
    return [host.host for host in run.hosts]


def test_each_filter_gets_the_hosts_that_passed_the_previous_filter():
    run = run_filters([ReasonGivingFilter(), HostPassesFilter()], HOSTS, DEFAULT_SPEC)
    assert list_host_names(run) == ["cn3"]
    first, second = run.reports
    assert (first.name, first.before, first.after) == ("ReasonGivingFilter", 3, 2)
    assert first.rejected == (Rejected("cn2", "cn2", Rejection("cn2 is not liked")),)
    assert (second.name, second.before, second.after) == ("HostPassesFilter", 2, 1)
    assert second.rejected == (Rejected("cn1", "cn1", Rejection("rejected by HostPassesFilter")),)
    run = run_filters([], HOSTS, DEFAULT_SPEC)
    assert (list_host_names(run), run.reports) == (["cn1", "cn2", "cn3"], ())


def test_rejection_by_a_filter_needs_a_text():
    class SilentFilter(BaseHostFilter):
        def rejection(self, _host_state, _spec):
            return Rejection()

    with pytest.raises(PluginFailed, match="has no text"):
        run_filters([SilentFilter()], HOSTS, DEFAULT_SPEC)


def test_hosts_that_already_passed_are_counted_in_every_report():
    run = run_filters(
        [ReasonGivingFilter(), HostPassesFilter()], HOSTS, DEFAULT_SPEC, already_passed=4
    )
    assert list_host_names(run) == ["cn3"]
    assert [(report.before, report.after) for report in run.reports] == [(7, 6), (6, 5)]


def test_later_filters_do_not_run_if_no_host_remains():
    class AllHostsRejectingFilter(ReasonGivingFilter):
        names = ("cn1", "cn2", "cn3")

    run = run_filters([AllHostsRejectingFilter(), HostPassesFilter()], HOSTS, DEFAULT_SPEC)
    assert list_host_names(run) == []
    assert [report.name for report in run.reports] == ["AllHostsRejectingFilter"]


def test_filter_all_that_returns_none_rejects_every_host():
    class NoneReturningFilter(BaseHostFilter):
        def filter_all(self, _hosts, _spec):
            return None

    run = run_filters([NoneReturningFilter(), HostPassesFilter()], HOSTS, DEFAULT_SPEC)
    assert list_host_names(run) == []
    counts = [(report.before, report.after, len(report.rejected)) for report in run.reports]
    assert counts == [(3, 0, 3)]


class GeneratorFilter(BaseHostFilter):
    def filter_all(self, hosts, _spec):
        return (host for host in hosts if host.host == "cn1")


class FirstHostRepeatingFilter(BaseHostFilter):
    def filter_all(self, hosts, _spec):
        return [hosts[0], hosts[0]]


class FilterWithFilterOneMethod(BaseHostFilter):
    def _filter_one(self, host_state, _spec):
        return host_state.host == "cn1"


class TruthyResultFilter(BaseHostFilter):
    def host_passes(self, host_state, _spec):
        return "yes" if host_state.host == "cn1" else 0


@pytest.mark.parametrize(
    "kind",
    [GeneratorFilter, FirstHostRepeatingFilter, FilterWithFilterOneMethod, TruthyResultFilter],
)
def test_host_filters_may_decide_by_any_interface_of_nova(kind):
    run = run_filters([kind()], HOSTS, DEFAULT_SPEC)
    assert list_host_names(run) == ["cn1"]
    reasons = {each.rejection.text for each in run.reports[0].rejected}
    assert reasons == {f"rejected by {kind.__name__}"}


def test_host_passes_method_added_by_a_subclass_rejects_hosts():
    class StricterHostPassesFilter(ReasonGivingFilter):
        def host_passes(self, host_state, spec):
            return super().host_passes(host_state, spec) and host_state.host != "cn3"

    run = run_filters([StricterHostPassesFilter()], HOSTS, DEFAULT_SPEC)
    assert list_host_names(run) == ["cn1"]
    reasons = [each.rejection.text for each in run.reports[0].rejected]
    assert reasons == ["cn2 is not liked", "rejected by StricterHostPassesFilter"]


class HintedHostFilter(BaseHostFilter):
    """Rejects the host in the hint of a request."""

    def prepare(self, spec_obj):
        disliked = spec_obj.scheduler_hints.get("not")
        if disliked is None:
            return None
        return lambda host: Rejection("not liked") if host.host == disliked[0] else None


def test_function_returned_by_prepare_decides_on_every_host():
    spec = build_spec(scheduler_hints={"not": ["cn2"]})
    run = run_filters([HintedHostFilter()], HOSTS, spec)
    assert list_host_names(run) == ["cn1", "cn3"]
    assert [each.rejection.text for each in run.reports[0].rejected] == ["not liked"]
    assert not HintedHostFilter().host_passes(HOSTS[1], spec)
    assert HintedHostFilter().rejection(HOSTS[1], spec).text == "not liked"
    assert list_host_names(run_filters([HintedHostFilter()], HOSTS, DEFAULT_SPEC)) == [
        "cn1",
        "cn2",
        "cn3",
    ]
    assert HintedHostFilter().host_passes(HOSTS[1], DEFAULT_SPEC)


def test_methods_overridden_by_a_subclass_run_instead_of_prepare():
    class FilterWithRejectionMethod(HintedHostFilter):
        def rejection(self, host_state, spec_obj):
            return super().rejection(host_state, spec_obj) or Rejection("nobody is good enough")

    class FilterWithHostPassesMethod(HintedHostFilter):
        def host_passes(self, host_state, spec_obj):
            return super().host_passes(host_state, spec_obj) and host_state.host != "cn1"

    named = build_spec(scheduler_hints={"not": ["cn2"]})
    run = run_filters([FilterWithRejectionMethod()], HOSTS, named)
    reasons = [each.rejection.text for each in run.reports[0].rejected]
    assert reasons == ["nobody is good enough", "not liked", "nobody is good enough"]
    assert list_host_names(run_filters([FilterWithHostPassesMethod()], HOSTS, named)) == ["cn3"]


def test_host_filter_may_run_for_some_instances_only():
    class OncePerRequestFilter(HostPassesFilter):
        run_filter_once_per_request = True

    class SecondInstanceFilter(HostPassesFilter):
        def run_filter_for_index(self, index):
            return index == 1

    hosts = list_host_names(run_filters([OncePerRequestFilter()], HOSTS, DEFAULT_SPEC, index=0))
    assert hosts == ["cn2", "cn3"]
    later = run_filters(
        [OncePerRequestFilter(), ReasonGivingFilter()], HOSTS, DEFAULT_SPEC, index=1
    )
    assert list_host_names(later) == ["cn1", "cn3"]
    assert [report.name for report in later.reports] == ["ReasonGivingFilter"]
    hosts = list_host_names(run_filters([SecondInstanceFilter()], HOSTS, DEFAULT_SPEC, index=0))
    assert hosts == ["cn1", "cn2", "cn3"]
    hosts = list_host_names(run_filters([SecondInstanceFilter()], HOSTS, DEFAULT_SPEC, index=1))
    assert hosts == ["cn2", "cn3"]


class ExceptionWithoutMessage(Exception):
    def __str__(self):
        raise TypeError


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (KeyError("oops"), "KeyError: 'oops'"),
        (SystemExit(), "SystemExit"),
        (GeneratorExit(), "GeneratorExit"),
        (ValueError("\udc80"), "ValueError: ?"),
        (ExceptionWithoutMessage(), "ExceptionWithoutMessage: its message cannot be shown"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_plugin_error_names_the_host_filter_that_raised(caplog, failure, expected):
    class FailingFilter(BaseHostFilter):
        def host_passes(self, _host_state, _spec):
            raise failure

    # A message that is not valid text cannot be captured.
    with caplog.at_level(logging.CRITICAL + 1), pytest.raises(PluginFailed) as error:
        run_filters([FailingFilter()], HOSTS, DEFAULT_SPEC)
    assert f"FailingFilter failed: {expected} ({__file__}:" in error.value.detail
    assert error.value.__cause__ is failure


def test_invalid_error_raised_by_a_filter_is_not_a_plugin_failure():
    class InvalidErrorRaisingFilter(BaseHostFilter):
        def host_passes(self, _host, _spec):
            raise Invalid("not that")

    with pytest.raises(Invalid, match="not that"):
        run_filters([InvalidErrorRaisingFilter()], HOSTS, DEFAULT_SPEC)


class FilterWithoutMethods(BaseHostFilter):
    pass


class NewHostReturningFilter(BaseHostFilter):
    def filter_all(self, hosts, _spec):
        return [*hosts, build_host_state("cn9")]


class ObjectReturningFilter(BaseHostFilter):
    def filter_all(self, _hosts, _spec):
        return [object()]


class TextReturningFilter(BaseHostFilter):
    def rejection(self, _host_state, _spec):
        return "no"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (FilterWithoutMethods, "FilterWithoutMethods has neither host_passes nor rejection"),
        (NewHostReturningFilter, "filter_all returned a host that it was not given"),
        (ObjectReturningFilter, "filter_all returned a host that it was not given"),
        (TextReturningFilter, "TextReturningFilter failed: its result for cn1 is 'no', which is"),
    ],
)
def test_plugin_error_names_the_host_filter_with_an_invalid_result(kind, message):
    with pytest.raises(PluginFailed, match=message) as error:
        run_filters([kind()], HOSTS, DEFAULT_SPEC)
    assert kind.__name__ in error.value.detail


def test_host_filter_reads_the_options_of_its_request_in_conf():
    class OptionReadingFilter(BaseHostFilter):
        def host_passes(self, host_state, _spec):
            limit = CONF.filter_scheduler.host_subset_size
            assert CONF.service_down_time == self.settings.DEFAULT.service_down_time == 7
            return int(host_state.host[2:]) <= limit

    options = {"filter_scheduler__host_subset_size": 2, "DEFAULT__service_down_time": 7}
    plugin = OptionReadingFilter.with_settings(build_settings(**options))
    down_time = CONF.service_down_time
    assert list_host_names(run_filters([plugin], HOSTS, DEFAULT_SPEC)) == ["cn1", "cn2"]
    assert (CONF.filter_scheduler.host_subset_size, CONF.service_down_time) == (1, down_time)
    assert down_time != 7


AGGREGATE_UUIDS = [str(UUID(int=number)) for number in (1, 2)]
CONSTRAINED_SPEC = build_spec(
    request_level_params={"root_required": ["CUSTOM_A"], "root_forbidden": ["CUSTOM_B"]},
    requested_destination={
        "aggregates": AGGREGATE_UUIDS,
        "forbidden_aggregates": [str(UUID(int=3))],
    },
)


def build_result_with_params(**changes):
    return RequestFilterResult(
        replace(
            CONSTRAINED_SPEC,
            request_level_params=replace(CONSTRAINED_SPEC.request_level_params, **changes),
        )
    )


def build_result_with_destination(**changes):
    return RequestFilterResult(
        replace(
            CONSTRAINED_SPEC, requested_destination=replace(CONSTRAINED_SPEC.destination, **changes)
        )
    )


@pytest.mark.parametrize(
    "outcome",
    [
        None,
        Rejection("no"),
        Rejection(kind="no_project_aggregate", requested="p1"),
        RequestFilterResult(CONSTRAINED_SPEC),
        RequestFilterResult(CONSTRAINED_SPEC, {"found": ["x"], "how": {"many": 2}}),
        require_traits(CONSTRAINED_SPEC, "CUSTOM_C"),
        forbid_traits(CONSTRAINED_SPEC, "CUSTOM_C"),
        require_aggregates(CONSTRAINED_SPEC, AGGREGATE_UUIDS),
        forbid_aggregates(CONSTRAINED_SPEC, AGGREGATE_UUIDS),
    ],
    ids=range(9),
)
def test_request_filter_may_return_a_narrower_request_a_rejection_or_none(outcome):
    check_result(CONSTRAINED_SPEC, outcome)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (True, "expected .*, not bool"),
        ("no", "expected .*, not str"),
        (CONSTRAINED_SPEC, "expected .*, not RequestSpec"),
        (
            RequestFilterResult(None),
            "the spec of a RequestFilterResult must be a RequestSpec, not NoneType",
        ),
        (RequestFilterResult(CONSTRAINED_SPEC, None), None),
        (RequestFilterResult(CONSTRAINED_SPEC, [1]), None),
        (RequestFilterResult(CONSTRAINED_SPEC, {1: 2}), None),
        (RequestFilterResult(CONSTRAINED_SPEC, {"x": object()}), None),
        (Rejection(None), "the reason of a Rejection must be a string, not None"),
        (Rejection(""), "the reason of a Rejection must be a string, not ''"),
        (
            RequestFilterResult(replace(CONSTRAINED_SPEC, request_level_params=None)),
            "request_level_params became NoneType",
        ),
        (RequestFilterResult(replace(CONSTRAINED_SPEC, flavor=None)), "flavor became NoneType"),
        (
            RequestFilterResult(replace(CONSTRAINED_SPEC, scheduler_hints=None)),
            "scheduler_hints became NoneType",
        ),
        (
            RequestFilterResult(replace(CONSTRAINED_SPEC, num_instances=5)),
            "may not change num_instances",
        ),
        (
            build_result_with_params(root_required=CONSTRAINED_SPEC.root_required | {5}),
            "5 is not the name of a trait",
        ),
        (require_aggregates(CONSTRAINED_SPEC, ["not-a-uuid"]), "is not a uuid"),
        (require_aggregates(CONSTRAINED_SPEC, []), "is not a uuid"),
        (forbid_aggregates(CONSTRAINED_SPEC, ["zz"]), "is not a uuid"),
        (
            forbid_aggregates(CONSTRAINED_SPEC, ["0x00000000_0000_0000_0000_0000000001"]),
            "is not a uuid",
        ),
        (build_result_with_params(root_required=frozenset()), "removed constraints: CUSTOM_A"),
        (build_result_with_params(root_forbidden=frozenset()), "removed constraints: CUSTOM_B"),
        (
            build_result_with_destination(aggregates=CONSTRAINED_SPEC.destination.aggregates[:1]),
            f"removed constraints: {AGGREGATE_UUIDS[1]}",
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
        check_result(CONSTRAINED_SPEC, outcome)


class CloudWithAnAggregate:
    def host_aggregates(self):
        return build_aggregates({"ssd": "true"})


class AggregateConfiningFilter(BaseRequestFilter):
    name = "confines"

    def enabled(self, _settings):
        return True

    def apply(self, spec, world):
        uuids = [aggregate.uuid for aggregate in world.host_aggregates()]
        return RequestFilterResult(spec.with_instance("x"), {"aggregates": uuids})


class DisabledFilter(AggregateConfiningFilter):
    name = "off"

    def enabled(self, _settings):
        return False


class UnchangingFilter(AggregateConfiningFilter):
    name = ""

    def apply(self, _spec, _world):
        return None


class RejectingFilter(AggregateConfiningFilter):
    name = "no"

    def apply(self, _spec, _world):
        return Rejection("never")


def test_enabled_request_filters_narrow_the_request():
    run = run_request_filters(
        [AggregateConfiningFilter(), DisabledFilter(), UnchangingFilter()],
        DEFAULT_SPEC,
        CloudWithAnAggregate(),
    )
    assert run.spec.instance_uuid == "x"
    assert run.rejection is None
    applied = [(report.name, report.applied) for report in run.reports]
    assert applied == [("confines", True), ("off", False), ("UnchangingFilter", False)]
    assert run.reports[0].changes == {"aggregates": [build_aggregates({})[0].uuid]}
    assert run.reports[0].elapsed_ms > 0
    assert DEFAULT_SPEC.instance_uuid is None


def test_request_filters_after_a_rejection_still_narrow_the_request():
    class LaterRejectingFilter(RejectingFilter):
        name = "never"

        def apply(self, _spec, _world):
            return Rejection("nor this")

    run = run_request_filters(
        [
            AggregateConfiningFilter(),
            RejectingFilter(),
            AggregateConfiningFilter(),
            LaterRejectingFilter(),
        ],
        DEFAULT_SPEC,
        CloudWithAnAggregate(),
    )
    assert run.rejection == Rejection("never")
    assert [report.name for report in run.reports] == ["confines", "no", "confines", "never"]
    rejections = [report.as_json().get("rejection") for report in run.reports]
    assert rejections == [None, "never", None, "nor this"]
    assert isinstance(run.spec, RequestSpec)
    assert run.spec.instance_uuid == "x"


def test_error_for_a_forbidden_root_trait_names_the_request_filter():
    class TraitRequiringFilter(AggregateConfiningFilter):
        name = "wants"

        def apply(self, spec, _world):
            return require_traits(spec, "CUSTOM_A")

    spec = replace(
        DEFAULT_SPEC, request_level_params=RequestLevelParams(root_forbidden={"CUSTOM_A"})
    )
    both = "request filter wants and forbidden by .*request_level_params.root_forbidden"
    with pytest.raises(Invalid, match=both):
        run_request_filters([TraitRequiringFilter()], spec, CloudWithAnAggregate())


@pytest.mark.parametrize(
    "failure", [OperationalError("SELECT 1", {}, Exception("gone")), Unavailable("locked")]
)
def test_failure_to_read_the_cloud_is_not_reported_as_plugin_failure(failure):
    class FailingCloud:
        def host_aggregates(self):
            raise failure

    class InstanceReadingFilter(BaseHostFilter):
        def host_passes(self, _host, _spec):
            raise failure

    with pytest.raises(type(failure), match=r"gone|locked"):
        run_request_filters([AggregateConfiningFilter()], DEFAULT_SPEC, FailingCloud())
    with pytest.raises(type(failure), match=r"gone|locked"):
        run_filters([InstanceReadingFilter()], HOSTS, DEFAULT_SPEC)


def test_wrong_query_of_a_plugin_is_reported_as_its_failure():
    class QueryingFilter(BaseHostFilter):
        def host_passes(self, _host, _spec):
            raise NoResultFound("no row")

    with pytest.raises(PluginFailed, match="QueryingFilter failed: NoResultFound: no row"):
        run_filters([QueryingFilter()], HOSTS, DEFAULT_SPEC)


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
    ids=["number", "no request spec", "changes are no JSON", "exit of process", "exception"],
)
def test_plugin_error_names_the_request_filter(result, expected):
    class InvalidFilter(AggregateConfiningFilter):
        def apply(self, spec, _world):
            return result(spec)

    with pytest.raises(PluginFailed, match=f"InvalidFilter failed: .*{expected}"):
        run_request_filters([InvalidFilter()], DEFAULT_SPEC, CloudWithAnAggregate())


class PassingHostFilter(BaseHostFilter):
    def host_passes(self, _host, _spec):
        return True


class FailingCheckFilter(PassingHostFilter):
    def check(self, _spec):
        raise KeyError("early")


def test_error_of_a_check_method_names_the_host_filter():
    check_request([PassingHostFilter()], DEFAULT_SPEC)
    with pytest.raises(PluginFailed, match="FailingCheckFilter failed: KeyError: 'early'"):
        check_request([PassingHostFilter(), FailingCheckFilter()], DEFAULT_SPEC)
