"""The runners: what they count, name, order and turn into errors."""

import logging
import sys
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.config import CONF
from placement_sched.errors import Invalid, PluginFailed, Unavailable
from placement_sched.model.report import Rejected
from placement_sched.model.spec import RequestLevelParams, RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.request_filters import BaseRequestFilter, Outcome, requiring
from placement_sched.scheduler.stages import (
    check_request,
    run_filters,
    run_request_filters,
    run_weighers,
)
from placement_sched.scheduler.weights import BaseHostWeigher
from tests.scheduler.states import a_host, a_spec, aggregates, settings_with

HOSTS = [a_host(name) for name in ("cn1", "cn2", "cn3")]
SPEC = a_spec()


class Refuses(BaseHostFilter):
    """Gives reasons, as ours do."""

    names = ("cn2",)

    def refusal(self, host_state, _spec):
        return Refusal(f"{host_state.host} is not liked") if host_state.host in self.names else None


class Passes(BaseHostFilter):
    """Says yes or no, as nova's do."""

    names = ("cn1",)

    def host_passes(self, host_state, _spec):
        return host_state.host not in self.names


def names(run):
    return [host.host for host in run.hosts]


# Host filters


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
    assert report.rejected == (Rejected("cn1", "cn1", "refused by Passes"),)


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
    assert run.reports[0].rejected[0].reason == "refused by Lazy"


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
        "refused by Stricter",
    ]


class Prepares(BaseHostFilter):
    """Refuses the host that a request names; says nothing about other requests."""

    def for_request(self, spec_obj):
        disliked = spec_obj.scheduler_hints.get("not")
        if disliked is None:
            return None
        return lambda host: Refusal("not liked") if host.host == disliked[0] else None


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
            return super().refusal(host_state, spec_obj) or Refusal("nobody is good enough")

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
    with pytest.raises(PluginFailed, match=r"test_stages\.Breaks failed: KeyError: 'oops'") as seen:
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


def test_check_request_asks_every_filter_and_names_one_that_breaks():
    check_request([Refuses(), Passes()], SPEC)
    with pytest.raises(PluginFailed, match="Breaks failed: KeyError: 'early'"):
        check_request([Refuses(), Breaks()], SPEC)


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


# Weighers


class Free(BaseHostWeigher):
    def _weigh_object(self, host_state, _spec):
        return host_state.free_ram_mb


class Zone(BaseHostWeigher):
    minval = 0
    maxval = 4

    def weight_multiplier(self, host_state):
        return 2.0 if host_state.host == "cn1" else 1.0

    def weigh_objects(self, weighed, _spec):
        return [len(item.obj.aggregates) for item in weighed]


def order(run):
    return [(host.obj.host, host.obj.nodename, host.weight) for host in run.hosts]


def test_weights_add_up_multiplied_and_normalised():
    hosts = [
        a_host("cn1", free_ram_mb=10, aggregates=aggregates({}, {})),
        a_host("cn2", free_ram_mb=30),
        a_host("cn3", free_ram_mb=20, aggregates=aggregates({})),
    ]
    run = run_weighers([Free(), Zone()], hosts, SPEC)
    assert order(run) == [("cn1", "cn1", 1.0), ("cn2", "cn2", 1.0), ("cn3", "cn3", 0.75)]
    first = run.host_reports()[0]
    assert (first.host, first.weight) == ("cn1", 1.0)
    assert first.weights["Free"].as_json() == {
        "raw": 10,
        "normalized": 0.0,
        "multiplier": 1.0,
        "weighted": 0.0,
    }
    assert first.weights["Zone"].as_json() == {
        "raw": 2,
        "normalized": 0.5,
        "multiplier": 2.0,
        "weighted": 1.0,
    }
    assert [report.as_json() for report in run.reports] == [
        {"name": "Free", "multiplier": 1.0},
        {"name": "Zone", "multiplier": 2.0},
    ]


def test_equal_weights_are_ordered_by_host_then_node():
    hosts = [a_host("b"), a_host("a", "n2"), a_host("c"), a_host("a", "n1")]
    run = run_weighers([Free()], hosts, SPEC)
    assert [each[:2] for each in order(run)] == [("a", "n1"), ("a", "n2"), ("b", "b"), ("c", "c")]
    assert {each[2] for each in order(run)} == {0.0}


