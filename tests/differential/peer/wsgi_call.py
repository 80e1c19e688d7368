# SPDX-License-Identifier: Apache-2.0
"""A WSGI call in process, for our interpreter and the peer's."""

import base64
import io
import sys
from urllib.parse import unquote_to_bytes


def call_application(application, request):
    response = {}

    def start_response(status, headers, exc_info=None):
        response["status"] = int(status.split(" ", 1)[0])
        response["headers"] = [[name, value] for name, value in headers]
        return lambda _data: None

    result = application(_build_environ(request), start_response)
    try:
        body = b"".join(result)
    finally:
        if hasattr(result, "close"):
            result.close()
    return {**response, "body": base64.b64encode(body).decode()}


def _build_environ(request):
    path, _, query = request["target"].partition("?")
    body = base64.b64decode(request["body"] or "")
    environ = {
        "REQUEST_METHOD": request["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_NAME": "placement",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "placement",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    if request["body"] is not None:
        environ["CONTENT_LENGTH"] = str(len(body))
    for name, value in request["headers"]:
        key = name.upper().replace("-", "_")
        environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
    return environ
