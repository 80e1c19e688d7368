# SPDX-License-Identifier: Apache-2.0
"""A neutron without ports, since nova lists a server's ports even without networks."""

import json
from typing import Any


def respond_without_ports(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    noun = environ["PATH_INFO"].rstrip("/").rpartition("/")[2].replace("-", "_")
    content = json.dumps({noun: []}).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
    start_response("200 OK", headers)
    return [content]
