# SPDX-License-Identifier: Apache-2.0
"""Lists of images: filters, order, pages and visibility."""

from datetime import datetime, timedelta
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from placement_sched.app import create_app
from placement_sched.limits import MAX_IMAGE_PAGE_CHARACTERS
from placement_sched.model.image import StoredImage
from placement_sched.store.images import add as add_image
from tests.api.image.conftest import BANK_MEMBER, SHOP_MEMBER, ImageApi
from tests.conftest import AdminClient
from tests.exploring import SeededRandom
from tests.support.clouds import uuid_of
from tests.support.statements import record_statements

CLOCK_START = datetime(2026, 1, 1, 12, 0, 0)


class HourlyClock:
    """A clock that advances by an hour at each reading."""

    def __init__(self):
        self.now = CLOCK_START

    def __call__(self):
        self.now += timedelta(hours=1)
        return self.now


@pytest.fixture
def api_with_hourly_clock(settings):
    """A client of a server whose clock advances by an hour at each reading."""
    application = create_app(settings, clock=HourlyClock())
    yield ImageApi(AdminClient(application))
    application.close()


@pytest.fixture
def api_with_images(image_api):
    """Images with every kind of attribute, all created in the same second."""
    for name, attributes in {
        "a": {"os_distro": "win", "tags": ["x", "y"], "disk_format": "raw", "min_ram": 5},
        "b": {"os_distro": "Win", "tags": ["x"], "disk_format": "qcow2", "visibility": "public"},
        "c, d": {"os_distro": "win", "a.b": "1", "protected": True, "owner": "shop"},
        "hidden": {"os_distro": "win", "os_hidden": True},
    }.items():
        image_api.create_and_get_uuid(name, attributes)
    return image_api


@pytest.mark.slow
@pytest.mark.all_databases
def test_query_parameters_filter_images(api_with_images):
    for query, names in [
        ("", {"a", "b", "c, d"}),
        ("name=a", {"a"}),
        ("name=A", set()),
        ("name=in:a,b", {"a", "b"}),
        ('name=in:a,"c, d"', {"a", "c, d"}),
        ("name=c, d", {"c, d"}),
        ("owner=shop", {"c, d"}),
        ("owner=in:shop,admin", set()),
        ("status=queued", {"a", "b", "c, d"}),
        ("status=active", set()),
        ("status=in:active,queued", {"a", "b", "c, d"}),
        ("visibility=public", {"b"}),
        ("visibility=shared", {"a", "c, d"}),
        ("visibility=private", set()),
        ("visibility=all", {"a", "b", "c, d"}),
        ("tag=x", {"a", "b"}),
        ("tag=x&tag=y", {"a"}),
        ("tag=X", set()),
        ("protected=true", {"c, d"}),
        ("protected=false", {"a", "b"}),
        ("protected=True", {"c, d"}),
        ("os_hidden=true", {"hidden"}),
        ("os_hidden=True", {"hidden"}),
        ("os_hidden=false", {"a", "b", "c, d"}),
        ("disk_format=raw", {"a"}),
        ("disk_format=in:raw,qcow2", {"a", "b"}),
        ("container_format=bare", set()),
        ("os_distro=win", {"a", "c, d"}),
        ("os_distro=in:win,Win", set()),
        ("os_distro=win&a.b=1", {"c, d"}),
        ("a.b=1", {"c, d"}),
        ("nothing=1", set()),
        ("id=70a599e0-31e7-49b7-b260-868f441e862b", set()),
        ("name=a&name=b", {"b"}),
    ]:
        pairs = [tuple(pair.split("=", 1)) for pair in query.split("&") if pair]
        assert set(api_with_images.list_image_names(urlencode(pairs))) == names, query


def test_image_id_filter_ignores_case(api_with_images):
    uuids = [image["id"] for image in api_with_images.list_images().json["images"]]
    assert len(api_with_images.list_image_names(f"id=in:{uuids[0].upper()},{uuids[1]}")) == 2
    assert len(api_with_images.list_image_names(f"id={uuids[2].upper()}")) == 1


