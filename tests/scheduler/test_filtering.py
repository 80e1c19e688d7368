# SPDX-License-Identifier: Apache-2.0
"""Runs of host filters: counts, reasons and errors."""

import logging

import pytest

from placement_sched.config.conf import CONF
from placement_sched.errors import Invalid, PluginFailed
from placement_sched.model.explanation import Rejected
from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.filtering import run_filters
from placement_sched.scheduler.filters import BaseHostFilter
from tests.support.states import build_host_state, build_spec, settings_with

HOSTS = [build_host_state(name) for name in ("cn1", "cn2", "cn3")]
SPEC = build_spec()


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
    run = run_filters([ReasonGivingFilter(), HostPassesFilter()], HOSTS, SPEC)
    assert list_host_names(run) == ["cn3"]
    first, second = run.reports
    assert (first.name, first.before, first.after) == ("ReasonGivingFilter", 3, 2)
    assert first.rejected == (Rejected("cn2", "cn2", "cn2 is not liked"),)
    assert (second.name, second.before, second.after) == ("HostPassesFilter", 2, 1)
    assert second.rejected == (Rejected("cn1", "cn1", "rejected by HostPassesFilter"),)
    run = run_filters([], HOSTS, SPEC)
    assert (list_host_names(run), run.reports) == (["cn1", "cn2", "cn3"], ())


def test_later_filters_do_not_run_if_no_host_remains():
    class AllHostsRejectingFilter(ReasonGivingFilter):
        names = ("cn1", "cn2", "cn3")

    run = run_filters([AllHostsRejectingFilter(), HostPassesFilter()], HOSTS, SPEC)
    assert list_host_names(run) == []
    assert [report.name for report in run.reports] == ["AllHostsRejectingFilter"]


def test_filter_all_that_returns_none_rejects_every_host():
    class NoneReturningFilter(BaseHostFilter):
        def filter_all(self, _hosts, _spec):
            return None

    run = run_filters([NoneReturningFilter(), HostPassesFilter()], HOSTS, SPEC)
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
def test_filters_may_decide_by_any_interface_of_nova(kind):
    run = run_filters([kind()], HOSTS, SPEC)
    assert list_host_names(run) == ["cn1"]
    reasons = {rejection.reason for rejection in run.reports[0].rejected}
    assert reasons == {f"rejected by {kind.__name__}"}


def test_host_passes_method_added_by_a_subclass_rejects_hosts():
    class StricterHostPassesFilter(ReasonGivingFilter):
        def host_passes(self, host_state, spec):
            return super().host_passes(host_state, spec) and host_state.host != "cn3"

    run = run_filters([StricterHostPassesFilter()], HOSTS, SPEC)
    assert list_host_names(run) == ["cn1"]
    reasons = [rejection.reason for rejection in run.reports[0].rejected]
    assert reasons == ["cn2 is not liked", "rejected by StricterHostPassesFilter"]


class PreparedFilter(BaseHostFilter):
    """Rejects the host in the hint of a request."""

    def prepare(self, spec_obj):
        disliked = spec_obj.scheduler_hints.get("not")
        if disliked is None:
            return None
        return lambda host: Rejection("not liked") if host.host == disliked[0] else None


def test_function_returned_by_prepare_decides_on_every_host():
    spec = build_spec(scheduler_hints={"not": ["cn2"]})
    run = run_filters([PreparedFilter()], HOSTS, spec)
    assert list_host_names(run) == ["cn1", "cn3"]
    assert [rejection.reason for rejection in run.reports[0].rejected] == ["not liked"]
    assert not PreparedFilter().host_passes(HOSTS[1], spec)
    assert PreparedFilter().rejection(HOSTS[1], spec).reason == "not liked"
    assert list_host_names(run_filters([PreparedFilter()], HOSTS, SPEC)) == ["cn1", "cn2", "cn3"]
    assert PreparedFilter().host_passes(HOSTS[1], SPEC)


