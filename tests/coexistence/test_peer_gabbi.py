# SPDX-License-Identifier: Apache-2.0
"""The gabbi files of OpenStack placement pass against ``placement-sched serve``."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from placement_sched.app import create_app
from tests.coexistence.conftest import build_peer_url
from tests.conftest import delete_test_rows, make_settings
from tests.differential.comparison import PEER_PYTHON
from tests.differential.lines import JsonLineProgram
from tests.support.loopback import serve_application
from tests.support.servers import Server, start_servers

pytestmark = pytest.mark.system

PEER_GABBI_PROGRAM = Path(__file__).with_name("peer_gabbi.py")
GABBI_FOLDERS_PATTERN = "lib/python3*/site-packages/placement/tests/functional/gabbits"
GABBI_FILES = sorted(PEER_PYTHON.parents[1].glob(f"{GABBI_FOLDERS_PATTERN}/*.yaml"))
#: Number of tests in the files of openstack-placement 16.0.0.
PEER_GABBI_TEST_COUNT = 1316


class ServersByFixture:
    """Servers on the same database, each with the options of a fixture."""

    def __init__(self, serve: Any, server_folder: Path, url: str, *, has_cache: bool) -> None:
        self._serve = serve
        self._folder = server_folder
        self._environment = {
            "OS_PLACEMENT_DATABASE__CONNECTION": url,
            "OS_PLACEMENT__PROVIDERS_IN_MEMORY": str(has_cache).lower(),
        }
        self._running: dict[str, Server] = {}

    def start_for_fixture(self, fixture: Mapping[str, Any]) -> Server:
        key = json.dumps(fixture, sort_keys=True)
        if key not in self._running:
            self._running[key] = self._start_server(fixture, len(self._running))
        return self._running[key]

    def _start_server(self, fixture: Mapping[str, Any], number: int) -> Server:
        options = {group: dict(values) for group, values in fixture["options"].items()}
        if fixture["rules"] is not None:
            rules = self._folder / f"policy{number}.yaml"
            rules.write_text(yaml.safe_dump(fixture["rules"]))
            options["oslo_policy"]["policy_file"] = str(rules)
        path = self._folder / f"placement{number}.conf"
        path.write_text("\n".join(_format_config_lines(options)) + "\n")
        return self._serve("--config-file", str(path), **self._environment)


def _format_config_lines(options: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for group, values in options.items():
        yield f"[{group}]"
        for name, value in values.items():
            if value is not None:
                written = ",".join(value) if isinstance(value, list) else value
                yield f"{name} = {written}"


@pytest.fixture(scope="module")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gabbi")


@pytest.fixture(scope="module")
def served_db_url(sqlite_template: Path, server_folder: Path) -> str:
    path = server_folder / "placement_sched.db"
    path.write_bytes(sqlite_template.read_bytes())
    return f"sqlite:///{path}"


@pytest.fixture(
    scope="module",
    params=[True, pytest.param(False, marks=pytest.mark.exhaustive)],
    ids=["cached", "loaded"],
)
def servers_by_fixture(
    served_db_url: str, server_folder: Path, request: pytest.FixtureRequest
) -> Iterator[ServersByFixture]:
    with start_servers(server_folder) as serve:
        yield ServersByFixture(serve, server_folder, served_db_url, has_cache=request.param)


@pytest.fixture(scope="module")
def gabbi_runner(served_db_url: str) -> Iterator[JsonLineProgram]:
    lines = JsonLineProgram(PEER_PYTHON, PEER_GABBI_PROGRAM, build_peer_url(served_db_url))
    yield lines
    lines.close()


@pytest.fixture(scope="module")
def url_without_validation(served_db_url: str) -> Iterator[str]:
    application = create_app(make_settings(served_db_url, api__auth_strategy="noauth2"))
    with serve_application(application) as url:
        yield url
    application.close()


@pytest.mark.parametrize("path", GABBI_FILES, ids=lambda path: path.stem)
def test_gabbi_file_of_openstack_placement_passes(
    path, gabbi_runner, servers_by_fixture, url_without_validation, served_db_url
):
    delete_test_rows(served_db_url)
    fixture = gabbi_runner.exchange_json_line({"start": path.name})
    run = {
        "run": f"{servers_by_fixture.start_for_fixture(fixture).url}/placement",
        "lenient": url_without_validation,
    }
    result = gabbi_runner.exchange_json_line(run)
    assert result["failures"] == [], "\n".join(result["failures"])
    assert result["skipped"] == []
    assert result["tests"] == len(list_gabbi_tests(path))


def test_openstack_placement_has_the_recorded_number_of_gabbi_tests():
    assert sum(len(list_gabbi_tests(path)) for path in GABBI_FILES) == PEER_GABBI_TEST_COUNT


def list_gabbi_tests(path: Path) -> list[Any]:
    return list(yaml.safe_load(path.read_text())["tests"])
