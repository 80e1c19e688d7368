# SPDX-License-Identifier: Apache-2.0
"""Races between creation, deletion and use of resource classes and of traits."""

from functools import partial

import pytest

from tests.support.concurrency import run_concurrently
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.all_databases

RACE_ROUNDS = 6
PROVIDER_UUID = "7c2e5f0a-91d4-4b7e-8a36-0f1c2d3e4b5a"


@pytest.fixture
def send_request(app):
    def send_placement_request(method, path, body=None):
        call = getattr(app, f"{method.lower()}{'' if body is None else '_json'}")
        bodies = () if body is None else (body,)
        return call(f"/placement{path}", *bodies, headers=LATEST_HEADERS, status="*")

    send_placement_request("GET", "/traits")  # prepares the database
    return send_placement_request


@pytest.fixture
def send_request_and_get_status(send_request):
    """Return a function that sends a request and returns the status."""
    return lambda *request: send_request(*request).status_int


@pytest.mark.parametrize("path", ["/resource_classes/CUSTOM_RACED", "/traits/CUSTOM_RACED"])
def test_concurrent_creations_of_a_resource_class_create_it_once(send_request_and_get_status, path):
    for _ in range(RACE_ROUNDS):
        results = run_concurrently(*[partial(send_request_and_get_status, "PUT", path)] * 4)
        assert sorted(results) == [201, 204, 204, 204]
        assert sorted(
            run_concurrently(*[partial(send_request_and_get_status, "DELETE", path)] * 2)
        ) == [204, 404]


def test_concurrently_created_resource_classes_all_exist(send_request_and_get_status):
    paths = [f"/resource_classes/CUSTOM_{letter}" for letter in "ABCD"]
    assert (
        run_concurrently(*(partial(send_request_and_get_status, "PUT", path) for path in paths))
        == [201] * 4
    )


@pytest.mark.parametrize(
    ("plural", "noun", "deleted"),
    [("resource_classes", "inventories", {400}), ("traits", "traits", {400, 409})],
)
def test_concurrent_deletion_and_use_of_a_resource_class_never_both_succeed(
    send_request, send_request_and_get_status, plural, noun, deleted
):
    """Either the use is rejected (``deleted``), or the deletion."""
    send_request_and_get_status("POST", "/resource_providers", {"name": "p", "uuid": PROVIDER_UUID})
    target = f"/resource_providers/{PROVIDER_UUID}/{noun}"
    for number in range(RACE_ROUNDS):
        name = f"CUSTOM_RACED_{number}"
        send_request_and_get_status("PUT", f"/{plural}/{name}")
        generation = send_request("GET", target).json["resource_provider_generation"]
        body = {
            "resource_provider_generation": generation,
            noun: [name] if noun == "traits" else {name: {"total": 7}},
        }
        results = run_concurrently(
            partial(send_request_and_get_status, "DELETE", f"/{plural}/{name}"),
            partial(send_request_and_get_status, "PUT", target, body),
        )
        items = send_request("GET", target).json[noun]
        allowed = {(204, status, False) for status in deleted} | {(409, 200, True)}
        assert (*results, name in items) in allowed
        assert send_request_and_get_status("DELETE", target) == 204
