# SPDX-License-Identifier: Apache-2.0
"""Host filter by a JSON query, as in nova until 18."""

import json

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.filters.json_filter import JsonFilter
from tests.conftest import make_settings
from tests.support.scheduling import make_report, make_spec
from tests.support.states import build_host_state, build_spec, find_rejection

QUERY_HINT_JSON_PATH = "at $.request_spec.scheduler_hints.query"


def find_filter_rejection(query, **attributes):
    plugin = JsonFilter()
    host = build_host_state(**{"free_ram_mb": 512, "stats": {"num_instances": "3"}} | attributes)
    request = build_spec(scheduler_hints={} if query is None else {"query": query})
    plugin.check(request)
    return find_rejection(plugin, host, request)


TRUE_QUERIES = [
    ["=", "$free_ram_mb", 512],
    ["=", 1, 1, 1],
    ["<", 1, 2, 3],
    [">", "$free_ram_mb", 30],
    [">=", "$free_ram_mb", 512, 1],
    ["<=", "$free_ram_mb", 512],
    ["in", "$host", "cn1", "cn2"],
    ["in", 1, 3, 2, 1],
    ["not", ["=", 1, 2]],
    ["not", True, ["=", 1, 2]],
    ["or", False, ["=", 1, 1]],
    ["or", ["not", True], True],
    ["and", True, ["=", 1, 1]],
    ["and"],
    ["and", ["not", True]],
    ["=", "$stats.num_instances", "3"],
    ["not", ["=", "$nothing.of_the_kind", 1]],
    ["and", [">=", "$free_ram_mb", 256], ["not", ["in", "$host", "cn2", "cn3"]]],
    [],
]


@pytest.mark.parametrize("query", TRUE_QUERIES, ids=str)
def test_host_with_a_true_json_query_passes(query):
    assert find_filter_rejection(json.dumps(query)) is None


@pytest.mark.parametrize("query", [None, "", "{}", "null", ["[]"]], ids=str)
def test_every_host_passes_without_a_json_query(query):
    assert find_filter_rejection(query) is None


def test_json_query_may_be_a_list():
    assert find_filter_rejection([">=", "$free_ram_mb", 512]) is None
    assert find_filter_rejection(["not", ["in", "$host", "cn1"]]) is not None


FALSE_QUERIES = [
    (["=", "$free_ram_mb", 511], "$free_ram_mb is 512"),
    (["=", 1, 1, 2], ""),
    (["<", 1, 3, 1], ""),
    ([">", "$free_ram_mb", 512], "$free_ram_mb is 512"),
    ([">=", "$free_ram_mb", 512, 513], "$free_ram_mb is 512"),
    (["in", "$host", "cn2"], "$host is 'cn1'"),
    (["in", 1], ""),
    (["=", "$instances", 1], "$instances is {}"),
    (["=", "$allocation_candidates", 1], "$allocation_candidates is []"),
    (["=", 1], ""),
    (["="], ""),
    (["not"], ""),
    (["not", True], ""),
    (["or"], ""),
    (["or", False, ["=", 1, 2]], ""),
    (["and", True, ["=", 1, 2]], ""),
    (["<", "$nothing", 1], "$nothing is None"),
    (["=", "$refusal", "$__class__"], "$__class__ is None, $refusal is None"),
    (["<", "$stats.nothing.more", 1], "$stats.nothing.more is None"),
    (["=", "$uuid", "", "$uuid"], "$uuid is None"),
]


@pytest.mark.parametrize(("query", "expected"), FALSE_QUERIES, ids=str)
def test_host_with_a_false_json_query_is_rejected_with_its_values(query, expected):
    text = json.dumps(query, separators=(",", ":"))
    reason = find_filter_rejection(json.dumps(query))
    assert reason == f"{text} does not hold{': ' if expected else ''}{expected}"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("[", "the query is not JSON: "),
        ('["~", 1]', r"query\[0\]: '~' is not an operator \(= < > in <= >= not or and\)"),
        ('["and", true, ["or", ["=="]]]', r"query\[2\]\[1\]\[0\]: '==' is not an operator"),
        ("[1, 2]", r"query\[0\]: 1 is not an operator"),
        ('[["="], 1]', r"query\[0\]: \['='\] is not an operator"),
        ('"="', "query is not a list"),
        ('{"=": 1}', "query is not a list"),
        ("[" * 600 + "]" * 600, "not an operator|deep"),
        ('["not", ' * 60 + "true" + "]" * 60, "more than 50 lists deep"),
        (["or", *[["=", 1, 2]] * 60], "over 200 values"),
        (["=", "a" * 5000], "or 4096 characters"),
    ],
)
def test_error_for_an_invalid_json_query_has_the_path_of_the_hint(query, expected):
    with pytest.raises(Invalid, match=f"{expected}.*{QUERY_HINT_JSON_PATH.replace('$', '[$]')}"):
        find_filter_rejection(query)


def test_invalid_json_query_is_400_and_failed_comparison_is_500(make_app, sqlite_url):
    app = make_app(make_settings(sqlite_url, filter_scheduler__enabled_filters=["JsonFilter"]))
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])

    def explain_with_query(query, status):
        body = {"request_spec": make_spec(scheduler_hints={"query": query})}
        return app.post_json("/scheduler/v1/explain", body, status=status).json

    assert QUERY_HINT_JSON_PATH in explain_with_query('["~"]', 400)["errors"][0]["detail"]
    (error,) = explain_with_query('["<", "$host", 5]', 500)["errors"]
    assert error["code"] == "scheduler.filter_error"
    assert "JsonFilter" in error["detail"]
    assert (
        explain_with_query('["=", "$host.name", 5]', 500)["errors"][0]["code"]
        == "scheduler.filter_error"
    )
    (error,) = explain_with_query(["=", "$host.a\n\x1b[2J", 5], 500)["errors"]
    assert r"'$host.a\n\x1b[2J': there is no 'a\n\x1b[2J' in 'cn1'" in error["detail"]
    assert explain_with_query('["=", "$host", "cn1"]', 200)["outcome"] == "selected"
