# SPDX-License-Identifier: Apache-2.0
"""Notices over HTTP that are accepted, rejected, redirected or not answered."""

import json
import socket

import pytest

from placement_sched.clients import session
from placement_sched.errors import ServiceFailed
from tests.support.loopback import reserve_port, serve_application

BODY = {"event": "would_fit_now", "decision": "d1"}


class Receiver:
    """An application that records requests and answers with a status."""

    def __init__(self, status="204 No Content", headers=()):
        self.status, self.headers = status, list(headers)
        self.received = []

    def __call__(self, environ, start_response):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        line = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        self.received.append((line, environ.get("HTTP_X_AUTH_TOKEN"), body))
        start_response(self.status, self.headers)
        return [b""]


def send_and_get_failure_detail(address):
    with pytest.raises(ServiceFailed) as failure:
        session.send_webhook(address, BODY)
    return failure.value.detail


def test_webhook_body_is_posted_without_a_token():
    receiver = Receiver()
    with serve_application(receiver) as url:
        session.send_webhook(f"{url}/hooks/secret", BODY)
    ((line, token, body),) = receiver.received
    assert (line, token, json.loads(body)) == ("POST /hooks/secret", None, BODY)


def test_unexpected_status_is_a_failure_that_is_not_retried():
    receiver = Receiver()
    with serve_application(receiver) as url:
        for receiver.status in ("400 Bad Request", "503 Service Unavailable"):
            assert (
                send_and_get_failure_detail(f"{url}/secret")
                == f"{url} answered {receiver.status[:3]}"
            )
    assert len(receiver.received) == 2


def test_redirect_of_a_webhook_is_not_followed():
    other = Receiver()
    with serve_application(other) as target:
        receiver = Receiver("307 Temporary Redirect", [("Location", target)])
        with serve_application(receiver) as url:
            assert send_and_get_failure_detail(url) == f"{url} answered 307"
    assert other.received == []


def test_address_that_refuses_connections_is_named_without_its_path():
    with reserve_port() as holder:
        url = f"http://127.0.0.1:{holder.getsockname()[1]}"
        detail = send_and_get_failure_detail(f"{url}/secret")
    assert detail == f"{url} does not answer: Connection refused"


def test_address_that_does_not_answer_times_out(monkeypatch):
    monkeypatch.setattr(session, "WEBHOOK_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        detail = send_and_get_failure_detail(f"http://127.0.0.1:{silent.getsockname()[1]}/secret")
    assert "does not answer" in detail
    assert "secret" not in detail


def test_user_and_path_of_an_address_are_not_shown():
    assert session.shown_address("https://user:word@hooks.example:8443/secret?a=b") == (
        "https://hooks.example:8443"
    )
    assert session.webhook_digest("https://a/1") != session.webhook_digest("https://a/2")
