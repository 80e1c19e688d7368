# SPDX-License-Identifier: Apache-2.0
"""Lines of the guide and of README.md that stand for themselves, typed as they are printed.

What differs is in ``HERE``: the files of a machine, the addresses, the port, and how large a cloud
is.
"""

import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.coexistence.conftest import OpenStack
from tests.differential.duel import needs_peer
from tests.house.test_readme import README
from tests.support.empty_databases import empty_database
from tests.support.nova_clouds import sqlite_nova
from tests.support.repository import ROOT
from tests.support.servers import BIN, PROGRAM, Server, environment, started

pytestmark = pytest.mark.exhaustive

#: What is written on this machine for what a page prints.
HERE = {
    "/etc/placement/placement.conf": "placement.conf",
    "/etc/nova/nova.conf": "nova.conf",
    "--host 192.0.2.10": "--port {port}",
    "--hosts 10000": "--hosts 60 --database sqlite --server sqlite:///{folder}/",
    "load.py postgresql+psycopg://.../million": "load.py sqlite:///million.db",
    "one_cloud.py": "one_cloud.py --size 200 --rounds 1",
    "--size 1000000": "--size 200",
}
SERVER = "http://127.0.0.1:8778"


def lines(page: str) -> list[str]:
    """Return the lines of a page that any user types."""
    if page == "README":
        return README.splitlines()
    text = re.sub(r"\\\n\s+", "", (ROOT / f"doc/source/{page}.rst").read_text())
    return re.findall(r"^ +\$ (.+)", text, re.MULTILINE)


def line_of(page: str, *words: str) -> str:
    """Return the one line of a page that has these words."""
    (line,) = {line for line in lines(page) if all(word in line for word in words)}
    return line


#: By the name of a test, the lines that it types: the page, and what makes each the only one.
TYPED = {
    "policies": [("policies", "oslopolicy-sample-generator"), ("policies", "oslopolicy-validator")],
    "gunicorn": [("wsgi_servers", "gunicorn placement_sched")],
    "existing": [
        ("README", "config validate", "/etc/placement/"),
        ("README", "db adopt", "/etc/placement/"),
        ("README", "serve", "/etc/placement/"),
        ("README", "serve --config-file placement_sched.conf"),
    ],
    "why": [
        ("README", "config validate --database"),
        ("README", "db version"),
        ("README", "curl http://127.0.0.1:8778/healthz/ready"),
    ],
    "nova": [
        ("README", "adopt nova"),
        ("README", "/placement-sched nova shadow report"),
        ("nova_shadow", "nova shadow report"),
    ],
    "bench": [
        ("benchmarks", "bench/load.py"),
        ("large_clouds", "bench/load.py"),
        ("capacity", "bench/capacity.py"),
    ],
    "in memory": [("large_clouds", "bench/one_cloud.py")],
    "left": [("move_placement", "placement-sched db version --config-file placement.conf")],
}


def typed() -> list[tuple[str, str]]:
    """Return every line that a test of this module types, with its page."""
    return [(page, line_of(page, *words)) for some in TYPED.values() for page, *words in some]