def test_invalid_image_query_is_rejected_with_the_name_of_the_parameter(sqlite_image_api):
    for query, expected in [
        ("limit=-1", "limit"),
        ("limit=1.5", "limit"),
        ("marker=x", "marker"),
        ("marker=70a599e0-31e7-49b7-b260-868f441e862b", "marker"),
        ("sort_key=color", "sort key"),
        ("sort=name:up", "sort direction"),
        ("sort=tags", "sort key"),
        ("sort=status,visibility", "sort key"),
        ("sort_dir=up", "sort direction"),
        ("sort=name&sort_key=id", "sort"),
        ("sort=name&sort_dir=asc", "sort"),
        ("sort_key=name&sort_dir=asc&sort_dir=desc", "sort_dir"),
        ("visibility=secret", "visibility"),
        ("protected=perhaps", "protected"),
        ("os_hidden=perhaps", "os_hidden"),
        ("size_min=1", "size_min"),
        ("min_ram_max=1", "min_ram_max"),
        ("created_at=gt:2026-01-01", "created_at"),
        ("name=in:", "name"),
        ('name=in:"a', "name"),
        ("name=in:a,,b", "name"),
        ("self=/v2/images/x", "self"),
        ("tags=x", "tags"),
    ]:
        response = sqlite_image_api.list_images(query, status=400).json
        assert response["code"] == "400 Bad Request", query
        assert expected in response["message"], query


def test_newest_images_are_listed_first(api_with_hourly_clock):
    for name in "abc":
        api_with_hourly_clock.create_and_get_uuid(name)
    assert api_with_hourly_clock.list_image_names() == ["c", "b", "a"]
    assert api_with_hourly_clock.list_image_names("sort_dir=asc") == ["a", "b", "c"]


def test_images_are_sorted_as_requested(api_with_hourly_clock):
    api_with_hourly_clock.create_and_get_uuid(None, {"disk_format": "iso"})
    api_with_hourly_clock.create_and_get_uuid("a", {"disk_format": "raw"})
    api_with_hourly_clock.create_and_get_uuid("c")
    api_with_hourly_clock.create_and_get_uuid("b", {"disk_format": "raw"})
    for query, names in [
        ("sort=name:asc", [None, "a", "b", "c"]),
        ("sort=name", ["c", "b", "a", None]),
        ("sort_key=name", ["c", "b", "a", None]),
        ("sort_key=name&sort_dir=asc", [None, "a", "b", "c"]),
        ("sort=disk_format:asc,name:desc", ["c", None, "b", "a"]),
        ("sort_key=disk_format&sort_dir=desc&sort_key=name&sort_dir=asc", ["a", "b", None, "c"]),
        ("sort=created_at:asc", [None, "a", "c", "b"]),
        ("sort=size,name:asc", [None, "a", "b", "c"]),
    ]:
        assert api_with_hourly_clock.list_image_names(query) == names, query


@pytest.mark.all_databases
@pytest.mark.property
def test_next_links_of_images_lead_through_every_image_once(image_api):
    rng = SeededRandom.numbered(7)
    for number in range(23):
        attributes = {"tags": ["t"]} if number % 5 else {"tags": ["t"], "disk_format": "raw"}
        if rng.random() < 0.3:
            attributes["disk_format"] = "qcow2"
        image_api.create_and_get_uuid(rng.choice([None, "same", f"n{number}"]), attributes)
    whole = image_api.list_images("tag=t&sort=disk_format:asc,name:desc").json["images"]
    assert len(whole) == 23
    page = image_api.list_images("tag=t&sort=disk_format:asc,name:desc&limit=4").json
    assert parse_qs(urlsplit(page["first"]).query) == {
        "tag": ["t"],
        "sort": ["disk_format:asc,name:desc"],
        "limit": ["4"],
    }
    assert page["schema"] == "/v2/schemas/images"
    listed = page["images"]
    while "next" in page:
        assert len(page["images"]) == 4
        assert page["next"].startswith("/v2/images?")
        page = image_api.app.get(f"/image{page['next']}").json
        assert page["first"].startswith("/v2/images?")
        assert "marker" not in page["first"]
        listed += page["images"]
    assert listed == whole


def test_last_page_of_images_has_no_next_link(image_api):
    for name in "ab":
        image_api.create_and_get_uuid(name)
    page = image_api.list_images("limit=2").json
    assert len(page["images"]) == 2
    assert "next" not in page
    page = image_api.list_images().json
    assert (page["first"], "next" in page) == ("/v2/images", False)
    assert image_api.list_images("limit=0").json["images"] == []


def test_default_page_size_of_images_is_25(sqlite_image_api):
    for _ in range(26):
        sqlite_image_api.create_and_get_uuid()
    page = sqlite_image_api.list_images().json
    assert len(page["images"]) == 25
    assert "next" in page
    assert len(sqlite_image_api.list_images("limit=100000").json["images"]) == 26


@pytest.fixture
def api_with_two_projects(image_api):
    """Images of two projects, of every visibility."""
    for owner in ("shop", "bank"):
        for visibility in ("public", "community", "shared", "private"):
            image_api.create_and_get_uuid(
                f"{owner} {visibility}", {"owner": owner, "visibility": visibility}
            )
    return image_api


