# SPDX-License-Identifier: Apache-2.0
"""The run of the host filters: what it counts, names and turns into errors."""

import logging

import pytest

from placement_sched.config.conf import CONF
from placement_sched.errors import Invalid, PluginFailed
from placement_sched.model.explanation import Rejected
from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.filtering import run_filters
from placement_sched.scheduler.filters import BaseHostFilter
from tests.support.states import a_host, a_spec, settings_with

HOSTS = [a_host(name) for name in ("cn1", "cn2", "cn3")]
SPEC = a_spec()


class Refuses(BaseHostFilter):
    """Gives reasons, as ours do."""

    names = ("cn2",)

    def refusal(self, host_state, _spec):
        return (
            Rejection(f"{host_state.host} is not liked") if host_state.host in self.names else None
        )


class Passes(BaseHostFilter):
    """Says yes or no, as nova's do."""

    names = ("cn1",)

    def host_passes(self, host_state, _spec):
        return host_state.host not in self.names


def names(run):
    return [host.host for host in run.hosts]


def test_each_filter_sees_what_the_one_before_let_pass():
    run = run_filters([Refuses(), Passes()], HOSTS, SPEC)
    assert names(run) == ["cn3"]
    assert [(each.name, each.before, each.after) for each in run.reports] == [
        ("Refuses", 3, 2),
        ("Passes", 2, 1),
    ]


def test_refused_hosts_are_reported_with_the_reason_given():
    (report,) = run_filters([Refuses()], HOSTS, SPEC).reports
    assert report.rejected == (Rejected("cn2", "cn2", "cn2 is not liked"),)


def test_filter_without_reasons_is_reported_by_its_name():
    (report,) = run_filters([Passes()], HOSTS, SPEC).reports
    assert report.rejected == (Rejected("cn1", "cn1", "rejected by Passes"),)


def test_later_filters_do_not_run_once_no_host_is_left():
    class All(Refuses):
        names = ("cn1", "cn2", "cn3")

    run = run_filters([All(), Passes()], HOSTS, SPEC)
    assert names(run) == []
    assert [report.name for report in run.reports] == ["All"]


def test_without_filters_every_host_passes():
    run = run_filters([], HOSTS, SPEC)
    assert (names(run), run.reports) == (["cn1", "cn2", "cn3"], ())


def test_filter_all_that_returns_none_refuses_every_host():
    class Stops(BaseHostFilter):
        def filter_all(self, _hosts, _spec):
            return None

    run = run_filters([Stops(), Passes()], HOSTS, SPEC)
    assert names(run) == []
    assert [(each.before, each.after, len(each.rejected)) for each in run.reports] == [(3, 0, 3)]


def test_filter_all_may_return_any_iterable():
    class Lazy(BaseHostFilter):
        def filter_all(self, hosts, _spec):
            return (host for host in hosts if host.host != "cn3")

    run = run_filters([Lazy()], HOSTS, SPEC)
    assert names(run) == ["cn1", "cn2"]
    assert run.reports[0].rejected[0].reason == "rejected by Lazy"


def test_filter_one_may_be_overridden():
    class One(BaseHostFilter):
        def _filter_one(self, host_state, _spec):
            return host_state.host == "cn2"

    assert names(run_filters([One()], HOSTS, SPEC)) == ["cn2"]


def test_stricter_subclass_of_a_reasoning_filter_decides_by_its_own_host_passes():
    class Stricter(Refuses):
        def host_passes(self, host_state, spec):
            return super().host_passes(host_state, spec) and host_state.host != "cn3"

    run = run_filters([Stricter()], HOSTS, SPEC)
    assert names(run) == ["cn1"]
    assert [each.reason for each in run.reports[0].rejected] == [
        "cn2 is not liked",
        "rejected by Stricter",
    ]


class Prepares(BaseHostFilter):
    """Refuses the host that a request names; says nothing about other requests."""

    def for_request(self, spec_obj):
        disliked = spec_obj.scheduler_hints.get("not")
        if disliked is None:
            return None
        return lambda host: Rejection("not liked") if host.host == disliked[0] else None


def test_a_filter_may_work_out_once_what_it_asks_of_every_host():
    named = a_spec(scheduler_hints={"not": ["cn2"]})
    run = run_filters([Prepares()], HOSTS, named)
    assert names(run) == ["cn1", "cn3"]
    assert [each.reason for each in run.reports[0].rejected] == ["not liked"]
    assert not Prepares().host_passes(HOSTS[1], named)
    assert Prepares().refusal(HOSTS[1], named).reason == "not liked"


def test_every_host_passes_a_filter_that_has_nothing_to_ask():
    assert names(run_filters([Prepares()], HOSTS, SPEC)) == ["cn1", "cn2", "cn3"]
    assert Prepares().host_passes(HOSTS[1], SPEC)


def test_a_child_that_decides_in_another_way_is_asked_in_that_way():
    class Refusing(Prepares):
        def refusal(self, host_state, spec_obj):
            return super().refusal(host_state, spec_obj) or Rejection("nobody is good enough")

    class Passing(Prepares):
        def host_passes(self, host_state, spec_obj):
            return super().host_passes(host_state, spec_obj) and host_state.host != "cn1"

    named = a_spec(scheduler_hints={"not": ["cn2"]})
    run = run_filters([Refusing()], HOSTS, named)
    assert [each.reason for each in run.reports[0].rejected] == [
        "nobody is good enough",
        "not liked",
        "nobody is good enough",
    ]
    assert names(run_filters([Passing()], HOSTS, named)) == ["cn3"]


