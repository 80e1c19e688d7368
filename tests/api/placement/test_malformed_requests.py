# SPDX-License-Identifier: Apache-2.0
"""Malformed requests are rejected with an error and write nothing."""

from tests.api.placement.provider_requests import check_error_and_get_detail
from tests.support.versions import LATEST_HEADERS

JSON_HEADERS = {**LATEST_HEADERS, "Content-Type": "application/json"}
UNKNOWN_UUID = "deaddead-0000-4000-8000-000000000001"


INVALID_BODIES = [
    *(b"", b"{", b"[]", b"null", b'"x"', b"{} x", b"\xff\xfe", b'{"name": NaN}', b'{"a": 1}')
]


def test_invalid_request_body_is_rejected(sqlite_app):
    for body in [*INVALID_BODIES, b'{"name": "\\ud800"}', b'{"name": "\\u0000"}']:
        response = sqlite_app.post(
            "/placement/resource_providers", body, headers=JSON_HEADERS, status=400
        )
        assert check_error_and_get_detail(response).startswith(
            ("Malformed JSON", "JSON does not validate")
        ), body
        listed = sqlite_app.get("/placement/resource_providers").json
        assert listed == {"resource_providers": []}, body


def test_text_u0000_after_an_escaped_backslash_is_no_nul_character(sqlite_app):
    body = rb'{"name": "a\\u0000"}'
    response = sqlite_app.post("/placement/resource_providers", body, headers=JSON_HEADERS)
    assert response.json["name"] == "a\\u0000"


def test_content_type_other_than_json_is_rejected(sqlite_app):
    for kind in ["text/plain", "application/xml", "json"]:
        headers = {**LATEST_HEADERS, "Content-Type": kind}
        sqlite_app.post("/placement/resource_providers", b"{}", headers=headers, status=415)


def test_unknown_provider_is_reported_before_an_invalid_body(sqlite_app, provider_uuid):
    for noun in ["", "/inventories", "/inventories/VCPU", "/aggregates"]:
        path = "/placement/resource_providers/{}" + noun
        for body in INVALID_BODIES:
            sqlite_app.put(path.format(UNKNOWN_UUID), body, headers=JSON_HEADERS, status=404)
            sqlite_app.put(path.format(provider_uuid), body, headers=JSON_HEADERS, status=400)


def test_invalid_name_or_uuid_is_rejected(sqlite_app):
    names = ["", "a" * 201, 1, None, True, [], {}]
    uuids = ["", "x", UNKNOWN_UUID[:-1], "0x" + UNKNOWN_UUID[2:], 1, None]
    bodies = [{"name": name} for name in names]
    for body in [*bodies, *({"name": "host", "uuid": uuid} for uuid in uuids)]:
        sqlite_app.post_json(
            "/placement/resource_providers", body, headers=LATEST_HEADERS, status=400
        )


def test_invalid_query_string_is_rejected(sqlite_app):
    for query in [
        *(
            "uuid=x",
            "uuid=",
            f"uuid={UNKNOWN_UUID.replace('-', '')}",
            f"uuid={UNKNOWN_UUID}&uuid=x",
        ),
        *("in_tree=x", "limit=1", "NAME=a", "name=%FF", "name=%00", "member_of=x"),
        *("resources=VCPU", "required=", "resources=LLAMA:1", "required=LLAMA"),
    ]:
        path = f"/placement/resource_providers?{query}"
        check_error_and_get_detail(sqlite_app.get(path, headers=LATEST_HEADERS, status=400))


def test_traits_and_classes_are_created_only_with_valid_custom_names(sqlite_app):
    invalid = ["FOO", "HW_CPU_X86_AVX", "CUSTOM_", "CUSTOM_a", "custom_a", "CUSTOM_%20A"]
    for noun in ["traits", "resource_classes"]:
        for name in [*invalid, "CUSTOM_A%0A", "CUSTOM_" + "A" * 249]:
            path = f"/placement/{noun}/{name}"
            check_error_and_get_detail(sqlite_app.put(path, headers=LATEST_HEADERS, status=400))
        for name in ["CUSTOM_" + "A" * 248, "CUSTOM_0", "CUSTOM__"]:
            sqlite_app.put(f"/placement/{noun}/{name}", headers=LATEST_HEADERS, status=201)


def test_names_with_a_nul_character_are_rejected(app):
    for path in ["resource_providers/%00", "traits/%00", "resource_classes/%00"]:
        app.get(f"/placement/{path}", headers=LATEST_HEADERS, status=404)
