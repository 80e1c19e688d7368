# SPDX-License-Identifier: Apache-2.0
"""Serves nova's compute API by the standard library's WSGI server: ``api.py PORT``."""

import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

port = int(sys.argv.pop())

from nova.wsgi.osapi_compute import application  # noqa: E402 - it reads the arguments


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *_arguments):
        """Leave the log to nova."""


make_server("127.0.0.1", port, application, Server, Quiet).serve_forever()
