# SPDX-License-Identifier: Apache-2.0
"""Matching of series to hosts and servers, states, and smoothed values."""

from dataclasses import replace
from datetime import datetime, timedelta
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.extensions.load.values import (
    HOST,
    MAX_EXAMPLES,
    NOT_A_NUMBER,
    OK,
    OLD,
    OUT_OF_RANGE,
    SERVER,
    SEVERAL_SERIES,
    LoadQuery,
    LoadValue,
    Series,
    evaluate_series,
    smooth_values,
)

NOW = datetime(2026, 1, 1, 12)
CPU = LoadQuery(HOST, "cpu", "cpu", "nodename")
HOSTS = {"cn1": "cn1", "cn1.example.org": "cn1", "cn2": "cn2"}


def evaluate(*pairs, query=CPU, subjects=HOSTS):
    series = [Series({query.label: label}, value, NOW) for label, value in pairs]
    report, values = evaluate_series(query, series, subjects, NOW)
    return report, {value.subject: value for value in values}


def test_series_match_the_host_or_its_hypervisor():
    report, values = evaluate(("cn1.example.org", 0.25), ("cn2", 0.5))
    assert {name: (value.state, value.value) for name, value in values.items()} == {
        "cn1": (OK, 0.25),
        "cn2": (OK, 0.5),
    }
    assert (report.series, report.matched, report.unmatched, report.missing) == (2, 2, 0, 0)


@pytest.mark.parametrize(
    ("found", "state", "value"),
    [
        ([nan], NOT_A_NUMBER, None),
        ([inf], NOT_A_NUMBER, None),
        ([-inf], NOT_A_NUMBER, None),
        ([1.5], OUT_OF_RANGE, 1.5),
        ([-0.1], OUT_OF_RANGE, -0.1),
        ([0.0], OK, 0.0),
        ([1.0], OK, 1.0),
        # Also if both are equal: it is not certain that they are the same.
        ([0.5, 0.5], SEVERAL_SERIES, None),
        ([0.5, nan], SEVERAL_SERIES, None),
    ],
)
def test_host_has_a_value_only_if_it_is_certain(found, state, value):
    report, values = evaluate(*(("cn1", each) for each in found))
    assert (values["cn1"].state, values["cn1"].value) == (state, value)
    counts = {
        NOT_A_NUMBER: report.not_a_number,
        SEVERAL_SERIES: report.several_series,
        OUT_OF_RANGE: report.out_of_range,
    }
    assert counts == {name: int(name == state) for name in counts}


def test_two_hypervisors_of_a_host_are_several_series():
    _, values = evaluate(("cn1", 0.1), ("cn1.example.org", 0.2))
    assert values["cn1"].state == SEVERAL_SERIES


def test_value_of_a_server_may_exceed_1_and_is_counted():
    query = LoadQuery(SERVER, "cpu", "cpu", "instance_id")
    report, values = evaluate(("uuid", 3.5), query=query, subjects={"uuid": "uuid"})
    assert (values["uuid"].state, values["uuid"].value, report.out_of_range) == (OK, 3.5, 1)


def test_labels_similar_to_hosts_are_listed_first_and_match_nothing():
    report, values = evaluate(("a1", 0.1), ("CN2.example.org:9100", 0.5), ("cn9", 0.5))
    assert values == {}
    assert list(report.unmatched_labels.items()) == [
        ("CN2.example.org:9100", "cn2"),
        ("a1", None),
        ("cn9", None),
    ]
    assert report.missing_names == ["cn1", "cn2"]


def test_label_similar_to_two_hosts_has_no_similar_host():
    subjects = {"cn1.a": "cn1.a", "cn1.b": "cn1.b"}
    report, _ = evaluate(("cn1", 0.1), subjects=subjects)
    assert report.unmatched_labels == {"cn1": None}


def test_renamed_label_is_reported_with_the_labels_of_the_series():
    series = [Series({"instance": "cn1:9100", "job": "node"}, 0.5, NOW)]
    report, values = evaluate_series(CPU, series, HOSTS, NOW)
    assert (values, report.without_label, report.labels) == ([], 1, ["instance", "job"])


def test_lists_of_a_report_are_bounded():
    subjects = {f"cn{number}": f"cn{number}" for number in range(10_000)}
    report, _ = evaluate(*((f"x{number}", 0.5) for number in range(10_000)), subjects=subjects)
    assert (report.unmatched, report.missing) == (10_000, 10_000)
    assert len(report.unmatched_labels) == len(report.missing_names) == MAX_EXAMPLES


def test_value_becomes_old_after_the_maximum_age():
    value = LoadValue("cn1", OK, 0.5, 0.5, NOW)
    assert value.find_state(NOW + timedelta(seconds=180), 180) == OK
    assert value.find_state(NOW + timedelta(seconds=181), 180) == OLD


def test_clock_of_prometheus_ahead_makes_no_value_younger():
    series = [Series({"nodename": "cn1"}, 0.5, NOW + timedelta(hours=1))]
    _, (value,) = evaluate_series(CPU, series, HOSTS, NOW)
    assert value.measured_at == NOW


@pytest.mark.parametrize(
    ("elapsed", "half_life", "smoothed"),
    [(600, 600, 0.5), (1200, 600, 0.75), (0, 600, 0.0), (600, 0, 1.0), (-60, 600, 0.0)],
)
def test_weight_of_the_average_halves_in_the_half_life(elapsed, half_life, smoothed):
    last = LoadValue("cn1", OK, 0.0, 0.0, NOW)
    new = LoadValue("cn1", OK, 1.0, None, NOW + timedelta(seconds=elapsed))
    assert smooth_values([new], {"cn1": last}, half_life) == [replace(new, smoothed=smoothed)]


def test_average_begins_with_the_first_value_after_an_error():
    broken = LoadValue("cn1", SEVERAL_SERIES, None, None, NOW)
    new = LoadValue("cn1", OK, 0.7, None, NOW)
    assert smooth_values([new], {}, 600) == [replace(new, smoothed=0.7)]
    assert smooth_values([new], {"cn1": broken}, 600) == [replace(new, smoothed=0.7)]
    assert smooth_values([broken], {"cn1": new}, 600) == [broken]


def test_average_of_the_largest_numbers_is_finite():
    last = LoadValue("uuid", OK, -1e308, -1e308, NOW)
    new = LoadValue("uuid", OK, 1e308, None, NOW + timedelta(seconds=600))
    assert smooth_values([new], {"uuid": last}, 600) == [replace(new, smoothed=0.0)]


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 10_000)), min_size=1))
def test_average_stays_between_the_lowest_and_the_highest_value(steps):
    values, moment = {}, NOW
    for value, elapsed in steps:
        moment += timedelta(seconds=elapsed)
        (new,) = smooth_values([LoadValue("cn1", OK, value, None, moment)], values, 600)
        values = {"cn1": new}
    lowest, highest = min(steps)[0], max(steps)[0]
    assert lowest - 1e-9 <= values["cn1"].smoothed <= highest + 1e-9