SHOP_IMAGE_NAMES = {
    f"shop {visibility}" for visibility in ("public", "community", "shared", "private")
}


@pytest.mark.slow
def test_image_list_shows_images_visible_to_the_project_or_administrator(api_with_two_projects):
    for query, names in [
        ("", SHOP_IMAGE_NAMES | {"bank public"}),
        ("visibility=public", {"shop public", "bank public"}),
        ("visibility=private", {"shop private"}),
        ("visibility=community", {"shop community", "bank community"}),
        ("visibility=shared", {"shop shared"}),
        ("visibility=shared&member_status=all", {"shop shared"}),
        ("visibility=all", SHOP_IMAGE_NAMES | {"bank public", "bank community"}),
        ("owner=bank", {"bank public"}),
        ("owner=bank&visibility=private", set()),
    ]:
        assert set(api_with_two_projects.list_image_names(query, **SHOP_MEMBER)) == names, query
    assert len(api_with_two_projects.list_image_names()) == 8
    assert set(api_with_two_projects.list_image_names("visibility=private")) == {
        "shop private",
        "bank private",
    }
    assert len(api_with_two_projects.list_image_names("visibility=shared")) == 2


@pytest.mark.all_databases
def test_image_given_as_marker_must_be_visible_to_the_project(api_with_two_projects):
    uuids = {
        image["name"]: image["id"] for image in api_with_two_projects.list_images().json["images"]
    }
    api_with_two_projects.list_images(f"marker={uuids['bank private']}", status=400, **SHOP_MEMBER)
    api_with_two_projects.list_images(f"marker={uuids['bank community']}", **SHOP_MEMBER)
    api_with_two_projects.list_images(f"marker={uuids['shop private']}", status=400, **BANK_MEMBER)


def test_sql_statement_count_does_not_grow_with_images(image_api):
    for number in (2, 8):
        for other in range(number):
            image_api.create_and_get_uuid(f"{number}-{other}", {"a": "b", "c": "d", "tags": ["t"]})
        marker = image_api.list_images("sort=name:asc&limit=1").json["images"][0]["id"]
        with record_statements(image_api.app.app.services.database) as seen:
            image_api.list_images(f"sort=name:asc&limit=1000&a=b&tag=t&marker={marker}")
        assert len(seen) == 4  # the marker, images, properties, tags


@pytest.fixture
def api_with_large_images(image_api):
    """Sixty images, five of every six with the maximum size of properties."""

    def add_large_images(connection):
        for number in range(60):
            long = {f"p{part}": "x" * 65_000 for part in range(2)} if number % 6 else {}
            image = StoredImage(
                uuid=uuid_of(f"image-{number}"),
                name=f"n{number:02}",
                properties=long,
                tags=frozenset({"t"}),
                created_at=CLOCK_START,
                updated_at=CLOCK_START,
            )
            add_image(connection, image)

    image_api.app.app.services.database.write(add_large_images)
    return image_api


@pytest.mark.all_databases
def test_page_of_large_images_ends_at_the_character_limit(api_with_large_images):
    pages, address = [], "/v2/images?limit=1000&sort=name:asc&tag=t"
    api_with_large_images.list_images("limit=1")
    with record_statements(api_with_large_images.app.app.services.database) as seen:
        api_with_large_images.app.get(f"/image{address}")
    assert len(seen) == 3  # images, properties, tags
    while address:
        response = api_with_large_images.app.get(f"/image{address}")
        pages.append([image["name"] for image in response.json["images"]])
        assert len(response.body) < 1.1 * MAX_IMAGE_PAGE_CHARACTERS
        address = response.json.get("next")
    assert [len(page) for page in pages] == [38, 22]
    assert [name for page in pages for name in page] == [f"n{number:02}" for number in range(60)]


def test_page_has_one_image_even_if_it_exceeds_the_character_limit(
    api_with_large_images, monkeypatch
):
    monkeypatch.setattr("placement_sched.store.images.MAX_IMAGE_PAGE_CHARACTERS", 1)
    page = api_with_large_images.list_images("limit=1000&sort=name:desc").json
    assert [image["name"] for image in page["images"]] == ["n59"]
    page = api_with_large_images.app.get(f"/image{page['next']}").json
    assert [image["name"] for image in page["images"]] == ["n58"]


def test_limit_parameter_applies_to_pages_of_large_images(api_with_large_images):
    for limit in (5, 30):
        page = api_with_large_images.list_images(f"limit={limit}&sort=name:asc").json
        assert len(page["images"]) == limit
        assert page["next"].endswith(uuid_of(f"image-{limit - 1}"))
