# SPDX-License-Identifier: Apache-2.0
"""A fake attestation service, over HTTPS on the loopback address."""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme

from tests.support.loopback import FakeService, run_fake_service

API_PATH = "/OpenAttestationWebServices/V1.0"


class FakeAttestation(FakeService):
    """OpenAttestation's ``POST PollHosts``, as far as TrustedFilter needs it."""

    def __init__(self) -> None:
        super().__init__()
        #: Path of the CA certificate that signs the server's certificate.
        self.ca_file = ""
        #: Bodies of the requests, and their authentication blobs.
        self.seen: list[dict[str, Any]] = []
        self.blobs: list[str | None] = []
        #: Trust level and time of each attested host.
        self.hosts: dict[str, tuple[Any, Any]] = {}

    @property
    def port(self) -> int:
        return int(self.url.removesuffix(API_PATH).rpartition(":")[2])

    def respond(self, environ: dict[str, Any]) -> tuple[str, Any]:
        body = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        self.seen.append(body)
        self.blobs.append(environ.get("HTTP_X_AUTH_BLOB"))
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
    with run_fake_service(service, context):
        service.url += API_PATH
        yield service
