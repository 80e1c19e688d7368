# SPDX-License-Identifier: Apache-2.0
"""The store of images, and pages of images."""

from dataclasses import replace

import pytest
from sqlalchemy import func, select

from placement_sched.db.tables import image_properties, image_tags
from placement_sched.errors import Duplicate
from placement_sched.model.image import StoredImage, Viewer
from placement_sched.store import images as store
from placement_sched.store.images import SORT_KEYS, ImageSearch, search
from tests.exploring import SeededRandom
from tests.support.clouds import uuid_of
from tests.support.hosts import NOW
from tests.support.statements import record_statements, run_query

pytestmark = pytest.mark.all_databases

IMAGE_WITH_ALL_FIELDS = StoredImage(
    uuid=uuid_of("full"),
    name="Full",
    status="active",
    visibility="private",
    owner="shop",
    size=5_000_000_000,
    virtual_size=2**40,
    disk_format="raw",
    container_format="bare",
    min_ram=1,
    min_disk=2,
    protected=True,
    os_hidden=True,
    created_at=NOW,
    updated_at=NOW,
    tags=frozenset({"Tag", "tag"}),
    properties={"Name.x": "A" * 100_000, "name.x": "", "trait:X": "required"},
)


def build_image(name, **attributes):
    return StoredImage(uuid=uuid_of(name), name=name, created_at=NOW, updated_at=NOW, **attributes)


def add_images(database, *images):
    for each in images:
        database.write(lambda connection, each=each: store.add(connection, each))


def test_image_is_read_as_it_was_written(database):
    add_images(database, IMAGE_WITH_ALL_FIELDS)
    found = run_query(database, store.find_by_uuid, IMAGE_WITH_ALL_FIELDS.uuid)
    assert found is not None
    assert replace(found, id=None) == IMAGE_WITH_ALL_FIELDS
    assert found.id
    assert run_query(database, store.find_by_uuid, uuid_of("other")) is None
    with pytest.raises(Duplicate, match=IMAGE_WITH_ALL_FIELDS.uuid):
        add_images(database, build_image("full"))
    assert run_query(database, store.find_by_uuid, IMAGE_WITH_ALL_FIELDS.uuid) == found


def test_image_uuid_takes_precedence_and_image_names_are_case_sensitive(database):
    add_images(
        database, IMAGE_WITH_ALL_FIELDS, build_image("full2"), build_image("twin", owner="a")
    )
    twin = replace(build_image("other"), name="twin")
    named = replace(build_image("named"), name=IMAGE_WITH_ALL_FIELDS.uuid)
    add_images(database, twin, named)

    def find_image_uuids(name):
        return [each.uuid for each in run_query(database, store.list_by_name_or_uuid, name)]

    assert (
        find_image_uuids(IMAGE_WITH_ALL_FIELDS.uuid)
        == find_image_uuids(IMAGE_WITH_ALL_FIELDS.uuid.upper())
        == [IMAGE_WITH_ALL_FIELDS.uuid]
    )
    assert find_image_uuids("Full") == [IMAGE_WITH_ALL_FIELDS.uuid]
    assert find_image_uuids("full") == []
    assert find_image_uuids("twin") == sorted([uuid_of("twin"), uuid_of("other")])


def test_update_of_an_image_writes_only_differences(database):
    add_images(
        database,
        IMAGE_WITH_ALL_FIELDS,
        build_image("untouched", tags=frozenset({"t"}), properties={"a": "b"}),
    )
    new = replace(
        IMAGE_WITH_ALL_FIELDS,
        name=None,
        protected=False,
        tags=frozenset({"tag", "new"}),
        properties={"name.x": "now", "trait:X": "required", "more": "x"},
    )

    def update_image(connection):
        old = store.find_by_uuid(connection, IMAGE_WITH_ALL_FIELDS.uuid, lock=True)
        store.change(connection, old, new)

    database.write(update_image)
    assert (
        replace(run_query(database, store.find_by_uuid, IMAGE_WITH_ALL_FIELDS.uuid), id=None) == new
    )
    other = run_query(database, store.find_by_uuid, uuid_of("untouched"))
    assert (other.tags, other.properties) == ({"t"}, {"a": "b"})


