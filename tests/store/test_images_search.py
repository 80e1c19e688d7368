# SPDX-License-Identifier: Apache-2.0
"""Pages of images: with every order, no image is missing or on two pages."""

import pytest

from placement_sched.model.image import StoredImage, Viewer
from placement_sched.store import images
from placement_sched.store.images import SORT_KEYS, ImageSearch, search
from tests.exploring import Dice
from tests.support.clouds import uuid_of
from tests.support.hosts import NOW
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases

EVERYBODY = Viewer(project_id="admin", is_admin=True)


@pytest.fixture
def cloud(database):
    """Thirty images with many equal values."""
    rng = Dice.numbered(11)

    def write_rows(connection):
        for number in range(30):
            images.add(
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
@pytest.mark.parametrize("seed", range(8))
def test_every_image_is_on_exactly_one_page(cloud, seed):
    rng = Dice.numbered(seed)
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


def test_order_equals_python_sort_order(cloud):
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
    images_with_names = [("full", names), ("nearly", names[1:]), ("none", [])]

    def write_rows(connection):
        for name, values in images_with_names:
            fields = {"name": name, field: make(values), "created_at": NOW, "updated_at": NOW}
            images.add(connection, StoredImage(uuid=uuid_of(name), **fields))

    database.write(write_rows)
    lengths = []
    for number in (2, 200):
        query = ImageSearch(viewer=EVERYBODY, **{field: make(names[:number])})
        with record_statements(database) as seen, database.read() as connection:
            assert [image.name for image in search(connection, query)[0]] == ["full"]
        words = seen[0].upper().split()
        lengths.append([words.count(word) for word in ("EXISTS", "(SELECT", "AND", "OR")])
    assert lengths[0] == lengths[1]


def test_property_filters_compare_their_own_values(database):
    image = StoredImage(
        uuid=uuid_of("one"), properties={"a": "1", "b": "2"}, created_at=NOW, updated_at=NOW
    )
    database.write(lambda connection: images.add(connection, image))
    with database.read() as connection:
        for properties, number in (
            ({"a": "1", "b": "2"}, 1),
            ({"a": "2", "b": "1"}, 0),
            ({"a": "1", "b": "1"}, 0),
        ):
            query = ImageSearch(viewer=EVERYBODY, properties=properties)
            assert len(search(connection, query)[0]) == number
