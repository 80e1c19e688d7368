# SPDX-License-Identifier: Apache-2.0
"""Single lines of the guide, typed as printed.

``REPLACEMENTS`` has the files, addresses, ports and sizes of clouds that differ on this machine.
"""

import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.coexistence.conftest import OpenStackPlacement
from tests.differential.comparison import skip_without_peer
from tests.support.empty_databases import empty_database
from tests.support.nova_clouds import NovaCloud, create_sqlite_nova
from tests.support.repository import ROOT
from tests.support.servers import PROGRAM, PROGRAMS_FOLDER, Server, build_environment, start_server

pytestmark = pytest.mark.exhaustive

#: Printed text, and the text that replaces it on this machine.
PAGE_TEXT_REPLACEMENTS = {
    "/etc/placement/placement.conf": "placement.conf",
    "/etc/nova/nova.conf": "nova.conf",
    "--host 192.0.2.10": "--port {port}",
    "--hosts 10000": "--hosts 60 --database sqlite",
    "load.py postgresql+psycopg://.../million": "load.py sqlite:///million.db",
    "one_cloud.py": "one_cloud.py --rounds 1",
    "--size 1000000": "--size 200",
}
SERVER_URL = "http://127.0.0.1:8778"


def list_console_lines_of_page(page: str) -> list[str]:
    """Return the console lines of a page."""
    text = re.sub(r"\\\n\s+", "", (ROOT / f"doc/source/{page}.rst").read_text())
    return re.findall(r"^ +\$ (.+)", text, re.MULTILINE)


def find_console_line(page: str, *words: str) -> str:
    """Return the only line of a page that contains these words."""
    (line,) = {
        line for line in list_console_lines_of_page(page) if all(word in line for word in words)
    }
    return line


#: The lines of each test: the page and words that identify the line.
LINES_BY_TEST = {
    "policies": [("options", "oslopolicy-sample-generator"), ("options", "oslopolicy-validator")],
    "gunicorn": [("recipes", "gunicorn placement_sched")],
    "existing": [
        ("adopt", "db adopt", "placement_sched.conf"),
        ("adopt", "config validate", "placement_sched.conf"),
        ("adopt", "placement-sched serve"),
    ],
    "why": [
        ("limits", "config validate --database"),
        ("limits", "db version"),
        ("limits", "curl http://127.0.0.1:8778/healthz/ready"),
    ],
    "copy": [
        ("adopt", "db version", "copy.conf"),
        ("adopt", "db adopt", "copy.conf"),
        ("adopt", "nova adopt"),
        ("adopt", "nova sync"),
        ("adopt", "explain", "--vcpus 4", "copy.conf"),
    ],
    "nova": [("adopt", "nova-shadow report")],
    "bench": [
        ("benchmarks", "bench/load.py"),
        ("how_current", "bench/load.py"),
        ("capacity", "bench/scheduler_api.py"),
    ],
    "in memory": [("how_current", "bench/one_cloud.py")],
    "left": [
        ("adopt", "db leave", "placement_sched.conf"),
        ("adopt", "db version", "placement_sched.conf"),
    ],
}


def list_tested_lines() -> list[tuple[str, str]]:
    """Return every line that a test of this module types, with its page."""
    return [
        (page, find_console_line(page, *words))
        for rows in LINES_BY_TEST.values()
        for page, *words in rows
    ]


def find_lines_of_test(name: str) -> list[str]:
    return [find_console_line(page, *words) for page, *words in LINES_BY_TEST[name]]


@pytest.fixture
def reader_folder(tmp_path: Path) -> Path:
    """A folder with the virtual environment of ``make`` and a configuration file."""
    (tmp_path / ".venv").symlink_to(PROGRAMS_FOLDER.parent)
    (tmp_path / "placement_sched.conf").write_text(
        "[placement_database]\nconnection = sqlite:///own.db\n[api]\nauth_strategy = noauth2\n"
    )
    return tmp_path


def make_line_runnable(line: str, reader_folder: Path) -> str:
    for printed, written in PAGE_TEXT_REPLACEMENTS.items():
        line = line.replace(printed, written)
    return line.replace("{folder}", str(reader_folder))


