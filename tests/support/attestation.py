# SPDX-License-Identifier: Apache-2.0
"""An attestation service of our own, over HTTPS on the loopback address."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme

from tests.support.loopback import serve_application

API = "/OpenAttestationWebServices/V1.0"


class FakeAttestation:
    """OpenAttestation's ``POST PollHosts``, as far as TrustedFilter needs it."""

    def __init__(self) -> None:
        self.url = ""
        #: The certificates by which its own is signed.
        self.ca_file = ""
        #: The bodies that were sent to it, and the blobs beside them.
        self.seen: list[dict[str, Any]] = []
        self.blobs: list[str | None] = []
        #: Level and time of each host that it knows.
        self.hosts: dict[str, tuple[Any, Any]] = {}
        #: What it answers whatever is asked, where it is ill.
        self.failure: tuple[str, Any] | None = None
        #: Cleared, it answers nobody.
        self.awake = threading.Event()
        self.awake.set()

    @property
    def port(self) -> int:
        return int(self.url.removesuffix(API).rpartition(":")[2])

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        asked = json.loads(environ["wsgi.input"].read(length))
        self.seen.append(asked)
        self.blobs.append(environ.get("HTTP_X_AUTH_BLOB"))
        self.awake.wait(10)
        status, document = self.failure or self._answer(environ, asked)
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        start_response(status, headers)
        return [content]

    def _answer(self, environ: dict[str, Any], asked: dict[str, Any]) -> tuple[str, Any]:
        if (environ["REQUEST_METHOD"], environ["PATH_INFO"]) != ("POST", f"{API}/PollHosts"):
            return "404 Not Found", {}
        if asked["count"] != len(asked["hosts"]):
            return "400 Bad Request", {}
        found = [
            {"host_name": host, "trust_lvl": trust, "vtime": vtime}
            for host, (trust, vtime) in self.hosts.items()
            if host in asked["hosts"]
        ]
        return "200 OK", {"hosts": found}


@contextmanager
def run_attestation_service(folder: Path, name: str = "127.0.0.1") -> Iterator[FakeAttestation]:
    """Give a service that answers until the end, with a certificate for ``name``."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    service = FakeAttestation()
    service.ca_file = str(folder / "ca.pem")
    authority.cert_pem.write_to_path(service.ca_file)
    with serve_application(service, context) as url:
        service.url = url + API
        try:
            yield service
        finally:
            service.awake.set()
