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

FULL = StoredImage(
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
    add_images(database, FULL)
    found = run_query(database, store.by_uuid, FULL.uuid)
    assert found is not None
    assert replace(found, id=None) == FULL
    assert found.id
    assert run_query(database, store.by_uuid, uuid_of("other")) is None
    with pytest.raises(Duplicate, match=FULL.uuid):
        add_images(database, build_image("full"))
    assert run_query(database, store.by_uuid, FULL.uuid) == found


def test_uuid_takes_precedence_and_names_are_case_sensitive(database):
    add_images(database, FULL, build_image("full2"), build_image("twin", owner="a"))
    twin = replace(build_image("other"), name="twin")
    named = replace(build_image("named"), name=FULL.uuid)
    add_images(database, twin, named)

    def find_uuids(name):
        return [each.uuid for each in run_query(database, store.by_name_or_uuid, name)]

    assert find_uuids(FULL.uuid) == find_uuids(FULL.uuid.upper()) == [FULL.uuid]
    assert find_uuids("Full") == [FULL.uuid]
    assert find_uuids("full") == []
    assert find_uuids("twin") == sorted([uuid_of("twin"), uuid_of("other")])


def test_update_of_an_image_writes_only_differences(database):
    add_images(
        database, FULL, build_image("untouched", tags=frozenset({"t"}), properties={"a": "b"})
    )
    new = replace(
        FULL,
        name=None,
        protected=False,
        tags=frozenset({"tag", "new"}),
        properties={"name.x": "now", "trait:X": "required", "more": "x"},
    )

    def write_rows(connection):
        old = store.by_uuid(connection, FULL.uuid, lock=True)
        store.change(connection, old, new)

    database.write(write_rows)
    assert replace(run_query(database, store.by_uuid, FULL.uuid), id=None) == new
    other = run_query(database, store.by_uuid, uuid_of("untouched"))
    assert (other.tags, other.properties) == ({"t"}, {"a": "b"})


def test_removed_image_leaves_no_rows(database):
    add_images(database, FULL)

    def write_rows(connection):
        with pytest.raises(ValueError, match="not read"):
            store.remove(connection, FULL)
        found = store.by_uuid(connection, FULL.uuid, lock=True)
        store.remove(connection, found)

    database.write(write_rows)
    with database.read() as connection:
        for table in (image_properties, image_tags):
            assert connection.scalar(select(func.count()).select_from(table)) == 0
    assert run_query(database, store.by_uuid, FULL.uuid) is None


EVERYBODY = Viewer(project_id="admin", is_admin=True)


@pytest.fixture
def cloud(database):
    """Thirty images with many equal values."""
    rng = SeededRandom.numbered(11)

    def write_rows(connection):
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

    database.write(write_rows)
    return database


@pytest.mark.property
@pytest.mark.parametrize("seed", range(4))
def test_every_image_is_on_exactly_one_page(cloud, seed):
    rng = SeededRandom.numbered(seed)
    keys = rng.sample(SORT_KEYS, rng.randint(1, 3))
    order = {key: rng.random() < 0.5 for key in keys}
    order.setdefault("id", rng.random() < 0.5)
    filters = {"viewer": EVERYBODY, "order": tuple(order.items())}
    with cloud.read() as connection:
        whole, _ = search(connection, ImageSearch(**filters))
        found, marker, more = [], None, True
        while more:
            page, more = search(connection, ImageSearch(**filters, limit=7, marker=marker))
            found += page
            marker = page[-1].uuid
    assert found == list(whole)
    assert len({each.uuid for each in whole}) == 30


def test_order_of_images_equals_python_sort_order(cloud):
    """Databases differ in the order of texts, so the keys are a number and a time."""
    question = ImageSearch(viewer=EVERYBODY, order=(("size", True), ("created_at", False)))
    with cloud.read() as connection:
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
        query = ImageSearch(viewer=EVERYBODY, **{field: make(names[:number])})
        with record_statements(database) as seen, database.read() as connection:
            assert [image.name for image in search(connection, query)[0]] == ["full"]
        words = seen[0].upper().split()
        lengths.append([words.count(word) for word in ("EXISTS", "(SELECT", "AND", "OR")])
    assert lengths[0] == lengths[1]


def test_property_filters_compare_their_own_values(database):
    add_images(database, build_image("one", properties={"a": "1", "b": "2"}))
    for values, number in (("12", 1), ("21", 0), ("11", 0)):
        query = ImageSearch(viewer=EVERYBODY, properties=dict(zip("ab", values, strict=True)))
        with database.read() as connection:
            assert len(search(connection, query)[0]) == number
