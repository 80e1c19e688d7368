# SPDX-License-Identifier: Apache-2.0
"""Invalid query strings are rejected before authentication."""

import pytest

from tests.support.versions import LATEST_HEADERS

ADMIN = {**LATEST_HEADERS, "X-Auth-Token": "admin"}


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("project_id=%FF", "not valid UTF-8"),
        ("project_id=\xff", "not valid UTF-8"),  # WSGI decodes bytes as latin-1
        ("project_id=a%00b", "NUL character"),
        ("\xff=1", "not valid UTF-8"),
    ],
)
def test_non_text_query_is_rejected_with_the_reason(sqlite_app, query, reason):
    request = sqlite_app.RequestClass.blank(
        "/placement/usages", {"QUERY_STRING": query}, headers=ADMIN
    )
    answer = sqlite_app.do_request(request, status=400)
    assert reason in answer.json["errors"][0]["detail"]


def test_query_length_limit_is_configurable_and_named(sqlite_app):
    answer = sqlite_app.get(f"/placement/traits?name=in:{'A' * 70_000}", headers=ADMIN, status=400)
    assert "[api] max_query_string_size allows" in answer.json["errors"][0]["detail"]
