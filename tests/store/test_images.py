# SPDX-License-Identifier: Apache-2.0
"""What the store tells of images."""

from dataclasses import replace

import pytest
from sqlalchemy import func, select

from placement_sched.db.tables import image_properties, image_tags
from placement_sched.errors import Duplicate
from placement_sched.model.image import StoredImage
from placement_sched.store import images as store
from tests.support.clouds import uuid_of
from tests.support.hosts import NOW

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


def image(name, **attributes):
    return StoredImage(uuid=uuid_of(name), name=name, created_at=NOW, updated_at=NOW, **attributes)


def ask(database, question, *arguments):
    with database.read() as connection:
        return question(connection, *arguments)


def add(database, *images):
    for each in images:
        database.write(lambda connection, each=each: store.add(connection, each))


def test_image_is_read_as_it_was_written(database):
    add(database, FULL)
    found = ask(database, store.by_uuid, FULL.uuid)
    assert found is not None
    assert replace(found, id=None) == FULL
    assert found.id
    assert ask(database, store.by_uuid, uuid_of("other")) is None


def test_uuid_is_taken_once(database):
    add(database, FULL)
    with pytest.raises(Duplicate, match=FULL.uuid):
        add(database, image("full"))
    assert ask(database, store.by_uuid, FULL.uuid).name == "Full"


def test_uuid_goes_before_name_and_names_heed_case(database):
    add(database, FULL, image("full2"), image("twin", owner="a"))
    twin = replace(image("other"), name="twin")
    named = replace(image("named"), name=FULL.uuid)
    add(database, twin, named)

    def called(name):
        return [each.uuid for each in ask(database, store.by_name_or_uuid, name)]

    assert called(FULL.uuid) == called(FULL.uuid.upper()) == [FULL.uuid]
    assert called("Full") == [FULL.uuid]
    assert called("full") == []
    assert called("twin") == sorted([uuid_of("twin"), uuid_of("other")])


def test_change_writes_what_differs(database):
    add(database, FULL, image("untouched", tags=frozenset({"t"}), properties={"a": "b"}))
    new = replace(
        FULL,
        name=None,
        protected=False,
        tags=frozenset({"tag", "new"}),
        properties={"name.x": "now", "trait:X": "required", "more": "x"},
    )

    def work(connection):
        old = store.by_uuid(connection, FULL.uuid, lock=True)
        store.change(connection, old, new)

    database.write(work)
    assert replace(ask(database, store.by_uuid, FULL.uuid), id=None) == new
    other = ask(database, store.by_uuid, uuid_of("untouched"))
    assert (other.tags, other.properties) == ({"t"}, {"a": "b"})


def test_removal_leaves_nothing_of_it(database):
    add(database, FULL)

    def work(connection):
        found = store.by_uuid(connection, FULL.uuid, lock=True)
        store.remove(connection, found)

    database.write(work)
    with database.read() as connection:
        for table in (image_properties, image_tags):
            assert connection.scalar(select(func.count()).select_from(table)) == 0
    assert ask(database, store.by_uuid, FULL.uuid) is None


def test_image_that_was_not_read_cannot_be_changed(sqlite_database):
    with pytest.raises(ValueError, match="not read"):
        sqlite_database.write(lambda connection: store.remove(connection, FULL))
