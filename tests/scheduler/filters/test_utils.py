# SPDX-License-Identifier: Apache-2.0
"""Aggregate metadata and values that a host reports."""

import json

import pytest

from placement_sched.scheduler.filters import utils
from placement_sched.scheduler.filters.utils import (
    OncePerAggregates,
    aggregate_metadata_get_by_host,
    aggregate_values_from_key,
    collect_aggregate_values,
    find_value,
    validate_num_values,
)
from tests.support.states import build_aggregates, build_host_state

#: Too deep for any reader of JSON, and too deep for a document that is kept.
DEEPLY_NESTED_JSON = ("[" * 60_000, "[" * 200 + "]" * 200)

HOST_IN_AGGREGATES = build_host_state(
    aggregates=build_aggregates({"a": "1, 2", "b": "x"}, {"a": "3"}, {"c": "1"})
)


def test_metadata_of_all_aggregates_of_a_host_are_collected():
    assert aggregate_values_from_key(HOST_IN_AGGREGATES, "a") == {"1, 2", "3"}
    assert aggregate_values_from_key(HOST_IN_AGGREGATES, "z") == set()
    # These are split at commas.
    assert aggregate_metadata_get_by_host(HOST_IN_AGGREGATES) == {
        "a": {"1", "2", "3"},
        "b": {"x"},
        "c": {"1"},
    }
    assert aggregate_metadata_get_by_host(HOST_IN_AGGREGATES, key="a") == {
        "a": {"1", "2", "3"},
        "b": {"x"},
    }
    assert aggregate_metadata_get_by_host(HOST_IN_AGGREGATES, key="z") == {}
    assert collect_aggregate_values(HOST_IN_AGGREGATES, "a") == {"1", "2", "3"}
    assert collect_aggregate_values(HOST_IN_AGGREGATES, "z") == set()


def test_equal_aggregates_are_read_once_for_all_hosts():
    read = []
    result = OncePerAggregates(lambda host: read.append(host.host) or len(host.aggregates))
    first, second = build_aggregates({"a": "1"}, {"a": "2"})
    same = [build_host_state(name, aggregates=(first, second)) for name in ("cn1", "cn2", "cn3")]
    assert [result.get_value(host) for host in same] == [2, 2, 2]
    assert result.get_value(build_host_state("cn4", aggregates=(first,))) == 1
    assert result.get_value(build_host_state("cn5")) == 0
    assert read == ["cn1", "cn4", "cn5"]


@pytest.mark.parametrize(
    ("values", "options", "number"),
    [
        (set(), {}, "7"),
        ({"3"}, {}, 3),
        ({"10", "9"}, {}, 9),
        ({"10", "9"}, {"based_on": max}, 10),
        ({"1.5", "2"}, {"cast_to": float}, 1.5),
    ],
)
def test_smallest_number_of_aggregates_is_used_by_default(values, options, number):
    assert validate_num_values(values, default="7", **options) == number
    with pytest.raises(ValueError, match="x"):
        validate_num_values({*values, "x"}, default="7", **options)


HOST_WITH_CPU_INFO_AND_STATS = build_host_state(
    cpu_info='{"arch": "x86_64", "maxphysaddr": {"bits": 40}}', stats={"gpu": "1"}
)


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("host", "cn1"),
        ("gpu", "1"),
        ("stats:gpu", "1"),
        ("cpu_info:maxphysaddr:bits", 40),
        ("cpu_info:maxphysaddr", {"bits": 40}),
        ("cpu_info:model", None),
        ("host:deeper", None),
        ("nothing", None),
    ],
)
def test_host_value_is_found_by_a_path_of_attributes_stats_mappings_and_json(path, result):
    assert find_value(HOST_WITH_CPU_INFO_AND_STATS, path.split(":")) == result


@pytest.mark.parametrize("text", [*DEEPLY_NESTED_JSON, "no JSON"])
def test_path_into_invalid_json_of_a_host_has_no_value(text):
    assert find_value(build_host_state(stats={"a": text}), ["a", "b"]) is None
    assert find_value(build_host_state(stats={"a": text}), ["a"]) == text


@pytest.mark.parametrize("number", ["NaN", "1e400", f"1{'0' * 30}"])
def test_json_numbers_of_a_host_are_parsed_as_in_nova(number):
    host = build_host_state(stats={"a": f'{{"b": {number}}}'})
    assert str(find_value(host, ["a", "b"])) == str(json.loads(number))


def test_json_of_a_host_is_parsed_once_for_all_extra_specs():
    text = json.dumps({f"x{number}": number for number in range(100)})
    host = build_host_state(stats={"a": text})
    before = utils._decode.cache_info()
    assert [find_value(host, ["a", f"x{number}"]) for number in range(100)] == list(range(100))
    assert utils._decode.cache_info().misses == before.misses + 1
