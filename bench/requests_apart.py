# SPDX-License-Identifier: Apache-2.0
"""What a request costs in two trees of this repository, each in a process of its own, in turn.

    python bench/requests_apart.py OLD_TREE NEW_TREE [ROUNDS]

Prints the CPU milliseconds of a request, best and median of the rounds: without a server, on an
SQLite database of 400 providers, so that what differs is the way of a request to its handler.
"""

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any

from plain_http import PEER_LATEST

PROVIDERS = 400
HEADERS = {"HTTP_X_AUTH_TOKEN": "admin", "HTTP_OPENSTACK_API_VERSION": f"placement {PEER_LATEST}"}


def main() -> None:
    """Run the rounds and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trees", nargs=2, type=Path, metavar="TREE", help="a checkout")
    parser.add_argument("rounds", nargs="?", type=int, default=9)
    asked = parser.parse_args()
    trees, rounds = [tree.resolve(strict=True) for tree in asked.trees], asked.rounds
    found: dict[tuple[str, Path], list[float]] = {}
    for _ in range(rounds):
        for tree in trees:
            for name, milliseconds in json.loads(_run(tree)).items():
                found.setdefault((name, tree), []).append(milliseconds)
    for name in dict.fromkeys(name for name, _ in found):
        shown = [
            f"{min(found[name, tree]):.3f} {statistics.median(found[name, tree]):.3f}"
            for tree in trees
        ]
        print(f"{name:40} {'   '.join(shown)}")


def _run(tree: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(tree), "OS_API__AUTH_STRATEGY": "noauth2"}
    command = [sys.executable, __file__, "--here"]
    return subprocess.run(
        command, env=environment, cwd=tree, capture_output=True, text=True, check=True
    ).stdout


def here() -> None:
    """Time each kind of request in this process, on the package that PYTHONPATH names."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OS_PLACEMENT_DATABASE__CONNECTION"] = f"sqlite:///{folder}/bench.db"
        os.environ["OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP"] = "true"
        app = import_module("placement_sched.app")  # of the tree that PYTHONPATH names

        loading = import_module("placement_sched.scheduler.plugins")
        application = app.served(app.create_app(loading.read_settings([])))
        uuids = [f"00000000-0000-4000-8000-{number:012d}" for number in range(PROVIDERS)]
        inventory = {"VCPU": {"total": 4000}, "MEMORY_MB": {"total": 100000}}
        for number, uuid in enumerate(uuids):
            _ask(application, "POST", "/resource_providers", {"name": f"p{number}", "uuid": uuid})
            body = {"resource_provider_generation": 0, "inventories": inventory}
            _ask(application, "PUT", f"/resource_providers/{uuid}/inventories", body)
        claim = {
            "allocations": {uuids[0]: {"resources": {"VCPU": 1, "MEMORY_MB": 64}}},
            "project_id": "p",
            "user_id": "u",
            "consumer_type": "INSTANCE",
            "consumer_generation": None,
        }
        _ask(application, "PUT", "/allocations/11111111-0000-4000-8000-000000000000", claim)
        counter = iter(range(1, 10**9))

        def write() -> None:
            number = next(counter)
            _ask(application, "PUT", f"/allocations/11111111-0000-4000-8000-{number:012d}", claim)

        usages = f"/resource_providers/{uuids[0]}/usages"
        candidates = "/allocation_candidates?resources=VCPU:1,MEMORY_MB:64&limit=10"
        kinds = {
            "version document": (lambda: _ask(application, "GET", "/"), 2000),
            "usages of a provider": (lambda: _ask(application, "GET", usages), 1000),
            "allocation candidates, limit=10": (lambda: _ask(application, "GET", candidates), 300),
            "PUT allocations": (write, 200),
        }
        print(json.dumps({name: _timed(ask, number) for name, (ask, number) in kinds.items()}))


def _timed(ask: Callable[[], None], number: int) -> float:
    for _ in range(number // 10):
        ask()
    began = process_time()
    for _ in range(number):
        ask()
    return (process_time() - began) / number * 1000


def _ask(application: Any, method: str, path: str, body: Any = None) -> None:
    path, _, query = path.partition("?")
    data = b"" if body is None else json.dumps(body).encode()
    environ = {
        **HEADERS,
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": f"/placement{path}",
        "QUERY_STRING": query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "localhost",
        "HTTP_ACCEPT": "application/json",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(data),
        "wsgi.input_terminated": True,
    }
    if data:
        environ |= {"CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(data))}
    found = []
    answer = application(environ, lambda status, *_: found.append(status))
    b"".join(answer)
    if hasattr(answer, "close"):
        answer.close()
    if not found[0].startswith("2"):
        raise SystemExit(f"{method} {path}: {found[0]}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--here"]:
        here()
    else:
        main()
