# SPDX-License-Identifier: Apache-2.0
"""Tests of the files in ``deploy/`` with the programs that read them."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import requests

from tests.support.repository import ROOT
from tests.support.servers import wait_until

DEPLOY_FOLDER = ROOT / "deploy"
#: Set by CI: the test then fails if a program is not installed.
TOOLS_REQUIRED = bool(os.environ.get("PLACEMENT_SCHED_REQUIRE_TOOLS"))


def find_program(name: str, package: str | None = None) -> str:
    """Return the path of a program, or skip the test if it is not installed."""
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if path is None:
        reason = f"{name} is not installed: apt-get install {package or name}"
        assert not TOOLS_REQUIRED, reason
        pytest.skip(reason)
    return path


def run_program(*command: str | Path, status: int = 0, **options: object) -> str:
    """Run a program and return its output."""
    result = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
        **options,
    )
    assert result.returncode == status, result.stdout
    return result.stdout


@contextmanager
def run_proxy(folder: Path, port: int, *command: str | Path) -> Iterator[tuple[str, Path]]:
    """Run a proxy on ``port`` with the certificate of ``folder``.

    Yield its URL and the path of the certificate when a server behind the proxy answers.
    """
    log = folder / "proxy.log"
    with ExitStack() as stack:
        output = stack.enter_context(log.open("w"))
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        stack.callback(process.wait, timeout=60)
        stack.callback(process.terminate)
        url, certificate = f"https://localhost:{port}", folder / "cert.pem"

        def is_proxy_responding() -> bool:
            try:
                response = requests.get(f"{url}/healthz", verify=str(certificate), timeout=60)
            except requests.ConnectionError:
                return False
            return response.status_code == 200

        assert wait_until(is_proxy_responding), log.read_text()
        yield url, certificate


def create_certificate(folder: Path) -> Path:
    """Create a self-signed certificate for localhost and return the file with it and its key."""
    key, certificate = folder / "key.pem", folder / "cert.pem"
    run_program(
        *(find_program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
        *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        *("-keyout", key, "-out", certificate),
    )
    certificate_and_key = folder / "placement.pem"
    certificate_and_key.write_text(certificate.read_text() + key.read_text())
    return certificate_and_key


def check_query_length_limit(url: str, **options: Any) -> None:
    """Check that a query of 65 000 bytes succeeds, and the errors of longer queries."""
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}

    def request_with_query_of_size(size: int) -> requests.Response:
        aggregates = ",".join(str(UUID(int=number)) for number in range((size - 40) // 37))
        query = f"member_of=in:{aggregates}&name="
        address = f"{url}/placement/resource_providers?{query:n<{size}}"
        return requests.get(address, headers=headers, timeout=60, **options)

    longest = request_with_query_of_size(65_000)
    assert (longest.status_code, longest.json()) == (200, {"resource_providers": []})
    for size, statuses in ((65_001, {400}), (65_500, {400, 414}), (80_000, {400, 414})):
        response = request_with_query_of_size(size)
        assert response.status_code in statuses, (size, response.status_code, response.text)
        assert "65000" in response.text, size
