# SPDX-License-Identifier: Apache-2.0
"""Limits that bound the cost of a body: its length, its number of values and the errors."""

import json
import random
import re

import pytest

from placement_sched.api import request as module
from placement_sched.api.compute.routes import API as COMPUTE
from placement_sched.api.image.routes import API as IMAGE
from placement_sched.api.placement.routes import API as PLACEMENT
from placement_sched.api.scheduler.routes import API as SCHEDULER
from placement_sched.limits import MAX_JSON_BYTES, MAX_JSON_DEPTH, MAX_JSON_VALUES
from placement_sched.model.document import is_deeper, is_larger
from placement_sched.schemas.formats import DocumentError
from placement_sched.schemas.reader import Reader
from tests.support.clouds import uuid_of
from tests.support.versions import LATEST_HEADERS

#: Routes that accept bodies of any length.
UNLIMITED_ROUTES = {("POST", "/reshaper"), ("POST", "/v1/compute_nodes")}
HEADERS = {**LATEST_HEADERS, "X-Roles": "admin,service", "Content-Type": "application/json"}
#: An escaped NUL in a JSON text.
NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


@pytest.fixture
def parsed_lengths(monkeypatch):
    """The lengths of the JSON texts that were parsed."""
    lengths = []
    loads = module.OrjsonProvider.loads

    def record_length(provider, text, **options):
        lengths.append(len(text))
        return loads(provider, text, **options)

    monkeypatch.setattr(module.OrjsonProvider, "loads", record_length)
    return lengths


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/image/v2/images"),
        ("POST", "/placement/allocations"),
        ("PUT", f"/placement/allocations/{uuid_of('one')}"),
        ("POST", "/compute/v2.1/flavors"),
        ("POST", "/compute/v2.1/os-aggregates/1/action"),
        ("POST", "/scheduler/v1/select_destinations"),
        ("PUT", f"/scheduler/v1/compute_nodes/{uuid_of('one')}"),
    ],
)
def test_too_long_body_is_413_and_not_parsed(sqlite_app, parsed_lengths, method, path):
    text = json.dumps({"a": "x" * MAX_JSON_BYTES}).encode()
    answer = sqlite_app.request(path, method=method, body=text, headers=HEADERS, status=413)
    assert f"at most {MAX_JSON_BYTES}" in answer.text
    assert parsed_lengths == []


@pytest.mark.parametrize("path", ["/placement/reshaper", "/scheduler/v1/compute_nodes"])
def test_bulk_routes_accept_longer_bodies(sqlite_app, parsed_lengths, path):
    text = json.dumps({"a": "x" * MAX_JSON_BYTES}).encode()
    sqlite_app.request(path, method="POST", body=text, headers=HEADERS, status=400)
    assert parsed_lengths == [len(text)]


def test_other_routes_reject_longer_bodies():
    routes = [route for api in (PLACEMENT, COMPUTE, IMAGE, SCHEDULER) for route in api.routes]
    assert {(route.method, route.path) for route in routes if route.takes_many} == UNLIMITED_ROUTES


@pytest.mark.parametrize("many", ["[],", "{},", "1,"])
def test_body_with_too_many_values_is_413_and_not_parsed(sqlite_app, many):
    text = "[" + many * (MAX_JSON_VALUES + 1) + "1]"
    path = "/placement/reshaper"
    answer = sqlite_app.request(
        path, method="POST", body=text.encode(), headers=HEADERS, status=413
    )
    assert f"at most {MAX_JSON_VALUES}" in answer.text


@pytest.mark.parametrize("depth", [MAX_JSON_DEPTH + 1, 300, 1000])
@pytest.mark.parametrize(
    "path", ["/placement/reshaper", "/image/v2/images", "/compute/v2.1/flavors"]
)
def test_too_deeply_nested_body_is_400(sqlite_app, path, depth):
    text = b'{"a":' * depth + b"1" + b"}" * depth
    answer = sqlite_app.request(path, method="POST", body=text, headers=HEADERS, status=400)
    assert f"nested more than {MAX_JSON_DEPTH} deep" in answer.text


def test_nesting_is_counted_in_lists_and_objects():
    document = [1, {"a": [2]}, "text"]
    assert is_deeper(document, 2)
    assert not is_deeper(document, 3)
    assert not is_deeper("text", 0)


def test_first_error_of_a_large_report_is_named():
    read = Reader({"type": "object", "properties": {"a": {"items": {"type": "integer"}}}})
    with pytest.raises(DocumentError, match="'x' is not an integer"):
        read({"a": ["x"] * 10_000})


def test_values_are_counted_with_keys_at_every_depth():
    document = {"a": [1, {"b": None}], "c": "text"}
    assert is_larger(document, 7)
    assert not is_larger(document, 8)
    assert not is_larger("text", 0)


def test_counting_stops_at_the_limit():
    class EndlessList(list):
        def __iter__(self):
            raise AssertionError("it is looked at")

    assert is_larger([1, 2, 3, EndlessList([1])], 3)


def test_escaped_nul_is_detected_among_backslashes():
    dice = random.Random(1)
    pieces = [b"\\", b"\\\\", b"u0000", b"\\u0000", b"a", b"\\u000"]
    for _ in range(5000):
        text = b"".join(dice.choices(pieces, k=dice.randint(1, 8)))
        assert module._has_nul(text) is (NUL.search(text) is not None), text


def test_image_patch_operations_are_limited(sqlite_app):
    image = sqlite_app.post_json("/image/v2/images", {"name": "a"}).json["id"]
    headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}

    def patch_image(number, status):
        operations = [{"op": "add", "path": "/k", "value": "v"}] * number
        path = f"/image/v2/images/{image}"
        return sqlite_app.patch(path, json.dumps(operations), headers=headers, status=status)

    patch_image(1000, 200)
    assert "at most 1000 items" in patch_image(1001, 400).text
