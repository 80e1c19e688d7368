# SPDX-License-Identifier: Apache-2.0
"""Runs the gabbi stories: one file is one test, from an empty database, on each database.

Each is told once more over HTTP: to a server of this test's own or, with ``--url``, to one that
is running already (``make test-only WHAT=gabbi URL=http://127.0.0.1:8778``). That one must have no
resource providers: what a story makes there is removed at its end.
"""

import os
import re
import threading
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest
import requests
from gabbi import handlers, suitemaker, utils
from werkzeug.serving import make_server

from placement_sched.api.placement.microversions import VERSIONING
from tests.conftest import make_settings
from tests.support.versions import LATEST

FOLDER = Path(__file__).parent / "gabbits"
STORIES = sorted(FOLDER.glob("*.yaml"))
each_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.stem)


def run_story(
    story: Path, *, host: str, port: int, prefix: str = "", application: Callable | None = None
) -> None:
    """Play a story against what listens at an address, or an application in its place."""
    written = utils.load_yaml(yaml_file=str(story))
    if application is None:
        # gabbi never closes the connections that it keeps.
        written["defaults"]["request_headers"]["connection"] = "close"
    suite = suitemaker.test_suite_from_dict(
        loader=unittest.TestLoader(),
        test_base_name=story.stem,
        suite_dict=written,
        test_directory=str(story.parent),
        host=host,
        port=port,
        prefix=prefix,
        fixture_module=None,
        intercept=None if application is None else lambda: application,
        handlers=[handler() for handler in handlers.RESPONSE_HANDLERS],
    )
    result = unittest.TestResult()
    with patch.dict(os.environ, PLACEMENT_LATEST=LATEST):
        suite.run(result)
    told = [f"{test}\n{reason}" for test, reason in (*result.errors, *result.failures)]
    assert result.testsRun > 0
    assert not told, "\n".join(told)
    assert not result.unexpectedSuccesses


@pytest.mark.all_databases
@each_story
def test_gabbi_story(story, app):
    run_story(story, host="127.0.0.1", port=8778, application=app.app)


@pytest.mark.slow
@each_story
@pytest.mark.usefixtures("log_of_changes")
def test_gabbi_story_with_provider_cache(story, database_url, make_app):
    settings = make_settings(database_url, placement__providers_in_memory=True)
    app = make_app(settings, in_memory=True)
    services = app.app.services
    services.ready()
    services.scheduler.memory.fill(services.database, 60)
    run_story(story, host="127.0.0.1", port=8778, application=app.app)
    figures = services.scheduler.memory.provider_cache.figures
    assert figures.full_readings == 1


@pytest.mark.exhaustive
@each_story
def test_gabbi_story_over_http(story, url):
    address = urlsplit(url)
    port = address.port or 80
    run_story(story, host=address.hostname, port=port, prefix=address.path.rstrip("/"))


#: What stories make, in the order in which it can be removed: the name of the list, and of what
#: is named by the address of one.
LISTS = {
    "/scheduler/v1/instances": ("instances", "uuid"),
    "/compute/v2.1/os-server-groups": ("server_groups", "id"),
    "/compute/v2.1/os-aggregates": ("aggregates", "id"),
    "/compute/v2.1/flavors": ("flavors", "id"),
    "/image/v2/images": ("images", "id"),
    "/scheduler/v1/compute_nodes": ("compute_nodes", "uuid"),
    "/placement/resource_providers": ("resource_providers", "uuid"),
    "/placement/traits": ("traits", ""),
    "/placement/resource_classes": ("resource_classes", "name"),
}
VERSIONS = f"placement {LATEST}, compute 2.96"


class CleanupClient:
    """Speaks to a server as its administrator, and leaves it as it was found."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._found = {path: self.list_addresses(path) for path in LISTS}

    def ask(self, method: str, path: str, body: dict | None = None) -> dict:
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": VERSIONS}
        answer = requests.request(
            method, f"{self._url}{path}", headers=headers, json=body, timeout=60
        )
        return answer.json() if answer.ok and answer.content else {}

    def list_addresses(self, path: str) -> frozenset[str]:
        """What of a kind there is, as addresses name it."""
        name, key = LISTS[path]
        found = self.ask("GET", path).get(name, [])
        return frozenset(str(one[key] if key else one) for one in found)

    def created_addresses(self) -> set[str]:
        """The addresses of what was not there when this visitor came."""
        return {
            f"{path}/{one}"
            for path in LISTS
            for one in self.list_addresses(path) - self._found[path]
        }

    def delete_created(self) -> None:
        """Remove what was made since: what holds before what is held, children before parents."""
        for path, found in self._found.items():
            made = self.list_addresses(path) - found
            while made:
                for one in made:
                    self._release(f"{path}/{one}")
                    self.ask("DELETE", f"{path}/{one}")
                before, made = made, self.list_addresses(path) - found
                assert len(made) < len(before), f"cannot be removed: {made}"

    def _release(self, address: str) -> None:
        """Free what would hold fast the thing at an address."""
        for host in self.ask("GET", address).get("aggregate", {}).get("hosts", []):
            self.ask("POST", f"{address}/action", {"remove_host": {"host": host}})
        if "resource_providers" in address:
            for consumer in self.ask("GET", f"{address}/allocations").get("allocations", ()):
                self.ask("DELETE", f"/placement/allocations/{consumer}")


@pytest.fixture
def own_server(sqlite_app) -> Iterator[str]:
    """The address of a server of this test's own."""
    server = make_server("127.0.0.1", 0, sqlite_app.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(timeout=60)
    server.server_close()


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address that ``--url`` names, tidied up at the end; without it that of an own server."""
    given = request.config.getoption("--url") or request.getfixturevalue("own_server")
    visitor = CleanupClient(given)
    assert not visitor.list_addresses("/placement/resource_providers"), (
        f"{given} has resource providers"
    )
    yield given
    visitor.delete_created()


@pytest.mark.exhaustive
def test_gabbi_story_leaves_nothing_on_the_server(own_server):
    address = urlsplit(own_server)
    visitor = CleanupClient(own_server)
    kept = {"name": "CUSTOM_KEPT"}
    visitor.ask("POST", "/placement/resource_classes", kept)
    visitor = CleanupClient(own_server)
    for story in ("os-aggregates", "allocation-candidates", "microversions"):
        run_story(FOLDER / f"{story}.yaml", host=address.hostname, port=address.port)
        assert visitor.created_addresses()
        visitor.delete_created()
        assert not visitor.created_addresses()
    assert visitor.ask("GET", "/placement/resource_classes/CUSTOM_KEPT")["name"] == "CUSTOM_KEPT"


def test_every_placement_resource_has_a_story():
    assert {
        "resource-providers",
        "inventories",
        "aggregates",
        "traits",
        "resource-classes",
        "allocations",
        "allocation-candidates",
        "usages",
        "reshaper",
        "microversions",
    } <= {story.stem for story in STORIES}


@pytest.mark.slow
@pytest.mark.parametrize("minor", range(1, VERSIONING.newest.minor + 1))
def test_every_microversion_has_a_case_before_and_after_it(minor):
    cases = utils.load_yaml(yaml_file=str(FOLDER / "microversions.yaml"))["tests"]
    versions = {
        case["request_headers"]["openstack-api-version"]
        for case in cases
        if re.match(rf"1\.{minor} ", case["name"])
    }
    assert versions == {f"placement 1.{minor - 1}", f"placement 1.{minor}"}
