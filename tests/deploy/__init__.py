"""What ``deploy/`` has is read by the programs that it is for, as far as they are here."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.house.tree import ROOT

DEPLOY = ROOT / "deploy"
#: Set by CI: a program that is not there is a failure, not a skip.
REQUIRED = bool(os.environ.get("PLACEMENT_SCHED_REQUIRE_TOOLS"))


def tool(name: str, package: str | None = None) -> str:
    """Return where a program is; skip the test where it is not installed."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        reason = f"{name} is not installed: apt-get install {package or name}"
        assert not REQUIRED, reason
        pytest.skip(reason)
    return found


def run(*command: str | Path, status: int = 0, **more: object) -> str:
    """Run a program; return all that it printed."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
        **more,
    )
    assert done.returncode == status, done.stdout
    return done.stdout


def certificate(folder: Path) -> Path:
    """Make a self-signed certificate for localhost; return the file with it and its key."""
    key, signed = folder / "key.pem", folder / "cert.pem"
    run(
        *(tool("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
        *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        *("-keyout", key, "-out", signed),
    )
    both = folder / "placement.pem"
    both.write_text(signed.read_text() + key.read_text())
    return both