def run_line(line: str, reader_folder: Path, status: int = 0, *, url: str = SERVER_URL) -> str:
    """Type a line, and return its output."""
    result = subprocess.run(
        [
            "bash",
            "-euo",
            "pipefail",
            "-c",
            make_line_runnable(line, reader_folder).replace(SERVER_URL, url),
        ],
        cwd=reader_folder,
        env=build_environment(PATH=f"{PROGRAMS_FOLDER}:/usr/bin:/bin", HOME=str(reader_folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == status, f"$ {line}\n{result.stdout}"
    return result.stdout


@contextmanager
def run_documented_server(line: str, reader_folder: Path) -> Iterator[Server]:
    """Type a line that starts a server, with a free port in place of its address."""
    words = shlex.split(make_line_runnable(line, reader_folder))
    assert words[:2] == ["placement-sched", "serve"]
    with start_server(command=[PROGRAM, *words[1:]], folder=reader_folder) as server:
        yield server


def test_documented_policy_file_passes_the_validator(reader_folder):
    sample, validated = find_lines_of_test("policies")
    (reader_folder / "placement.conf").write_text("[oslo_policy]\npolicy_file = policy.yaml\n")
    run_line(sample, reader_folder)
    assert (reader_folder / "policy.yaml").read_text().startswith("#")
    run_line(validated, reader_folder)


def test_gunicorn_without_configuration_fails_as_documented(reader_folder):
    (line,) = find_lines_of_test("gunicorn")
    printed = run_line(line, reader_folder, 3)
    assert "placement_sched.wsgi: cannot serve: the configuration" in printed


def create_placement_database(reader_folder: Path, file: str) -> None:
    """Create a database of OpenStack placement, and a configuration file for it."""
    url = f"sqlite:///{reader_folder}/{Path(file).stem}.db"
    OpenStackPlacement(url).run_placement_manage("db", "sync")
    (reader_folder / file).write_text(
        f"[placement_database]\nconnection = {url}\n[api]\nauth_strategy = noauth2\n"
    )


def test_documented_adoption_of_a_placement_database_works(reader_folder):
    skip_without_peer()
    adopt, valid, serve = find_lines_of_test("existing")
    create_placement_database(reader_folder, "placement_sched.conf")
    assert "tables of placement-sched: revision" in run_line(adopt, reader_folder)
    assert "the configuration is valid" in run_line(valid, reader_folder)
    with run_documented_server(f"{serve} --host 192.0.2.10", reader_folder) as server:
        assert server.get("/healthz/ready")[0] == 200


def test_documented_diagnosis_of_startup_errors_works(reader_folder):
    valid, version, ready = find_lines_of_test("why")
    assert "the configuration is valid" in run_line(
        valid, reader_folder
    )  # SQLite is prepared at each start
    assert "at revision none" in run_line(version, reader_folder)
    serve = "placement-sched serve --config-file placement_sched.conf --host 192.0.2.10"
    with run_documented_server(serve, reader_folder) as server:
        assert run_line(ready, reader_folder, url=server.url).endswith('{"status":"ready"}')


def create_nova_databases(reader_folder: Path) -> NovaCloud:
    """Create nova databases with a host, and a ``nova.conf`` for them."""
    nova = create_sqlite_nova(reader_folder, "one")
    nova.add_host("cn1")
    (reader_folder / "nova.conf").write_text(f"[api_database]\nconnection = {nova.api.url}\n")
    return nova


def test_documented_explain_in_a_copied_cloud_works(reader_folder):
    skip_without_peer()
    version, adopt, adopt_nova, sync, explain = find_lines_of_test("copy")
    create_placement_database(reader_folder, "copy.conf")
    nova = create_nova_databases(reader_folder)
    printed = run_line(version, reader_folder)
    assert printed.startswith(f"sqlite:///{reader_folder}/copy.db: ")
    assert "not adopted" in printed
    assert "tables of placement-sched: revision" in run_line(adopt, reader_folder)
    assert "(cn1)" in run_line(adopt_nova, reader_folder)
    assert "was up to date" in run_line(sync, reader_folder)
    assert "No valid host" in run_line(explain, reader_folder)
    nova.close()


def test_documented_shadow_report_says_that_no_request_was_evaluated(reader_folder):
    run_line("placement-sched db sync --config-file placement_sched.conf", reader_folder)
    (line,) = find_lines_of_test("nova")
    assert "no request was evaluated" in run_line(line, reader_folder)


def test_documented_db_version_after_a_rollback_names_openstack(reader_folder):
    skip_without_peer()
    leave, line = find_lines_of_test("left")
    (reader_folder / "placement_sched.conf").write_text(
        "[placement_database]\nconnection = sqlite:///placement.db\n"
    )
    OpenStackPlacement(f"sqlite:///{reader_folder}/placement.db").run_placement_manage("db", "sync")
    adopting = find_console_line("adopt", "db adopt", "placement_sched.conf")
    run_line(adopting, reader_folder)
    printed = run_line(leave, reader_folder)
    assert printed.endswith("tables and triggers of placement-sched removed\n")
    printed = run_line(line, reader_folder)
    assert re.search(r"OpenStack placement's database of .*, not adopted", printed)


def test_documented_benchmark_commands_run(reader_folder):
    (reader_folder / "bench").symlink_to(ROOT / "bench")
    nested, sparse, counted = find_lines_of_test("bench")
    assert run_line(nested, reader_folder).startswith("nested, 1000: ")
    assert run_line(sparse, reader_folder).startswith("sparse, 200: ")
    assert "| capacity of 25 flavors per zone " in run_line(counted, reader_folder)


def test_documented_provider_cache_benchmark_runs(reader_folder):
    """SQLite has no change log, so the cache needs PostgreSQL."""
    (reader_folder / "bench").symlink_to(ROOT / "bench")
    (line,) = find_lines_of_test("in memory")
    load = find_console_line("how_current", "bench/load.py")
    with empty_database("postgresql", reader_folder) as url:
        load, query = (
            text.replace("postgresql+psycopg://.../million", url) for text in (load, line)
        )
        assert run_line(load, reader_folder).startswith("sparse, 200: ")
        printed = run_line(query, reader_folder)
    assert re.search(r"^\| s until all is in memory \| \d+ \|", printed, re.MULTILINE)
    assert "| PUT allocations |" in printed