def of(name: str) -> list[str]:
    return [line_of(page, *words) for page, *words in TYPED[name]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a reader, with the program where README.md has it."""
    (tmp_path / ".venv").symlink_to(BIN.parent)
    (tmp_path / "placement_sched.conf").write_text(
        "[placement_database]\nconnection = sqlite:///own.db\n[api]\nauth_strategy = noauth2\n"
    )
    return tmp_path


def here(line: str, folder: Path) -> str:
    for printed, written in HERE.items():
        line = line.replace(printed, written)
    return line.replace("{folder}", str(folder))


def run(line: str, folder: Path, status: int = 0, *, url: str = SERVER) -> str:
    """Type a line; return what it printed."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", here(line, folder).replace(SERVER, url)],
        cwd=folder,
        env=environment(PATH=f"{BIN}:/usr/bin:/bin", HOME=str(folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == status, f"$ {line}\n{done.stdout}"
    return done.stdout


@contextmanager
def serving(line: str, folder: Path) -> Iterator[Server]:
    """Type a line that starts a server, in place of its address on a port of ours."""
    words = shlex.split(here(line, folder))
    assert words[:2] == [".venv/bin/placement-sched", "serve"]
    with started(command=[PROGRAM, *words[1:]], folder=folder) as server:
        yield server


def test_policy_file_of_the_page_is_valid(folder):
    sample, validated = of("policies")
    (folder / "placement.conf").write_text("[oslo_policy]\npolicy_file = policy.yaml\n")
    run(sample, folder)
    assert (folder / "policy.yaml").read_text().startswith("#")
    run(validated, folder)


def test_gunicorn_without_configuration_ends_as_the_page_shows(folder):
    (line,) = of("gunicorn")
    printed = run(line, folder, 3)
    assert "placement_sched.wsgi: refusing to serve: the configuration" in printed


def test_existing_placement_is_adopted_and_served(folder):
    needs_peer()
    valid, adopt, serve, production = of("existing")
    url = f"sqlite:///{folder}/placement.db"
    OpenStack(url).manage("db", "sync")
    (folder / "placement.conf").write_text(
        f"[placement_database]\nconnection = {url}\n[api]\nauth_strategy = noauth2\n"
    )
    assert "the configuration is valid" in run(valid, folder)
    assert "own schema: revision" in run(adopt, folder)
    for line in (serve, production):
        with serving(line, folder) as server:
            assert server.get("/healthz/ready")[0] == 200


def test_reasons_why_a_server_does_not_start_are_found(folder):
    valid, version, ready = of("why")
    assert "the configuration is valid" in run(valid, folder)  # SQLite is prepared at each start
    assert "at revision none" in run(version, folder)
    serve = line_of("README", "serve --config-file placement_sched.conf")
    with serving(serve, folder) as server:
        assert run(ready, folder, url=server.url).endswith('{"status":"ready"}')


def test_hosts_of_nova_are_taken_over_and_the_shadow_reported(folder):
    adopt, *reports = of("nova")
    nova = sqlite_nova(folder, "one")
    nova.add_host("cn1")
    (folder / "nova.conf").write_text(f"[api_database]\nconnection = {nova.api.url}\n")
    own = (folder / "placement_sched.conf").read_text()
    (folder / "own.conf").write_text(own)
    run(".venv/bin/placement-sched db sync --config-file own.conf", folder)
    assert "(cn1)" in run(adopt, folder)
    for line in reports:
        assert "no request was evaluated" in run(line, folder)
    nova.close()


def test_version_after_the_way_back_is_openstacks(folder):
    needs_peer()
    (line,) = of("left")
    (folder / "placement.conf").write_text(
        "[placement_database]\nconnection = sqlite:///placement.db\n"
    )
    OpenStack(f"sqlite:///{folder}/placement.db").manage("db", "sync")
    printed = run(line, folder)
    assert re.search(r"OpenStack placement's database of .*, not adopted", printed)


def test_clouds_of_the_benchmarks_are_loaded_and_asked(folder):
    (folder / "bench").symlink_to(ROOT / "bench")
    nested, sparse, counted = of("bench")
    assert run(nested, folder).startswith("nested, 1000: ")
    assert run(sparse, folder).startswith("sparse, 200: ")
    assert "| 25 flavors, per zone " in run(counted, folder)


def test_cloud_that_workers_keep_in_memory_is_asked(folder):
    """SQLite has no log of changes, by which they keep it up to date."""
    (folder / "bench").symlink_to(ROOT / "bench")
    (line,) = of("in memory")
    load = line_of("large_clouds", "bench/load.py")
    with empty_database("postgresql", folder) as url:
        load, ask = (one.replace("postgresql+psycopg://.../million", url) for one in (load, line))
        assert run(load, folder).startswith("sparse, 200: ")
        printed = run(ask, folder)
    assert re.search(r"^\| s until all is in memory \| \d+ \|", printed, re.MULTILINE)
    assert "| PUT allocations |" in printed
