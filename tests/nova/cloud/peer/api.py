# SPDX-License-Identifier: Apache-2.0
"""``api.py PORT``: serve nova's compute API with the WSGI server of the standard library."""

import sys
from importlib.metadata import version

# Before release 32 nova uses green threads, and so must the server.
if int(version("nova").partition(".")[0]) < 32:
    import nova.monkey_patch  # noqa: F401

from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

port = int(sys.argv.pop())

# These modules read the arguments.
try:
    from nova.wsgi.osapi_compute import application
except ImportError:  # before release 31
    from nova.api.openstack.wsgi_app import init_application

    application = init_application("osapi_compute")


class ThreadingServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class HandlerWithoutLog(WSGIRequestHandler):
    def log_message(self, *_arguments):
        """Leave the log to nova."""


make_server("127.0.0.1", port, application, ThreadingServer, HandlerWithoutLog).serve_forever()
