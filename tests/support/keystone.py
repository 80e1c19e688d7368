# SPDX-License-Identifier: Apache-2.0
"""OpenStack's keystone from the environment of ``make peer``, with an SQLite database."""

import os
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.differential.comparison import PEER_PYTHON
from tests.support.servers import Server, build_environment, start_server

PASSWORD = "of-the-cloud"  # noqa: S105 - of a keystone of the tests
#: Program that serves the WSGI application of a module (arguments: module, address, port).
SERVE_KEYSTONE_PROGRAM = """
import importlib, sys
from wsgiref.simple_server import make_server
(module, address, port), sys.argv[1:] = sys.argv[1:], []
application = importlib.import_module(module).application
make_server(address, int(port), application).serve_forever()
"""
KEYSTONE_WSGI_MODULE = "keystone.wsgi.api"
_KEYSTONE_CONF = """
[database]
connection = sqlite:///{folder}/keystone.db
[fernet_tokens]
key_repository = {folder}/tokens
[fernet_receipts]
key_repository = {folder}/receipts
[credential]
key_repository = {folder}/credentials
"""


def create_keystone_database(folder: Path) -> None:
    """Write keystone's configuration and keys into a folder, and create its database."""
    for name in ("tokens", "receipts", "credentials"):
        (folder / name).mkdir(parents=True)
        for number in range(2):
            (folder / name / str(number)).write_bytes(urlsafe_b64encode(os.urandom(32)))
    (folder / "keystone.conf").write_text(_KEYSTONE_CONF.format(folder=folder))
    _run_keystone_manage(folder, ["db_sync"])


def bootstrap_keystone(folder: Path, url: str) -> None:
    """Create the administrator and the project ``service`` of a keystone at ``url``."""
    urls = [f"--bootstrap-{each}-url={url}" for each in ("public", "internal", "admin")]
    names = ("--bootstrap-project-name=service", "--bootstrap-region-id=RegionOne")
    _run_keystone_manage(folder, ["bootstrap", f"--bootstrap-password={PASSWORD}", *names, *urls])


def _run_keystone_manage(folder: Path, words: Sequence[str]) -> None:
    program = PEER_PYTHON.with_name("keystone-manage")
    assert program.exists(), "keystone is not installed beside us: make peer does it"
    command = [program, f"--config-file={folder}/keystone.conf", *words]
    subprocess.run(command, check=True, timeout=300)


@contextmanager
def run_keystone(folder: Path) -> Iterator[Server]:
    """Run a keystone on a free port. Its users log in at ``<url>/v3``."""
    create_keystone_database(folder)
    with start_server(
        folder=folder,
        ready="/v3",
        variables=build_environment(OS_KEYSTONE_CONFIG_DIR=str(folder)),
        command=[
            PEER_PYTHON,
            "-c",
            SERVE_KEYSTONE_PROGRAM,
            KEYSTONE_WSGI_MODULE,
            "127.0.0.1",
            "{port}",
        ],
    ) as server:
        bootstrap_keystone(folder, f"{server.url}/v3")
        yield server
