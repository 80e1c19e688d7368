# SPDX-License-Identifier: Apache-2.0
"""The ASGI application of ``serve``: the environ of a request, and the response."""

import asyncio
from http import HTTPStatus

from placement_sched.api.serving import REJECTED_BODY_KEY, AsgiToWsgi, RejectedBody
from placement_sched.limits import MAX_HEADER_BYTES
from tests.api.bridge import ASGI_HTTP_SCOPE


def send_request(application, *pieces, bare=False, **scope):
    """Return status, headers and content of the response to a request."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": "http.request", "more_body": False})
    sent = []

    async def receive_body_piece():
        return messages.pop(0)

    async def record_message(message):
        sent.append(message)

    bridge = AsgiToWsgi(application, limit=1000, threads=1)
    if not bare:
        scope["headers"] = [*ASGI_HTTP_SCOPE["headers"], *scope.get("headers", ())]
    asyncio.run(bridge({**ASGI_HTTP_SCOPE, **scope}, receive_body_piece, record_message))
    start, body = sent
    return start["status"], dict(start["headers"]), body["body"]


def application_with_status_of_rejected_body(environ, start_response):
    """An application that responds with the status of a rejected body."""
    rejection = environ.get(REJECTED_BODY_KEY) or RejectedBody(HTTPStatus.OK, "")
    start_response(f"{rejection.status.value} {rejection.status.phrase}", [])
    return [rejection.detail.encode()]


def send_request_and_get_environ(*pieces, **scope):
    seen = {}

    def application(environ, start_response):
        seen.update(environ, body=environ["wsgi.input"].read())
        start_response("204 No Content", [])
        return []

    assert send_request(application, *pieces, **scope)[0] == 204
    return seen


def test_wsgi_environ_follows_pep_3333():
    environ = send_request_and_get_environ()
    expected = {
        "REQUEST_METHOD": "PUT",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/a\xff///\xc3\xa9/x y",
        "QUERY_STRING": "q=%ff&b=1",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8778",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "10.0.0.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "body": b"",
    }
    assert {key: environ[key] for key in expected} == expected
    assert "PATH" not in environ  # variables of the process are not in the environ


def test_repeated_request_headers_are_joined_and_keep_their_bytes():
    headers = [
        (b"content-type", b"application/json"),
        (b"x-a", b"1"),
        (b"x-a", b"2"),
        (b"cookie", b"a=1"),
        (b"cookie", b"b=2"),
        (b"x-name", b"caf\xc3\xa9"),
    ]
    environ = send_request_and_get_environ(headers=headers)
    assert environ["CONTENT_TYPE"] == "application/json"
    assert environ["HTTP_X_A"] == "1,2"
    assert environ["HTTP_COOKIE"] == "a=1;b=2"
    assert environ["HTTP_X_NAME"] == "caf\xc3\xa9"


def test_request_header_with_an_underscore_is_ignored():
    underscored = (b"x_auth_token", b"admin")
    assert "HTTP_X_AUTH_TOKEN" not in send_request_and_get_environ(headers=[underscored])
    both = [underscored, (b"x-auth-token", b"bob"), underscored]
    assert send_request_and_get_environ(headers=both).get("HTTP_X_AUTH_TOKEN") == "bob"
    length = (b"content_length", b"5")
    assert send_request_and_get_environ(headers=[length]).get("CONTENT_LENGTH") is None


def test_request_body_is_complete_before_the_application_is_called():
    environ = send_request_and_get_environ(b"ab", b"c", headers=[(b"content-length", b"3")])
    assert (environ["CONTENT_LENGTH"], environ["body"]) == ("3", b"abc")


def test_whole_response_body_is_sent_and_its_iterator_closed():
    closed = []

    class ClosableBody(list):
        def close(self):
            closed.append(True)

    def application(environ, start_response):
        write = start_response("201 Created", [("X-A", "1"), ("X-B", "\xe9")])
        write(b"a")
        return ClosableBody([b"b", b"c"])

    assert send_request(application) == (201, {b"X-A": b"1", b"X-B": b"\xe9"}, b"abc")
    assert closed


def test_application_error_is_500_and_logged(caplog):
    def application(environ, start_response):
        raise ZeroDivisionError

    status, _, content = send_request(application)
    assert (status, content) == (500, b"The server failed; see its log.")
    assert "ZeroDivisionError" in caplog.text


def test_connection_is_closed_if_the_body_is_too_long_to_be_discarded():
    for length, closes in [(b"900", False), (b"999999999", True)]:

        def application(environ, start_response):
            start_response("413 Request Entity Too Large", [])
            return []

        answered = send_request(application, b"x" * 900, headers=[(b"content-length", length)])
        assert (answered[1].get(b"connection") == b"close") is closes, (length, closes)


def test_repeated_host_header_is_rejected():
    for hosts, version, status in [
        ([b"cloud"], "1.1", 200),
        ([b"cloud_1.example.org:8778"], "1.1", 200),
        ([b"192.0.2.1:80"], "1.1", 200),
        ([b"[2001:db8::1]:80"], "1.1", 200),
        ([b""], "1.1", 200),
        ([b"a", b"b"], "1", 400),
        ([b"a", b"b"], "1.1", 400),
        ([b"a", b"a"], "1.1", 400),
        ([b'a b"<>'], "1.1", 400),
        ([b"a/b"], "1.1", 400),
        ([b"user@a"], "1.1", 400),
        ([b"a:port"], "1.1", 400),
        ([b"[::1"], "1.1", 400),
        ([b"\xff"], "1.1", 400),
    ]:
        headers = [(b"host", host) for host in hosts]
        response = send_request(
            application_with_status_of_rejected_body,
            bare=True,
            headers=headers,
            http_version=version,
        )
        assert response[0] == status, (hosts, version, status)
        assert (response[1].get(b"connection") == b"close") == (status != 200), (
            hosts,
            version,
            status,
        )


def test_transfer_encodings_other_than_chunked_are_rejected():
    for codings, status in [
        ([b"chunked"], 200),
        ([b"Chunked "], 200),
        ([b"gzip, chunked"], 501),
        ([b"gzip", b"chunked"], 501),
        ([b"chunked, chunked"], 501),
        ([b"identity"], 501),
    ]:
        headers = [(b"transfer-encoding", coding) for coding in codings]
        response = send_request(application_with_status_of_rejected_body, b"abc", headers=headers)
        assert response[0] == status, (codings, status)
        assert (response[1].get(b"connection") == b"close") == (status != 200), (codings, status)


def test_length_of_request_headers_is_limited():
    for headers, status in [
        ([(b"x-roles", b"r" * (MAX_HEADER_BYTES - 7))], 200),
        ([(b"x-roles", b"r" * (MAX_HEADER_BYTES - 6))], 431),
        ([(b"x-roles", b"r" * (MAX_HEADER_BYTES // 2 - 7))] * 2, 200),
        ([(b"x-roles", b"r" * (MAX_HEADER_BYTES // 2 - 6))] * 2, 431),
        ([(b"x-%d" % number, b"r" * 8189) for number in range(8)], 200),
        ([(b"x-%d" % number, b"r" * 8190) for number in range(8)], 431),
    ]:
        response = send_request(
            application_with_status_of_rejected_body, bare=True, headers=headers
        )
        assert response[0] == status, (headers, status)
        assert (response[1].get(b"connection") == b"close") == (status != 200), (headers, status)