def test_single_host_is_not_weighed():
    class Never(BaseHostWeigher):
        def _weigh_object(self, _host, _spec):
            raise AssertionError("weighed")

    run = run_weighers([Never()], HOSTS[:1], SPEC)
    assert (order(run), run.reports) == ([("cn1", "cn1", 0.0)], ())
    assert run.host_reports()[0].weights == {}


class Unconcerned(BaseHostWeigher):
    def concerns(self, spec):
        return "matters" in spec.scheduler_hints

    def _weigh_object(self, host_state, _spec):
        return int(host_state.host[2:])


def test_weigher_that_a_request_does_not_concern_is_told_of_and_not_asked():
    run = run_weighers([Unconcerned()], HOSTS, SPEC)
    assert [name for name, *_ in order(run)] == ["cn1", "cn2", "cn3"]
    assert [report.as_json() for report in run.reports] == [
        {"name": "Unconcerned", "multiplier": 1.0}
    ]
    (told,) = {str(report.weights["Unconcerned"].as_json()) for report in run.host_reports()}
    assert told == str({"raw": 0.0, "normalized": 0.0, "multiplier": 1.0, "weighted": 0.0})
    asked = a_spec(scheduler_hints={"matters": "yes"})
    assert [name for name, *_ in order(run_weighers([Unconcerned()], HOSTS, asked))] == [
        "cn3",
        "cn2",
        "cn1",
    ]


def test_weighers_derived_of_it_that_weigh_in_their_own_way_are_asked():
    class Object(Unconcerned):
        def _weigh_object(self, host_state, spec):
            return super()._weigh_object(host_state, spec)

    class Objects(Unconcerned):
        def weigh_objects(self, weighed, _spec):
            return [int(item.obj.host[2:]) for item in weighed]

    class Named(Unconcerned):
        def weight_multiplier(self, _host):
            return 3.0

    for kind, first in ((Object, "cn3"), (Objects, "cn3"), (Named, "cn1")):
        assert order(run_weighers([kind()], HOSTS, SPEC))[0][0] == first


def test_weights_whose_sum_is_no_number_are_weights():
    class Huge(BaseHostWeigher):
        def weigh_objects(self, weighed, _spec):
            return [1e308 for _ in weighed]

    assert len(run_weighers([Huge()], HOSTS, SPEC).hosts) == len(HOSTS)


def test_no_host_and_no_weigher_are_answers():
    assert run_weighers([Free()], [], SPEC).hosts == []
    assert [name for name, *_ in order(run_weighers([], HOSTS, SPEC))] == ["cn1", "cn2", "cn3"]


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ([1, 2], "ValueError: 2 weights for 3 hosts"),
        ([1, None, 2], "TypeError"),
        ([1, float("inf"), 2], "ValueError: a weight or multiplier of inf"),
        ([1, float("nan"), 2], "ValueError: a weight or multiplier of nan"),
        (None, "TypeError"),
    ],
)
def test_weigher_that_weighs_wrongly_is_named(weights, reason):
    class Wrong(BaseHostWeigher):
        def weigh_objects(self, _weighed, _spec):
            return weights

    with pytest.raises(PluginFailed, match=rf"Wrong failed: {reason}"):
        run_weighers([Wrong()], HOSTS, SPEC)


@given(st.lists(st.integers(0, 5), max_size=8), st.sampled_from([-1.0, 0.0, 2.5]))
def test_order_is_that_of_a_naive_model(figures, multiplier):
    class Times(Free):
        def weight_multiplier(self, _host):
            return multiplier

    hosts = [a_host(f"cn{number}", free_ram_mb=each) for number, each in enumerate(figures)]
    expected = sorted(hosts, key=lambda host: (-multiplier * host.free_ram_mb, host.host))
    if multiplier == 0.0:
        expected = sorted(hosts, key=lambda host: host.host)
    run = run_weighers([Times()], hosts, SPEC)
    assert [weighed.obj for weighed in run.hosts] == expected


# Request filters


class Cloud:
    def host_aggregates(self):
        return aggregates({"ssd": "true"})


class Confines(BaseRequestFilter):
    name = "confines"

    def enabled(self, _settings):
        return True

    def apply(self, spec, world):
        uuids = [aggregate.uuid for aggregate in world.host_aggregates()]
        return Outcome(spec.for_instance("x"), {"aggregates": uuids})


