# SPDX-License-Identifier: Apache-2.0
"""A fake attestation service, over HTTPS on the loopback address."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme

from tests.support.loopback import serve_application

API_PATH = "/OpenAttestationWebServices/V1.0"


class FakeAttestation:
    """OpenAttestation's ``POST PollHosts``, as far as TrustedFilter needs it."""

    def __init__(self) -> None:
        self.url = ""
        #: Path of the CA certificate that signs the server's certificate.
        self.ca_file = ""
        #: Bodies of the requests, and their authentication blobs.
        self.seen: list[dict[str, Any]] = []
        self.blobs: list[str | None] = []
        #: Trust level and time of each attested host.
        self.hosts: dict[str, tuple[Any, Any]] = {}
        #: Status and document of every response, if set.
        self.failure: tuple[str, Any] | None = None
        #: Cleared to delay all responses.
        self.awake = threading.Event()
        self.awake.set()

    @property
    def port(self) -> int:
        return int(self.url.removesuffix(API_PATH).rpartition(":")[2])

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = json.loads(environ["wsgi.input"].read(length))
        self.seen.append(body)
        self.blobs.append(environ.get("HTTP_X_AUTH_BLOB"))
        self.awake.wait(10)
        status, document = self.failure or self._respond(environ, body)
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        start_response(status, headers)
        return [content]

    def _respond(self, environ: dict[str, Any], body: dict[str, Any]) -> tuple[str, Any]:
        if (environ["REQUEST_METHOD"], environ["PATH_INFO"]) != ("POST", f"{API_PATH}/PollHosts"):
            return "404 Not Found", {}
        if body["count"] != len(body["hosts"]):
            return "400 Bad Request", {}
        hosts = [
            {"host_name": host, "trust_lvl": trust, "vtime": vtime}
            for host, (trust, vtime) in self.hosts.items()
            if host in body["hosts"]
        ]
        return "200 OK", {"hosts": hosts}


@contextmanager
def run_attestation_service(folder: Path, name: str = "127.0.0.1") -> Iterator[FakeAttestation]:
    """Run a service with a certificate for ``name``."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    service = FakeAttestation()
    service.ca_file = str(folder / "ca.pem")
    authority.cert_pem.write_to_path(service.ca_file)
    with serve_application(service, context) as url:
        service.url = url + API_PATH
        try:
            yield service
        finally:
            service.awake.set()
