# SPDX-License-Identifier: Apache-2.0
"""Documented behaviour of OpenStack's placement that needs several requests to observe."""

import itertools

import pytest

from tests.differential.exchange import Request
from tests.differential.state import clear_state
from tests.support.versions import PEER_LATEST

pytestmark = pytest.mark.system

PROVIDERS = "/resource_providers"
CONSUMER = "c0ffee00-0000-4000-8000-000000000001"
NUMBERS = itertools.count(1)


@pytest.fixture
def empty_sides(sides):
    def clear_all():
        for side in sides:
            clear_state(side)
        sides[1].remove_leftovers()

    clear_all()
    yield sides
    clear_all()


def create_provider(sides, parent=None):
    number = next(NUMBERS)
    uuid = f"5cbe600a-0000-4000-8000-{number:012}"
    body = {"name": f"host{number}", "uuid": uuid}
    if parent is not None:
        body["parent_provider_uuid"] = parent
    for side in sides:
        assert side.get_answer(Request("POST", PROVIDERS, PEER_LATEST, body)).status == 200
    return uuid


def put_and_read_last_modified(sides, uuid, **body):
    answers = []
    for turn in ("first", "second"):
        request = Request(
            "PUT", f"{PROVIDERS}/{uuid}", PEER_LATEST, {"name": f"{turn} {uuid}", **body}
        )
        replies = [side.get_answer(request) for side in sides]
        assert [reply.status for reply in replies] == [200, 200]
        assert [reply.headers["cache-control"] for reply in replies] == ["no-cache"] * 2
        answers.append(tuple("last-modified" in reply.headers for reply in replies))
    return answers


@pytest.mark.parametrize(
    ("kind", "is_first_sent"),
    [
        ("root", True),
        ("child", False),
        ("child with parent in body", False),
        ("changed child", True),
    ],
)
def test_peer_omits_last_modified_only_from_the_first_put_of_an_unchanged_child(
    empty_sides, kind, is_first_sent
):
    root = create_provider(empty_sides)
    uuid = root if kind == "root" else create_provider(empty_sides, root)
    if kind == "changed child":
        traits = {"resource_provider_generation": 0, "traits": ["HW_CPU_X86_AVX"]}
        request = Request("PUT", f"{PROVIDERS}/{uuid}/traits", PEER_LATEST, traits)
        assert [side.get_answer(request).status for side in empty_sides] == [200, 200]
    body = {"parent_provider_uuid": root} if kind == "child with parent in body" else {}
    sent = put_and_read_last_modified(empty_sides, uuid, **body)
    assert sent == [(True, is_first_sent), (True, True)]


NOTHING = {
    "allocations": {},
    "project_id": "p",
    "user_id": "u",
    "consumer_generation": None,
    "consumer_type": "STRANGE",
}
CLAIMS = {
    "PUT": Request("PUT", f"/allocations/{CONSUMER}", PEER_LATEST, NOTHING),
    "POST": Request("POST", "/allocations", PEER_LATEST, {CONSUMER: NOTHING}),
}


@pytest.mark.parametrize("method", CLAIMS)
def test_peer_keeps_the_consumer_of_an_empty_claim(empty_sides, method):
    ours, theirs = empty_sides
    assert [side.get_answer(CLAIMS[method]).status for side in empty_sides] == [204, 204]
    assert ours.get_answer(CLAIMS[method]).status == 204
    again = theirs.get_answer(CLAIMS[method])
    assert again.status == 409
    assert "consumer generation conflict - expected 0 but got None" in again.detail
    assert ours.remove_leftovers() == 0
    assert theirs.remove_leftovers() == 1
