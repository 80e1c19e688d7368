# SPDX-License-Identifier: Apache-2.0
"""Rules of flavors that affect several rows."""

from functools import partial

import pytest

from placement_sched.errors import Conflict, Duplicate, NotFound
from placement_sched.model.flavor import Flavor
from placement_sched.operations import flavors
from tests.support.concurrency import run_concurrently
from tests.support.hosts import NOW
from tests.support.statements import record_statements


def create_flavor(database, flavorid, name="n", **fields):
    flavor = Flavor(flavorid=flavorid, name=name, vcpus=1, memory_mb=1, **fields)
    return database.write(lambda connection: flavors.create(connection, flavor, NOW))


def run_operation(database, question, *arguments, **options):
    return database.write(lambda connection: question(connection, *arguments, **options))


def test_flavor_id_and_name_are_unique(database):
    create_flavor(database, "a")
    with pytest.raises(Duplicate, match="ID a already"):
        create_flavor(database, "a", "other")
    with pytest.raises(Duplicate, match="name n already"):
        create_flavor(database, "b")
    create_flavor(database, "A", "N")


@pytest.mark.all_databases
def test_one_of_concurrent_creations_of_a_name_succeeds(database):
    def rival(number):
        try:
            return create_flavor(database, f"f{number}").flavorid
        except Duplicate:
            return None

    created = run_concurrently(*(partial(rival, number) for number in range(4)))
    assert sum(flavor is not None for flavor in created) == 1


def test_private_flavor_is_visible_to_its_projects_and_administrators(database):
    create_flavor(database, "p", is_public=False)
    run_operation(database, flavors.add_access, "p", "shop", NOW, public=False)
    assert run_operation(database, flavors.get, "p").flavorid == "p"
    assert run_operation(database, flavors.get, "p", "shop").flavorid == "p"
    with pytest.raises(NotFound, match="Flavor p could not be found"):
        run_operation(database, flavors.get, "p", "other")


def test_project_access_is_added_and_removed_once(database):
    create_flavor(database, "p", is_public=False)
    assert run_operation(database, flavors.add_access, "p", "q", NOW, public=False) == ("q",)
    assert run_operation(database, flavors.add_access, "p", "a", NOW, public=False) == ("a", "q")
    with pytest.raises(Conflict, match="already exists"):
        run_operation(database, flavors.add_access, "p", "q", NOW, public=False)
    assert run_operation(database, flavors.remove_access, "p", "q") == ("a",)
    with pytest.raises(NotFound, match="p / q"):
        run_operation(database, flavors.remove_access, "p", "q")
    assert run_operation(database, flavors.projects, "p") == ("a",)


def test_public_flavor_has_no_access_list(database):
    create_flavor(database, "f")
    with pytest.raises(NotFound, match="not available for public"):
        run_operation(database, flavors.projects, "f")
    with pytest.raises(Conflict, match="public flavor"):
        run_operation(database, flavors.add_access, "f", "q", NOW, public=False)
    assert run_operation(database, flavors.add_access, "f", "q", NOW, public=True) == ("q",)


def test_unknown_flavor_is_not_found(database):
    for question, *arguments in (
        (flavors.get, "x"),
        (flavors.describe, "x", "text", NOW),
        (flavors.delete, "x"),
        (flavors.set_extra_specs, "x", {"a": "1"}, NOW),
        (flavors.remove_extra_spec, "x", "a"),
        (flavors.projects, "x"),
        (flavors.remove_access, "x", "q"),
    ):
        with pytest.raises(NotFound, match="Flavor x could not be found"):
            run_operation(database, question, *arguments)
    create_flavor(database, "f")
    with pytest.raises(NotFound, match="Flavor f has no extra specs with key a"):
        run_operation(database, flavors.remove_extra_spec, "f", "a")


def test_statement_count_is_independent_of_extra_specs(database):
    create_flavor(database, "f")
    seen = []
    for number in (1, 40):
        changes = {f"{number}-{index}": "v" for index in range(number)}
        with record_statements(database) as statements:
            run_operation(database, flavors.set_extra_specs, "f", changes, NOW)
        seen.append(len(statements))
    assert seen[0] == seen[1]