def test_removed_image_leaves_no_rows(database):
    add_images(database, IMAGE_WITH_ALL_FIELDS)

    def remove_image(connection):
        with pytest.raises(ValueError, match="not read"):
            store.remove(connection, IMAGE_WITH_ALL_FIELDS)
        image = store.find_by_uuid(connection, IMAGE_WITH_ALL_FIELDS.uuid, lock=True)
        store.remove(connection, image)

    database.write(remove_image)
    with database.read() as connection:
        for table in (image_properties, image_tags):
            assert connection.scalar(select(func.count()).select_from(table)) == 0
    assert run_query(database, store.find_by_uuid, IMAGE_WITH_ALL_FIELDS.uuid) is None


ADMIN_VIEWER = Viewer(project_id="admin", is_admin=True)


@pytest.fixture
def database_with_thirty_images(database):
    """Thirty images with many equal values."""
    rng = SeededRandom.numbered(11)

    def add_thirty_images(connection):
        for number in range(30):
            store.add(
                connection,
                StoredImage(
                    uuid=uuid_of(f"image-{number}"),
                    name=rng.choice([None, "", "a", "A", "b", "ä"]),
                    size=rng.choice([None, 0, 5_000_000_000]),
                    disk_format=rng.choice([None, "raw", "qcow2"]),
                    container_format=rng.choice([None, "bare"]),
                    created_at=NOW.replace(minute=rng.randrange(3)),
                    updated_at=NOW.replace(minute=rng.randrange(3)),
                ),
            )

    database.write(add_thirty_images)
    return database


@pytest.mark.property
@pytest.mark.parametrize("seed", range(4))
def test_every_image_is_on_exactly_one_page(database_with_thirty_images, seed):
    rng = SeededRandom.numbered(seed)
    keys = rng.sample(SORT_KEYS, rng.randint(1, 3))
    order = {key: rng.random() < 0.5 for key in keys}
    order.setdefault("id", rng.random() < 0.5)
    filters = {"viewer": ADMIN_VIEWER, "order": tuple(order.items())}
    with database_with_thirty_images.read() as connection:
        whole, _ = search(connection, ImageSearch(**filters))
        images, marker, more = [], None, True
        while more:
            page, more = search(connection, ImageSearch(**filters, limit=7, marker=marker))
            images += page
            marker = page[-1].uuid
    assert images == list(whole)
    assert len({each.uuid for each in whole}) == 30


def test_images_are_sorted_by_size_and_creation_time(database_with_thirty_images):
    """Databases differ in the order of texts, so the keys are a number and a time."""
    question = ImageSearch(viewer=ADMIN_VIEWER, order=(("size", True), ("created_at", False)))
    with database_with_thirty_images.read() as connection:
        found, _ = search(connection, question)
    keys = [(-(-1 if each.size is None else each.size), each.created_at) for each in found]
    assert keys == sorted(keys)


@pytest.mark.parametrize("field", ["tags", "properties"])
def test_images_match_any_number_of_tags_and_properties(database, field):
    names = [f"x{number}" for number in range(200)]
    make = frozenset if field == "tags" else lambda names: dict.fromkeys(names, "yes")
    images_with_names = {"full": names, "nearly": names[1:], "none": []}
    add_images(
        database,
        *(build_image(name, **{field: make(values)}) for name, values in images_with_names.items()),
    )
    lengths = []
    for number in (2, 200):
        query = ImageSearch(viewer=ADMIN_VIEWER, **{field: make(names[:number])})
        with record_statements(database) as seen, database.read() as connection:
            assert [image.name for image in search(connection, query)[0]] == ["full"]
        words = seen[0].upper().split()
        lengths.append([words.count(word) for word in ("EXISTS", "(SELECT", "AND", "OR")])
    assert lengths[0] == lengths[1]


def test_image_property_filter_compares_the_value_of_its_property(database):
    add_images(database, build_image("one", properties={"a": "1", "b": "2"}))
    for values, number in (("12", 1), ("21", 0), ("11", 0)):
        query = ImageSearch(viewer=ADMIN_VIEWER, properties=dict(zip("ab", values, strict=True)))
        with database.read() as connection:
            assert len(search(connection, query)[0]) == number
