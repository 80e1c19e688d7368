# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests with many names."""

from tests.support.versions import LATEST_HEADERS

SCHEDULER_PATH = "/scheduler/v1"
ADMIN_HEADERS = {**LATEST_HEADERS, "X-Roles": "admin,service"}


def post_body(app, path, body):
    """Send a body, and return status and text of the response."""
    response = app.post_json(
        f"{SCHEDULER_PATH}/{path}", body, headers=ADMIN_HEADERS, expect_errors=True
    )
    return response.status_int, response.text


def build_names(count):
    return [f"n{number}" for number in range(count)]
