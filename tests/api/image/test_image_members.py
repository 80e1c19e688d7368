"""Image members: with whom an image is shared, and whether they want it."""

import pytest

from tests.api.image.conftest import BANK, SHOP

OTHER = {"X-Auth-Token": "ann:garden", "X-Roles": "member,reader"}


@pytest.fixture
def uuid(api):
    """An image of shop's, shared with bank."""
    uuid = api.make("shared", {"owner": "shop"})
    api.call("POST", f"{uuid}/members", {"member": "bank"}, **SHOP)
    return uuid


def test_member_is_shown_as_it_was_made(api, uuid):
    made = api.call("POST", f"{uuid}/members", {"member": "garden"}, **SHOP).json
    assert (made["image_id"], made["member_id"], made["status"]) == (uuid, "garden", "pending")
    assert made["created_at"] == made["updated_at"]
    assert made["schema"] == "/v2/schemas/member"
    assert api.call("GET", f"{uuid}/members/garden", **SHOP).json == made
    answer = api.call("GET", f"{uuid}/members", **SHOP).json
    assert [each["member_id"] for each in answer["members"]] == ["bank", "garden"]
    assert answer["schema"] == "/v2/schemas/members"


def test_member_sees_itself_alone(api, uuid):
    api.call("POST", f"{uuid}/members", {"member": "garden"}, **SHOP)
    members = api.call("GET", f"{uuid}/members", **BANK).json["members"]
    assert [each["member_id"] for each in members] == ["bank"]
    api.call("GET", f"{uuid}/members/bank", **BANK)
    api.call("GET", f"{uuid}/members/garden", status=404, **BANK)


def test_shared_image_may_be_seen_but_not_changed_by_a_member(api, uuid):
    assert api.show(uuid, **BANK).json["name"] == "shared"
    api.delete(uuid, status=403, **BANK)
    api.show(uuid, status=404, **OTHER)
    api.call("GET", f"{uuid}/members", status=404, **OTHER)


def test_member_alone_accepts(api, uuid):
    accepted = api.call("PUT", f"{uuid}/members/bank", {"status": "accepted"}, **BANK).json
    assert accepted["status"] == "accepted"
    assert api.names(**BANK) == ["shared"]
    api.call("PUT", f"{uuid}/members/bank", {"status": "rejected"}, 403, **SHOP)
    assert api.call("GET", f"{uuid}/members/bank", **SHOP).json["status"] == "accepted"
    api.call("PUT", f"{uuid}/members/bank", {"status": "rejected"})
    assert api.names(**BANK) == []
    api.call("PUT", f"{uuid}/members/unknown", {"status": "rejected"}, 404)


def test_member_is_taken_away(api, uuid):
    api.call("DELETE", f"{uuid}/members/bank", status=403, **BANK)
    api.call("DELETE", f"{uuid}/members/bank", status=204, **SHOP)
    answer = api.call("DELETE", f"{uuid}/members/bank", status=404, **SHOP).json["message"]
    assert "bank" in answer
    api.show(uuid, status=404, **BANK)


def test_member_is_made_once(api, uuid):
    answer = api.call("POST", f"{uuid}/members", {"member": "bank"}, 409, **SHOP).json
    assert answer["title"] == "Conflict"


def test_member_is_the_owners_to_make(api, uuid):
    api.call("POST", f"{uuid}/members", {"member": "garden"}, 403, **BANK)
    api.call("POST", f"{uuid}/members", {"member": "garden"}, 404, **OTHER)


@pytest.mark.parametrize("visibility", ["public", "community", "private"])
def test_only_shared_images_have_members(sqlite_api, visibility):
    uuid = sqlite_api.make("image", {"visibility": visibility})
    answer = sqlite_api.call("POST", f"{uuid}/members", {"member": "x"}, 403).json["message"]
    assert "'shared'" in answer
    sqlite_api.call("GET", f"{uuid}/members", status=403)
    sqlite_api.call("PUT", f"{uuid}/members/x", {"status": "accepted"}, 403)
    sqlite_api.call("DELETE", f"{uuid}/members/x", status=403)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "members", {}),
        ("POST", "members", {"member": ""}),
        ("POST", "members", {"member": "x" * 256}),
        ("POST", "members", {"member": 5}),
        ("POST", "members", []),
        ("PUT", "members/bank", {}),
        ("PUT", "members/bank", {"status": "maybe"}),
        ("PUT", "members/bank", []),
    ],
)
def test_malformed_body_is_refused(sqlite_api, method, path, body):
    uuid = sqlite_api.make()
    sqlite_api.call("POST", f"{uuid}/members", {"member": "bank"})
    assert sqlite_api.call(method, f"{uuid}/{path}", body, 400).json["title"] == "Bad Request"


def test_there_are_at_most_128_members(sqlite_api):
    uuid = sqlite_api.make()
    for number in range(128):
        sqlite_api.call("POST", f"{uuid}/members", {"member": f"p{number}"})
    answer = sqlite_api.call("POST", f"{uuid}/members", {"member": "more"}, 413).json["message"]
    assert "members" in answer
    assert len(sqlite_api.call("GET", f"{uuid}/members").json["members"]) == 128
