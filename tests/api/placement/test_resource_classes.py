# SPDX-License-Identifier: Apache-2.0
"""Classes and traits are made, deleted and used at one moment: one of two wins, none fails."""

from functools import partial

import pytest

from tests.support.concurrency import run_concurrently
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.all_databases

ROUNDS = 6
P = "7c2e5f0a-91d4-4b7e-8a36-0f1c2d3e4b5a"


@pytest.fixture
def ask(app):
    def asked(method, path, body=None):
        call = getattr(app, f"{method.lower()}{'' if body is None else '_json'}")
        given = () if body is None else (body,)
        return call(f"/placement{path}", *given, headers=LATEST_HEADERS, status="*")

    asked("GET", "/traits")  # makes the database ready
    return asked


@pytest.fixture
def status(ask):
    return lambda *request: ask(*request).status_int


@pytest.fixture
def having(ask):
    """Return a function that tells what the provider has of a noun, and its generation."""
    ask("POST", "/resource_providers", {"name": "p", "uuid": P})

    def told(noun):
        document = ask("GET", f"/resource_providers/{P}/{noun}").json
        return document[noun], document["resource_provider_generation"]

    return told


@pytest.mark.parametrize("path", ["/resource_classes/CUSTOM_RACED", "/traits/CUSTOM_RACED"])
def test_what_several_make_at_once_is_made_once_and_there_for_the_others(status, path):
    for _ in range(ROUNDS):
        told = run_concurrently(*[partial(status, "PUT", path)] * 4)
        assert sorted(told) == [201, 204, 204, 204]
        assert sorted(run_concurrently(*[partial(status, "DELETE", path)] * 2)) == [204, 404]


def test_different_classes_made_at_once_are_all_made(status):
    paths = [f"/resource_classes/CUSTOM_{letter}" for letter in "ABCD"]
    assert run_concurrently(*(partial(status, "PUT", path) for path in paths)) == [201] * 4


def test_class_is_deleted_or_had_but_never_both(ask, status, having):
    for number in range(ROUNDS):
        path = f"/resource_classes/CUSTOM_RACED_{number}"
        name = path.rpartition("/")[2]
        status("PUT", path)
        _, generation = having("inventories")
        body = {"resource_provider_generation": generation, "inventories": {name: {"total": 7}}}
        told = run_concurrently(
            partial(status, "DELETE", path),
            partial(status, "PUT", f"/resource_providers/{P}/inventories", body),
        )
        found, generation = having("inventories")
        assert (*told, name in found) in {(204, 400, False), (409, 200, True)}
        body = {"resource_provider_generation": generation, "inventories": {}}
        assert status("PUT", f"/resource_providers/{P}/inventories", body) == 200
