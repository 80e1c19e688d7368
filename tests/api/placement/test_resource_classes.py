# SPDX-License-Identifier: Apache-2.0
"""Races between creation, deletion and use of resource classes."""

from functools import partial

import pytest

from tests.support.concurrency import run_concurrently
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.all_databases

ROUNDS = 6
P = "7c2e5f0a-91d4-4b7e-8a36-0f1c2d3e4b5a"


@pytest.fixture
def send_request(app):
    def call_placement(method, path, body=None):
        call = getattr(app, f"{method.lower()}{'' if body is None else '_json'}")
        bodies = () if body is None else (body,)
        return call(f"/placement{path}", *bodies, headers=LATEST_HEADERS, status="*")

    call_placement("GET", "/traits")  # prepares the database
    return call_placement


@pytest.fixture
def send_request_for_status(send_request):
    return lambda *request: send_request(*request).status_int


@pytest.fixture
def read_subresource(send_request):
    """Return a function that returns a subresource of the provider, and its generation."""
    send_request("POST", "/resource_providers", {"name": "p", "uuid": P})

    def read_document(noun):
        document = send_request("GET", f"/resource_providers/{P}/{noun}").json
        return document[noun], document["resource_provider_generation"]

    return read_document


@pytest.mark.parametrize("path", ["/resource_classes/CUSTOM_RACED", "/traits/CUSTOM_RACED"])
def test_concurrent_creations_of_a_class_create_it_once(send_request_for_status, path):
    for _ in range(ROUNDS):
        results = run_concurrently(*[partial(send_request_for_status, "PUT", path)] * 4)
        assert sorted(results) == [201, 204, 204, 204]
        assert sorted(
            run_concurrently(*[partial(send_request_for_status, "DELETE", path)] * 2)
        ) == [204, 404]


def test_concurrently_created_classes_all_exist(send_request_for_status):
    paths = [f"/resource_classes/CUSTOM_{letter}" for letter in "ABCD"]
    assert (
        run_concurrently(*(partial(send_request_for_status, "PUT", path) for path in paths))
        == [201] * 4
    )


def test_concurrent_deletion_and_use_of_a_class_never_both_succeed(
    send_request, send_request_for_status, read_subresource
):
    for number in range(ROUNDS):
        path = f"/resource_classes/CUSTOM_RACED_{number}"
        name = path.rpartition("/")[2]
        send_request_for_status("PUT", path)
        _, generation = read_subresource("inventories")
        body = {"resource_provider_generation": generation, "inventories": {name: {"total": 7}}}
        results = run_concurrently(
            partial(send_request_for_status, "DELETE", path),
            partial(send_request_for_status, "PUT", f"/resource_providers/{P}/inventories", body),
        )
        inventories, generation = read_subresource("inventories")
        assert (*results, name in inventories) in {(204, 400, False), (409, 200, True)}
        body = {"resource_provider_generation": generation, "inventories": {}}
        assert send_request_for_status("PUT", f"/resource_providers/{P}/inventories", body) == 200