class Off(Confines):
    name = "off"

    def enabled(self, _settings):
        return False


class Passive(Confines):
    name = ""

    def apply(self, _spec, _world):
        return None


class No(Confines):
    name = "no"

    def apply(self, _spec, _world):
        return Refusal("never")


def test_request_is_narrowed_by_those_that_apply():
    run = run_request_filters([Confines(), Off(), Passive()], SPEC, Cloud())
    assert run.spec.instance_uuid == "x"
    assert run.refusal is None
    assert [(each.name, each.applied) for each in run.reports] == [
        ("confines", True),
        ("off", False),
        ("Passive", False),
    ]
    assert run.reports[0].changes == {"aggregates": [aggregates({})[0].uuid]}
    assert run.reports[0].elapsed_ms > 0
    assert SPEC.instance_uuid is None


def test_refusal_stands_and_later_filters_narrow_all_the_same():
    class Never(No):
        name = "never"

        def apply(self, _spec, _world):
            return Refusal("nor this")

    run = run_request_filters([Confines(), No(), Confines(), Never()], SPEC, Cloud())
    assert run.refusal == Refusal("never")
    assert [report.name for report in run.reports] == ["confines", "no", "confines", "never"]
    assert [report.as_json().get("refusal") for report in run.reports] == [
        None,
        "never",
        None,
        "nor this",
    ]
    assert isinstance(run.spec, RequestSpec)
    assert run.spec.instance_uuid == "x"


def test_root_trait_that_a_filter_wants_and_the_request_forbids_is_refused_by_both():
    class Wants(Confines):
        name = "wants"

        def apply(self, spec, _world):
            return requiring(spec, "CUSTOM_A")

    spec = replace(SPEC, request_level_params=RequestLevelParams(root_forbidden={"CUSTOM_A"}))
    both = "request filter wants and forbidden by .*request_level_params.root_forbidden"
    with pytest.raises(Invalid, match=both):
        run_request_filters([Wants()], spec, Cloud())


def test_request_filter_that_raises_is_named():
    class Bad(Confines):
        def apply(self, _spec, _world):
            return 1 / 0

    with pytest.raises(PluginFailed, match="Bad failed: ZeroDivisionError"):
        run_request_filters([Bad()], SPEC, Cloud())


@pytest.mark.parametrize("failure", [ConnectionError("gone"), Unavailable("locked")])
def test_what_the_world_raises_is_not_the_filters_fault(failure):
    class Lost:
        def host_aggregates(self):
            raise failure

    with pytest.raises(type(failure), match=str(failure)):
        run_request_filters([Confines()], SPEC, Lost())


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda _spec: 42, "apply returned int, no Outcome, Refusal or None"),
        (lambda _spec: Outcome(None), "spec is NoneType, no RequestSpec"),
        (lambda spec: Outcome(spec, {"x": {1}}), "TypeError"),
        (lambda _spec: sys.exit(3), "SystemExit"),
    ],
    ids=["a number", "no request", "what JSON has not", "an exit"],
)
def test_request_filter_that_makes_nonsense_is_named(made, told):
    class Bad(Confines):
        def apply(self, spec, _world):
            return made(spec)

    with pytest.raises(PluginFailed, match=f"Bad failed: .*{told}"):
        run_request_filters([Bad()], SPEC, Cloud())


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (lambda hosts: [*hosts, a_host("cn9")], "it returned a host that it was not asked about"),
        (lambda _hosts: [object()], "it returned a host that it was not asked about"),
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
        (Wordless, "Wordless: what it says cannot be told"),
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


@pytest.mark.parametrize("number", [Fraction(1, 2), Decimal("0.5"), 2**70, True])
def test_weights_of_any_kind_of_number_become_plain_ones(number):
    class Weighs(BaseHostWeigher):
        def _weigh_object(self, host_state, _spec):
            return number if host_state.host == "cn1" else 0

        def weight_multiplier(self, _host_state):
            return Fraction(2)

    run = run_weighers([Weighs()], HOSTS, SPEC)
    told = run.host_reports()[0].weights["Weighs"]
    assert {type(value) for value in (*told, run.hosts[0].weight)} == {float}
    assert run.hosts[0].weight == 2.0