def test_methods_overridden_by_a_subclass_run_instead_of_prepare():
    class FilterWithRejectionMethod(PreparedFilter):
        def rejection(self, host_state, spec_obj):
            return super().rejection(host_state, spec_obj) or Rejection("nobody is good enough")

    class FilterWithHostPassesMethod(PreparedFilter):
        def host_passes(self, host_state, spec_obj):
            return super().host_passes(host_state, spec_obj) and host_state.host != "cn1"

    named = build_spec(scheduler_hints={"not": ["cn2"]})
    run = run_filters([FilterWithRejectionMethod()], HOSTS, named)
    reasons = [rejection.reason for rejection in run.reports[0].rejected]
    assert reasons == ["nobody is good enough", "not liked", "nobody is good enough"]
    assert list_host_names(run_filters([FilterWithHostPassesMethod()], HOSTS, named)) == ["cn3"]


def test_filter_may_run_for_some_instances_only():
    class OncePerRequestFilter(HostPassesFilter):
        run_filter_once_per_request = True

    class SecondInstanceFilter(HostPassesFilter):
        def run_filter_for_index(self, index):
            return index == 1

    hosts = list_host_names(run_filters([OncePerRequestFilter()], HOSTS, SPEC, index=0))
    assert hosts == ["cn2", "cn3"]
    later = run_filters([OncePerRequestFilter(), ReasonGivingFilter()], HOSTS, SPEC, index=1)
    assert list_host_names(later) == ["cn1", "cn3"]
    assert [report.name for report in later.reports] == ["ReasonGivingFilter"]
    hosts = list_host_names(run_filters([SecondInstanceFilter()], HOSTS, SPEC, index=0))
    assert hosts == ["cn1", "cn2", "cn3"]
    hosts = list_host_names(run_filters([SecondInstanceFilter()], HOSTS, SPEC, index=1))
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
def test_error_names_the_filter_that_raised(caplog, failure, expected):
    class FailingFilter(BaseHostFilter):
        def host_passes(self, _host_state, _spec):
            raise failure

    # A message that is not valid text cannot be captured.
    with caplog.at_level(logging.CRITICAL + 1), pytest.raises(PluginFailed) as error:
        run_filters([FailingFilter()], HOSTS, SPEC)
    assert f"FailingFilter failed: {expected} ({__file__}:" in error.value.detail
    assert error.value.__cause__ is failure


def test_invalid_error_raised_by_a_filter_is_not_a_plugin_failure():
    class InvalidErrorRaisingFilter(BaseHostFilter):
        def host_passes(self, _host, _spec):
            raise Invalid("not that")

    with pytest.raises(Invalid, match="not that"):
        run_filters([InvalidErrorRaisingFilter()], HOSTS, SPEC)


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
        (TextReturningFilter, "TextReturningFilter failed: its verdict on cn1 is 'no', which is"),
    ],
)
def test_error_names_the_filter_with_an_invalid_result(kind, message):
    with pytest.raises(PluginFailed, match=message) as error:
        run_filters([kind()], HOSTS, SPEC)
    assert kind.__name__ in error.value.detail


def test_filter_reads_the_options_of_its_request_in_conf():
    class OptionReadingFilter(BaseHostFilter):
        def host_passes(self, host_state, _spec):
            limit = CONF.filter_scheduler.host_subset_size
            assert CONF.service_down_time == self.settings.DEFAULT.service_down_time == 7
            return int(host_state.host[2:]) <= limit

    options = {"filter_scheduler__host_subset_size": 2, "DEFAULT__service_down_time": 7}
    plugin = OptionReadingFilter.with_settings(settings_with(**options))
    down_time = CONF.service_down_time
    assert list_host_names(run_filters([plugin], HOSTS, SPEC)) == ["cn1", "cn2"]
    assert (CONF.filter_scheduler.host_subset_size, CONF.service_down_time) == (1, down_time)
    assert down_time != 7
