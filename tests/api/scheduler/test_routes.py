# SPDX-License-Identifier: Apache-2.0
"""Errors of the scheduler API have its own codes, at every stage."""

from placement_sched.api.routing import ErrorContext
from placement_sched.api.scheduler.routes import SchedulerStyle
from placement_sched.errors import ConcurrentUpdate, Error, NoValidHost, TooComplex, Unavailable
from placement_sched.model.context import RequestIds
from tests.support.scheduling import spec

SELECT = "/scheduler/v1/select_destinations"


def read_error_code(answer):
    (error,) = answer.json["errors"]
    return error["code"]


def test_error_code_corresponds_to_the_status(sqlite_app):
    nodes = "/scheduler/v1/compute_nodes"
    for method, path, headers, body, status, code in (
        ("GET", "/scheduler/v1/nothing", {}, b"", 404, "not_found"),
        ("PUT", SELECT, {}, b"", 405, "method_not_allowed"),
        ("POST", SELECT, {"Content-Type": "text/plain"}, b"{}", 415, "unsupported_media_type"),
        ("POST", SELECT, {"Content-Type": "application/json"}, b"{", 400, "bad_value"),
        ("GET", "/scheduler/v1", {"X-Auth-Token": ""}, b"", 401, "unauthorized"),
        ("GET", nodes, {"X-Auth-Token": "joe:p"}, b"", 403, "forbidden"),
        ("GET", nodes, {"Accept": "text/html"}, b"", 406, "not_acceptable"),
    ):
        answer = sqlite_app.request(path, method=method, headers=headers, body=body, status=status)
        assert read_error_code(answer) == f"scheduler.{code}", path


def test_invalid_request_has_a_scheduler_error_code(sqlite_app):
    for request_spec, status, code in (
        ({}, 400, "scheduler.bad_value"),
        (spec(flavor="m1"), 404, "scheduler.not_found"),
        (spec(requested_destination={"aggregates": ["x"]}), 400, "scheduler.bad_value"),
    ):
        answer = sqlite_app.post_json(SELECT, {"request_spec": request_spec}, status=status)
        assert read_error_code(answer) == code


def test_errors_raised_by_the_model_have_their_status_and_scheduler_code():
    for error, status, code in [
        (ConcurrentUpdate("x"), 409, "scheduler.concurrent_update"),
        (TooComplex("x"), 400, "scheduler.too_complex"),
        (NoValidHost("x"), 409, "scheduler.no_valid_host"),
        (Unavailable("x"), 503, "scheduler.unavailable"),
        (Error("x"), 500, "scheduler.failed"),
    ]:
        answer = SchedulerStyle().error(error, status, "title", ErrorContext(RequestIds("req-1")))
        assert answer.body["errors"][0]["code"] == code, code
