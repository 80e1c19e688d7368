# SPDX-License-Identifier: Apache-2.0
"""Reading aggregate metadata, the one number that counts, and what a host reports."""

import json

import pytest

from placement_sched.scheduler.filters import utils
from placement_sched.scheduler.filters.utils import (
    OncePerAggregates,
    aggregate_metadata_get_by_host,
    aggregate_values,
    aggregate_values_from_key,
    validate_num_values,
    value_at,
)
from tests.support.states import a_host, aggregates

#: Too deep for any reader of JSON, and too deep for a document that is kept.
DEEP = ("[" * 60_000, "[" * 200 + "]" * 200)

HOST = a_host(aggregates=aggregates({"a": "1, 2", "b": "x"}, {"a": "3"}, {"c": "1"}))


def test_values_from_key_are_not_split():
    assert aggregate_values_from_key(HOST, "a") == {"1, 2", "3"}
    assert aggregate_values_from_key(HOST, "z") == set()


def test_metadata_are_split_at_commas():
    assert aggregate_metadata_get_by_host(HOST) == {"a": {"1", "2", "3"}, "b": {"x"}, "c": {"1"}}


def test_metadata_with_a_key_are_all_those_of_the_aggregates_that_have_it():
    assert aggregate_metadata_get_by_host(HOST, key="a") == {"a": {"1", "2", "3"}, "b": {"x"}}
    assert aggregate_metadata_get_by_host(HOST, key="z") == {}


def test_values_of_one_key_are_split_at_commas():
    assert aggregate_values(HOST, "a") == {"1", "2", "3"}
    assert aggregate_values(HOST, "z") == set()


def test_aggregates_are_read_once_for_all_hosts_in_the_same_ones():
    read = []
    found = OncePerAggregates(lambda host: read.append(host.host) or len(host.aggregates))
    one, two = aggregates({"a": "1"}, {"a": "2"})
    same = [a_host(name, aggregates=(one, two)) for name in ("cn1", "cn2", "cn3")]
    assert [found.of(host) for host in same] == [2, 2, 2]
    assert found.of(a_host("cn4", aggregates=(one,))) == 1
    assert found.of(a_host("cn5")) == 0
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
def test_smallest_number_counts_unless_told_otherwise(values, options, number):
    assert validate_num_values(values, default="7", **options) == number


def test_one_value_that_is_no_number_spoils_all():
    with pytest.raises(ValueError, match="x"):
        validate_num_values({"1", "x"})


REPORTING = a_host(cpu_info='{"arch": "x86_64", "maxphysaddr": {"bits": 40}}', stats={"gpu": "1"})


@pytest.mark.parametrize(
    ("path", "found"),
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
def test_path_leads_through_attributes_stats_mappings_and_json(path, found):
    assert value_at(REPORTING, path.split(":")) == found


@pytest.mark.parametrize("text", [*DEEP, "no JSON"])
def test_text_that_says_nothing_ends_the_path(text):
    assert value_at(a_host(stats={"a": text}), ["a", "b"]) is None
    assert value_at(a_host(stats={"a": text}), ["a"]) == text


@pytest.mark.parametrize("number", ["NaN", "1e400", f"1{'0' * 30}"])
def test_numbers_are_read_as_nova_reads_them(number):
    host = a_host(stats={"a": f'{{"b": {number}}}'})
    assert str(value_at(host, ["a", "b"])) == str(json.loads(number))


def test_text_is_read_once_for_all_extra_specs():
    text = json.dumps({f"x{number}": number for number in range(100)})
    host = a_host(stats={"a": text})
    before = utils._decode.cache_info()
    assert [value_at(host, ["a", f"x{number}"]) for number in range(100)] == list(range(100))
    assert utils._decode.cache_info().misses == before.misses + 1
