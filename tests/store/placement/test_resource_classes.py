# SPDX-License-Identifier: Apache-2.0
"""Resource classes: ids of standard classes, and of custom classes from 10000 on."""

from concurrent.futures import ThreadPoolExecutor

import os_resource_classes
import pytest

from placement_sched.errors import Duplicate, NotFound
from placement_sched.store.placement import resource_classes
from tests.support.providers import NOW
from tests.support.statements import run_query

pytestmark = pytest.mark.all_databases


def add_resource_class(database, name):
    database.write(lambda connection: resource_classes.add(connection, name, NOW))


def read_resource_class_ids(database, *names):
    return run_query(database, resource_classes.map_ids, names)


def test_standard_resource_classes_have_the_ids_of_os_resource_classes(database):
    with database.read() as connection:
        found = resource_classes.map_names_by_id(connection)
        with pytest.raises(NotFound):
            resource_classes.get_by_name(connection, "vcpu")
    assert [found[number] for number in range(len(found))] == os_resource_classes.STANDARDS


def test_concurrently_created_resource_classes_have_ids_from_10000(database):
    names = [f"CUSTOM_{letter}" for letter in "ABCDEFGH"]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: add_resource_class(database, name), names))
    assert sorted(read_resource_class_ids(database, *names, "CUSTOM_X").values()) == list(
        range(10000, 10008)
    )
    with pytest.raises(Duplicate, match="CUSTOM_A"):
        add_resource_class(database, "CUSTOM_A")
