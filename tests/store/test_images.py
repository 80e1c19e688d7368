# SPDX-License-Identifier: Apache-2.0
"""The store of images."""

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


def build_image(name, **attributes):
    return StoredImage(uuid=uuid_of(name), name=name, created_at=NOW, updated_at=NOW, **attributes)


def run_query(database, question, *arguments):
    with database.read() as connection:
        return question(connection, *arguments)


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


def test_image_uuid_is_unique(database):
    add_images(database, FULL)
    with pytest.raises(Duplicate, match=FULL.uuid):
        add_images(database, build_image("full"))
    assert run_query(database, store.by_uuid, FULL.uuid).name == "Full"


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


def test_update_writes_differences_only(database):
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
        found = store.by_uuid(connection, FULL.uuid, lock=True)
        store.remove(connection, found)

    database.write(write_rows)
    with database.read() as connection:
        for table in (image_properties, image_tags):
            assert connection.scalar(select(func.count()).select_from(table)) == 0
    assert run_query(database, store.by_uuid, FULL.uuid) is None


def test_stale_image_cannot_be_changed(sqlite_database):
    with pytest.raises(ValueError, match="not read"):
        sqlite_database.write(lambda connection: store.remove(connection, FULL))
