# SPDX-License-Identifier: Apache-2.0
"""The gabbi stories of the Placement API: each file is a test, on each database.

Each story is also run over HTTP: on a server of this test or, with ``--url``, on a running server
(``make test-only WHAT=gabbi URL=http://127.0.0.1:8778``) without resource providers. The objects of
a story are deleted at its end.
"""

import os
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

from tests.conftest import make_settings
from tests.support.versions import LATEST

GABBI_FOLDER = Path(__file__).parent / "gabbits"
GABBI_FILES = sorted(GABBI_FOLDER.glob("*.yaml"))
for_each_gabbi_file = pytest.mark.parametrize(
    "gabbi_file", GABBI_FILES, ids=lambda gabbi_file: gabbi_file.stem
)


def run_gabbi_file(
    gabbi_file: Path, *, host: str, port: int, prefix: str = "", application: Callable | None = None
) -> None:
    """Run a story against a server, or against ``application``."""
    suite_dict = utils.load_yaml(yaml_file=str(gabbi_file))
    if application is None:
        # gabbi never closes its connections.
        suite_dict["defaults"]["request_headers"]["connection"] = "close"
    suite = suitemaker.test_suite_from_dict(
        loader=unittest.TestLoader(),
        test_base_name=gabbi_file.stem,
        suite_dict=suite_dict,
        test_directory=str(gabbi_file.parent),
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
    failures = [f"{test}\n{reason}" for test, reason in (*result.errors, *result.failures)]
    assert result.testsRun > 0
    assert not failures, "\n".join(failures)
    assert not result.unexpectedSuccesses


@pytest.mark.all_databases
@for_each_gabbi_file
def test_gabbi_file_passes_in_process(gabbi_file, app):
    run_gabbi_file(gabbi_file, host="127.0.0.1", port=8778, application=app.app)


@pytest.mark.slow
@for_each_gabbi_file
def test_gabbi_file_passes_without_the_provider_cache(gabbi_file, database_url, make_app):
    app = make_app(make_settings(database_url, placement__providers_in_memory=False))
    run_gabbi_file(gabbi_file, host="127.0.0.1", port=8778, application=app.app)


@pytest.mark.exhaustive
@for_each_gabbi_file
def test_gabbi_file_passes_over_http(gabbi_file, server_url):
    address = urlsplit(server_url)
    port = address.port or 80
    run_gabbi_file(gabbi_file, host=address.hostname, port=port, prefix=address.path.rstrip("/"))


#: Lists of the objects of stories in the order of deletion, with the key for the path of an object.
KEY_FIELDS_BY_COLLECTION = {"resource_providers": "uuid", "traits": "", "resource_classes": "name"}


class CleanupClient:
    """A client of the administrator that deletes objects created after its start."""

    def __init__(self, server_url: str) -> None:
        self._url = f"{server_url}/placement"
        self._before = {noun: self.list_object_names(noun) for noun in KEY_FIELDS_BY_COLLECTION}

    def request_json(self, method: str, path: str, body: dict | None = None) -> dict:
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": f"placement {LATEST}"}
        response = requests.request(
            method, f"{self._url}/{path}", headers=headers, json=body, timeout=60
        )
        return response.json() if response.ok and response.content else {}

    def list_object_names(self, noun: str) -> frozenset[str]:
        """Return the last path segments of the objects of a list."""
        key = KEY_FIELDS_BY_COLLECTION[noun]
        objects = self.request_json("GET", noun).get(noun, [])
        return frozenset(str(each[key] if key else each) for each in objects)

    def list_created_paths(self) -> set[str]:
        """Return the paths of the objects that were created after the start."""
        before = self._before
        return {
            f"{noun}/{name}"
            for noun in KEY_FIELDS_BY_COLLECTION
            for name in self.list_object_names(noun) - before[noun]
        }

    def delete_created_objects(self) -> None:
        """Delete the objects that were created after the start, children before their parents."""
        while created := self.list_created_paths():
            for path in created:
                allocations = self.request_json("GET", f"{path}/allocations").get("allocations", ())
                for consumer in allocations:
                    self.request_json("DELETE", f"allocations/{consumer}")
                self.request_json("DELETE", path)
            assert len(self.list_created_paths()) < len(created), f"cannot be removed: {created}"


@pytest.fixture
def started_server_url(sqlite_app) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, sqlite_app.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(timeout=60)
    server.server_close()


@pytest.fixture
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a server, from ``--url`` or started here, which is cleaned up at the end."""
    address = request.config.getoption("--url") or request.getfixturevalue("started_server_url")
    client = CleanupClient(address)
    assert not client.list_object_names("resource_providers"), f"{address} has resource providers"
    yield address
    client.delete_created_objects()


@pytest.mark.exhaustive
def test_objects_created_by_gabbi_files_are_deleted_from_the_server(started_server_url):
    address = urlsplit(started_server_url)
    client = CleanupClient(started_server_url)
    client.request_json("POST", "resource_classes", {"name": "CUSTOM_KEPT"})
    client = CleanupClient(started_server_url)
    for gabbi_file in ("aggregates", "inventories"):
        run_gabbi_file(
            GABBI_FOLDER / f"{gabbi_file}.yaml", host=address.hostname, port=address.port
        )
        assert client.list_created_paths()
        client.delete_created_objects()
    assert client.request_json("GET", "resource_classes/CUSTOM_KEPT")["name"] == "CUSTOM_KEPT"
