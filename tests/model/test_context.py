# SPDX-License-Identifier: Apache-2.0
"""The context of a request has the caller, or the owner of the request.

Request ids that a caller sends, and the form that they must have.
"""

from contextvars import Context

import pytest

from placement_sched.model.context import (
    RequestContext,
    build_context,
    build_request_ids,
    set_caller,
)
from tests.support.states import build_spec


def test_request_context_has_the_caller():
    def set_caller_and_build_context():
        set_caller(lambda: {"user_id": "u", "project_id": "p", "roles": ("member",), "is_x": 1})
        return build_context("owner", "project")

    context = Context().run(set_caller_and_build_context)
    assert (context.user_id, context.project_id, context.roles) == ("u", "p", ["member"])
    assert not context.is_admin
    assert (context.user, context.tenant) == ("u", "p")


def test_request_context_without_a_caller_has_the_owner():
    context = Context().run(build_context, "owner", "project")
    assert (context.user_id, context.project_id, context.roles) == ("owner", "project", [])
    assert build_spec()._context.project_id == build_spec()["context"].project_id


def test_elevated_request_context_is_an_administrator():
    context = RequestContext(user_id="u", project_id="p", roles=["member"]).elevated("yes")
    assert (context.user_id, context.is_admin, context.read_deleted) == ("u", True, "yes")
    assert context.roles == ["member", "admin"]


REQUEST_ID = "req-0b6c1e52-93d7-4f0a-8f21-5a7d3c9e6b40"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "nonsense",
        REQUEST_ID[4:],
        REQUEST_ID.upper(),
        f"{REQUEST_ID}0",
        f"{REQUEST_ID}\u00e9",
        f"x{REQUEST_ID}",
        "req-",
    ],
)
def test_malformed_global_request_id_is_ignored(header):
    ids = build_request_ids(header)
    assert ids.global_request_id is None
    assert ids.request_id.startswith("req-")
    assert ids.request_id != header
    assert build_request_ids(REQUEST_ID).global_request_id == REQUEST_ID
