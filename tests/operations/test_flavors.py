# SPDX-License-Identifier: Apache-2.0
"""Flavors under the rules that span several rows."""

from functools import partial

import pytest

from placement_sched.errors import Conflict, Duplicate, NotFound
from placement_sched.model.flavor import Flavor
from placement_sched.operations import flavors
from tests.support.concurrency import run_concurrently
from tests.support.hosts import NOW
from tests.support.statements import record_statements


def create(database, flavorid, name="n", **fields):
    flavor = Flavor(flavorid=flavorid, name=name, vcpus=1, memory_mb=1, **fields)
    return database.write(lambda connection: flavors.create(connection, flavor, NOW))


def ask(database, question, *arguments, **options):
    return database.write(lambda connection: question(connection, *arguments, **options))


def test_id_and_name_are_each_given_once(database):
    create(database, "a")
    with pytest.raises(Duplicate, match="ID a already"):
        create(database, "a", "other")
    with pytest.raises(Duplicate, match="name n already"):
        create(database, "b")
    create(database, "A", "N")


@pytest.mark.all_databases
def test_of_rivals_for_a_name_one_wins(database):
    def rival(number):
        try:
            return create(database, f"f{number}").flavorid
        except Duplicate:
            return None

    told = run_concurrently(*(partial(rival, number) for number in range(4)))
    assert sum(one is not None for one in told) == 1


def test_private_flavor_is_seen_by_its_projects_and_whoever_sees_all(database):
    create(database, "p", is_public=False)
    ask(database, flavors.add_access, "p", "shop", NOW, public=False)
    assert ask(database, flavors.get, "p").flavorid == "p"
    assert ask(database, flavors.get, "p", "shop").flavorid == "p"
    with pytest.raises(NotFound, match="Flavor p could not be found"):
        ask(database, flavors.get, "p", "other")


def test_projects_are_let_in_once_and_shut_out_once(database):
    create(database, "p", is_public=False)
    assert ask(database, flavors.add_access, "p", "q", NOW, public=False) == ("q",)
    assert ask(database, flavors.add_access, "p", "a", NOW, public=False) == ("a", "q")
    with pytest.raises(Conflict, match="already exists"):
        ask(database, flavors.add_access, "p", "q", NOW, public=False)
    assert ask(database, flavors.remove_access, "p", "q") == ("a",)
    with pytest.raises(NotFound, match="p / q"):
        ask(database, flavors.remove_access, "p", "q")
    assert ask(database, flavors.projects, "p") == ("a",)


def test_public_flavor_has_no_list_and_takes_projects_only_if_told(database):
    create(database, "f")
    with pytest.raises(NotFound, match="not available for public"):
        ask(database, flavors.projects, "f")
    with pytest.raises(Conflict, match="public flavor"):
        ask(database, flavors.add_access, "f", "q", NOW, public=False)
    assert ask(database, flavors.add_access, "f", "q", NOW, public=True) == ("q",)


def test_what_is_not_there_is_not_found(database):
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
            ask(database, question, *arguments)
    create(database, "f")
    with pytest.raises(NotFound, match="Flavor f has no extra specs with key a"):
        ask(database, flavors.remove_extra_spec, "f", "a")


def test_extra_specs_cost_the_same_however_many(database):
    create(database, "f")
    seen = []
    for number in (1, 40):
        changes = {f"{number}-{each}": "v" for each in range(number)}
        with record_statements(database) as statements:
            ask(database, flavors.set_extra_specs, "f", changes, NOW)
        seen.append(len(statements))
    assert seen[0] == seen[1]
