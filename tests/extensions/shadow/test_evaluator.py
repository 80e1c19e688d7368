# SPDX-License-Identifier: Apache-2.0
"""Messages of nova's topic are parsed, and errors have none of their content."""

import json

import pytest

from placement_sched.errors import Invalid
from placement_sched.extensions.shadow.evaluator import read_call
from placement_sched.model.context import RequestIds
from tests.support.scheduling import make_uuid

EMPTY_REQUEST_SPEC = {"nova_object.name": "RequestSpec", "nova_object.data": {}}
SECRET_TEXT = "s3cret"  # noqa: S105 - of nothing


def build_rpc_message(**changes):
    inside = {
        "method": "select_destinations",
        "version": "4.5",
        "args": {
            "spec_obj": EMPTY_REQUEST_SPEC,
            "instance_uuids": [make_uuid(1)],
            "return_objects": True,
            "return_alternates": True,
        },
        "_context_request_id": "req-1",
        "_context_global_request_id": "req-2",
        "_msg_id": "m",
        "_reply_q": "r",
        **changes,
    }
    return {"oslo.version": "2.0", "oslo.message": json.dumps(inside)}


def build_call_arguments(**changes):
    return {"args": {"spec_obj": EMPTY_REQUEST_SPEC, "instance_uuids": [make_uuid(1)], **changes}}


def test_call_is_parsed_with_instances_and_request_ids():
    call = read_call(build_rpc_message())
    assert call.spec == EMPTY_REQUEST_SPEC
    assert call.instances == (make_uuid(1),)
    assert call.ids == RequestIds("req-1", "req-2")
    assert call.alternates


@pytest.mark.parametrize("form", [json.dumps, lambda body: json.dumps(body).encode()])
def test_rpc_message_body_can_be_text(form):
    assert read_call(form(build_rpc_message())).instances == (make_uuid(1),)


def test_call_without_envelope_is_parsed():
    assert read_call(json.loads(build_rpc_message()["oslo.message"])).spec == EMPTY_REQUEST_SPEC


def test_alternates_require_return_objects():
    call = read_call(
        build_rpc_message(**build_call_arguments(return_objects=False, return_alternates=True))
    )
    assert not call.alternates


def test_old_conductor_call_has_no_instance_uuids():
    assert (
        read_call(build_rpc_message(**build_call_arguments(instance_uuids=None))).instances is None
    )


@pytest.mark.parametrize("method", ["update_aggregates", "sync_instance_info", "ping"])
def test_rpc_methods_except_select_destinations_are_ignored(method):
    assert read_call(build_rpc_message(method=method)) is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"\xff" + SECRET_TEXT.encode(), "the message is not JSON"),
        (SECRET_TEXT, "the message is not JSON"),
        ([SECRET_TEXT], "the message is not a JSON object"),
        (None, "the message is not a JSON object"),
        ({"oslo.version": "2.0", "oslo.message": SECRET_TEXT}, "the message is not JSON"),
        ({"oslo.version": "9.1", "oslo.message": "{}"}, "the envelope has version 9.1, not 2.x"),
        ({"password": SECRET_TEXT}, "the message names no method"),
        (
            build_rpc_message(version="5.0"),
            "the call has version 5.0 of nova's scheduler API, not 4.x",
        ),
        (
            build_rpc_message(version=SECRET_TEXT * 9),
            "the call has version unknown of nova's scheduler API, not 4.x",
        ),
        (build_rpc_message(args=SECRET_TEXT), "the call has no arguments"),
        (
            build_rpc_message(args={"request_spec": SECRET_TEXT}),
            "the call has no RequestSpec (spec_obj)",
        ),
        (
            build_rpc_message(**build_call_arguments(instance_uuids=SECRET_TEXT)),
            "instance_uuids is not a list",
        ),
        (
            build_rpc_message(**build_call_arguments(instance_uuids=[SECRET_TEXT])),
            "instance_uuids contains an invalid uuid",
        ),
    ],
)
def test_unreadable_message_is_reported_without_content(body, words):
    with pytest.raises(Invalid) as refused:
        read_call(body)
    assert refused.value.detail == words
    assert SECRET_TEXT not in refused.value.detail