def test_anything_true_lets_pass_as_in_nova():
    class Truthy(BaseHostFilter):
        def host_passes(self, host_state, _spec):
            return "yes" if host_state.host == "cn1" else 0

    assert names(run_filters([Truthy()], HOSTS, SPEC)) == ["cn1"]


def test_filter_once_per_request_runs_for_the_first_instance_only():
    class Once(Passes):
        run_filter_once_per_request = True

    assert names(run_filters([Once()], HOSTS, SPEC, index=0)) == ["cn2", "cn3"]
    later = run_filters([Once(), Refuses()], HOSTS, SPEC, index=1)
    assert names(later) == ["cn1", "cn3"]
    assert [report.name for report in later.reports] == ["Refuses"]


def test_run_filter_for_index_may_be_overridden():
    class Second(Passes):
        def run_filter_for_index(self, index):
            return index == 1

    assert names(run_filters([Second()], HOSTS, SPEC, index=0)) == ["cn1", "cn2", "cn3"]
    assert names(run_filters([Second()], HOSTS, SPEC, index=1)) == ["cn2", "cn3"]


class Breaks(BaseHostFilter):
    def host_passes(self, _host, _spec):
        raise KeyError("oops")

    def check(self, _spec):
        raise KeyError("early")


def test_filter_that_raises_is_named():
    with pytest.raises(
        PluginFailed, match=r"test_filtering\.Breaks failed: KeyError: 'oops'"
    ) as seen:
        run_filters([Breaks()], HOSTS, SPEC)
    assert isinstance(seen.value.__cause__, KeyError)


@pytest.mark.parametrize("leaving", [SystemExit, GeneratorExit])
def test_filter_that_would_leave_is_named(leaving):
    class Leaves(BaseHostFilter):
        def host_passes(self, _host, _spec):
            raise leaving

    with pytest.raises(PluginFailed, match=f"Leaves failed: {leaving.__name__}"):
        run_filters([Leaves()], HOSTS, SPEC)


def test_filter_that_decides_nothing_is_named():
    class Idle(BaseHostFilter):
        pass

    with pytest.raises(PluginFailed, match="Idle has neither host_passes nor refusal"):
        run_filters([Idle()], HOSTS, SPEC)


def test_request_that_a_filter_finds_invalid_is_invalid():
    class Picky(BaseHostFilter):
        def host_passes(self, _host, _spec):
            raise Invalid("not that")

    with pytest.raises(Invalid, match="not that"):
        run_filters([Picky()], HOSTS, SPEC)


def test_filter_sees_the_options_of_its_request_in_conf():
    class Reads(BaseHostFilter):
        def host_passes(self, host_state, _spec):
            limit = CONF.filter_scheduler.host_subset_size
            assert CONF.service_down_time == self.settings.DEFAULT.service_down_time == 7
            return int(host_state.host[2:]) <= limit

    options = {"filter_scheduler__host_subset_size": 2, "DEFAULT__service_down_time": 7}
    plugin = Reads.with_settings(settings_with(**options))
    assert names(run_filters([plugin], HOSTS, SPEC)) == ["cn1", "cn2"]
    assert (CONF.filter_scheduler.host_subset_size, CONF.service_down_time) == (1, 60)


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (lambda hosts: [*hosts, a_host("cn9")], "filter_all returned a host that it was not given"),
        (lambda _hosts: [object()], "filter_all returned a host that it was not given"),
    ],
)
def test_a_filter_that_returns_what_it_was_not_given_is_named(returned, told):
    class Strange(BaseHostFilter):
        def filter_all(self, hosts, _spec):
            return returned(hosts)

    with pytest.raises(PluginFailed, match=told) as failed:
        run_filters([Strange()], HOSTS, SPEC)
    assert "Strange failed" in failed.value.detail


def test_a_host_that_a_filter_returns_twice_is_there_once():
    class Twice(BaseHostFilter):
        def filter_all(self, hosts, _spec):
            return [*hosts, *hosts]

    assert names(run_filters([Twice()], HOSTS, SPEC)) == ["cn1", "cn2", "cn3"]


class Wordless(Exception):
    def __str__(self):
        raise TypeError


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (lambda: ValueError("\udc80"), "ValueError: ?"),
        (Wordless, "Wordless: its message cannot be shown"),
    ],
    ids=["no text", "no words"],
)
def test_a_failure_is_told_whatever_its_words_are(caplog, failure, told):
    class Fails(BaseHostFilter):
        def host_passes(self, _host_state, _spec):
            raise failure()

    # What is no text cannot be captured either.
    with caplog.at_level(logging.CRITICAL + 1), pytest.raises(PluginFailed) as failed:
        run_filters([Fails()], HOSTS, SPEC)
    assert failed.value.detail.endswith(f"Fails failed: {told}")


def test_a_verdict_that_is_none_is_the_error_of_its_filter():
    class Talks(BaseHostFilter):
        def refusal(self, _host_state, _spec):
            return "no"

    with pytest.raises(PluginFailed, match="Talks failed: its verdict on cn1 is 'no', which is"):
        run_filters([Talks()], HOSTS, SPEC)
