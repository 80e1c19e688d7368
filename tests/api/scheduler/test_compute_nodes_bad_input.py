# SPDX-License-Identifier: Apache-2.0
"""Malformed requests about compute nodes get errors and write nothing."""

import orjson
import pytest

from tests.schemas.test_node_report import BAD
from tests.support.reports import build_report, node_uuid, remove_keys

NODES = "/scheduler/v1/compute_nodes"
NODE = f"{NODES}/{node_uuid(1)}"

#: Invalid reports that JSON can express, and that are objects.
JSON_REPORTS = [
    (path, document, words)
    for path, document, words in BAD
    if isinstance(document, dict)
    and "uuid" in document
    and path != "$.uuid"
    and orjson.loads(orjson.dumps(document, default=str)) == document  # JSON has no NaN
]


def error_detail(answer, status=400):
    (error,) = answer.json["errors"]
    assert error["status"] == status
    assert error["request_id"] == answer.headers["X-Openstack-Request-Id"]
    return error["detail"]


def test_invalid_report_is_400_with_its_path(sqlite_app):
    for path, document, words in JSON_REPORTS:
        answer = error_detail(sqlite_app.put_json(NODE, document, status=400))
        assert words in answer, words
        assert answer.endswith(f"(at {path})"), words


def test_invalid_report_in_a_list_writes_nothing(sqlite_app):
    for path, document, words in JSON_REPORTS[:4]:
        reports = [build_report(8), build_report(9), document]
        answer = error_detail(sqlite_app.post_json(NODES, reports, status=400))
        assert answer.endswith(f"(at $[2]{path[1:]})"), words
        assert sqlite_app.get(NODES).json["compute_nodes"] == [], words


def test_error_names_the_index_of_the_report(sqlite_app):
    reports = [build_report(number) for number in range(5)]
    for value in ["8", -1, 2**31, 1.5, None, True, [], {}]:
        reports[3]["vcpus"] = value
        assert "(at $[3].vcpus)" in error_detail(
            sqlite_app.post_json(NODES, reports, status=400)
        ), value


def test_invalid_json_is_400(sqlite_app):
    for body in [
        b"",
        b"{",
        b"nonsense",
        b'{"host": NaN}',
        b'{"host": "\xff"}',
        b'{"host": "\\ud800"}',
    ]:
        for method, path in (("put", NODE), ("post", NODES)):
            answer = getattr(sqlite_app, method)(
                path, body, content_type="application/json", status=400
            )
            assert "JSON" in error_detail(answer), body


def test_report_that_is_no_object_is_400(sqlite_app):
    for document in [[], "x", 1, None, True]:
        error_detail(sqlite_app.put_json(NODE, document, status=400))


def test_list_without_objects_is_400(sqlite_app):
    for document in [{}, build_report(), "x", 1, None, [1], [[]], [None]]:
        error_detail(sqlite_app.post_json(NODES, document, status=400))


def test_invalid_uuid_in_the_path_is_400(sqlite_app):
    body = remove_keys(build_report(), "uuid")
    assert "not a uuid" in error_detail(sqlite_app.put_json(f"{NODES}/cn1", body, status=400))


def test_different_uuid_in_the_body_is_400(sqlite_app):
    for other in [node_uuid(2), "x", None, 1]:
        assert "(at $.uuid)" in error_detail(
            sqlite_app.put_json(NODE, build_report(uuid=other), status=400)
        ), other


def test_repeated_node_in_a_list_is_400(sqlite_app):
    answer = error_detail(
        sqlite_app.post_json(NODES, [build_report(1), build_report(2), build_report(1)], status=400)
    )
    assert answer.endswith("(at $[2].uuid)")
    assert "$[0]" in answer


def test_malformed_query_is_400(sqlite_app):
    for query in [
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=",
        "limit=1e3",
        "limit=99999999999999999999",
        "marker=x",
        "marker=",
        "host=",
        "host=%00",
        "host=" + "x" * 256,
        "unknown=1",
        "limit=1&limit=x",
    ]:
        error_detail(sqlite_app.get(f"{NODES}?{query}", status=400))


def test_other_methods_are_405(sqlite_app):
    for method in ["post", "patch"]:
        answer = getattr(sqlite_app, f"{method}_json")(NODE, {}, status=405)
        assert "PUT" in answer.headers["Allow"], method


@pytest.mark.parametrize("key", ["1", "23"])
@pytest.mark.parametrize(
    ("changes", "path"),
    [
        (lambda key: {"stats": {key: {}}}, "$[0].stats"),
        (
            lambda key: {
                "pci_device_pools": [{"vendor_id": "a", "product_id": "b", "count": 1, key: {}}]
            },
            "$[0].pci_device_pools[0]",
        ),
    ],
)
def test_wrong_value_under_a_numeric_key_is_400_with_its_path(sqlite_app, changes, path, key):
    report = {**build_report(1), **changes(key)}
    answer = error_detail(sqlite_app.post_json(NODES, [report], status=400))
    assert answer.endswith(f"(at {path}[{key!r}])")
