# SPDX-License-Identifier: Apache-2.0
"""Settings of gunicorn.

``PLACEMENT_SCHED_CONFIG=... gunicorn --config gunicorn.conf.py placement_sched.wsgi:application``
"""

import os
import shutil
import tempfile
from typing import Any

from gunicorn.http import message

bind = os.environ.get("PLACEMENT_SCHED_BIND", "127.0.0.1:8778")
workers = 4
worker_class = "gthread"
# As in placement-sched serve: requests are mostly Python, and more threads only wait.
threads = 4
# The configuration is checked once, and a single line reports an error in it.
preload_app = True
# nova's clients keep their connections.
keepalive = 30
timeout = 120
# gunicorn takes 8 190 bytes at most unless its own limit is raised. The service rejects a query of
# more than 65 000 bytes, [api] max_query_string_size, and gunicorn a line of 100 000.
message.MAX_REQUEST_LINE = limit_request_line = 100_000
# SIGTERM lets requests at work finish.
graceful_timeout = 30
# Headers with an underscore are dropped. Only [oslo_middleware] trusts headers of a proxy.
header_map = "drop"
forwarded_allow_ips = ""

# /metrics adds up the figures of all workers, which are in files of this folder.
if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="placement_sched_")


def on_exit(_server: Any) -> None:
    """Remove the folder."""
    shutil.rmtree(os.environ["PROMETHEUS_MULTIPROC_DIR"], ignore_errors=True)
