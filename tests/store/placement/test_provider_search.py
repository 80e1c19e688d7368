# SPDX-License-Identifier: Apache-2.0
"""Lists of providers by many traits, aggregates and classes with a short statement."""

from uuid import uuid4

import pytest

from placement_sched.model.candidates_query import AggregateTerms, TraitTerms
from placement_sched.model.provider import Inventory
from placement_sched.store.placement import (
    aggregates,
    provider_search,
    resource_classes,
    resource_providers,
    traits,
)
from placement_sched.store.placement.provider_search import ProviderQuery
from tests.support.providers import NOW, make_provider, make_providers
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases

SIXTY_TRAITS = [f"CUSTOM_T{number}" for number in range(60)]
SIXTY_RESOURCE_CLASSES = [f"CUSTOM_C{number}" for number in range(60)]
SEVENTY_AGGREGATES = sorted(str(uuid4()) for _ in range(70))


@pytest.fixture
def database_with_two_providers(database):
    """A database with two providers. The first has every trait, aggregate and class."""
    full = make_provider(database)
    make_provider(database)

    def write_traits_and_aggregates(connection):
        number = resource_providers.get_by_uuid(connection, full).id
        traits.replace_many(connection, {number: SIXTY_TRAITS}, NOW)
        aggregates.replace_many(connection, {number: SEVENTY_AGGREGATES}, NOW)
        for name in SIXTY_RESOURCE_CLASSES:
            resource_classes.add(connection, name, NOW)

    database.write(write_traits_and_aggregates)
    return database, full


def search_and_count_sql_words(database, **filters):
    """Return the uuids of the providers, and the number of SQL words in the statements."""
    with record_statements(database) as seen, database.read() as connection:
        providers = provider_search.search(connection, ProviderQuery(**filters))
    words = " ".join(seen).upper().replace("(", " ").split()
    counts = {word: words.count(word) for word in ("SELECT", "JOIN", "AND", "OR", "CASE")}
    return {provider.uuid for provider in providers}, counts


@pytest.mark.parametrize("size", [1, 2], ids=["one of each", "any of two"])
def test_query_with_dozens_of_required_sets_has_no_join_per_set(database_with_two_providers, size):
    """The plan of a join for each set takes minutes."""
    database, full = database_with_two_providers
    for kind, key, required, names in (
        (TraitTerms, "traits", "required", SIXTY_TRAITS),
        (AggregateTerms, "aggregates", "member_of", SEVENTY_AGGREGATES),
    ):
        sets = tuple(frozenset(names[index : index + size]) for index in range(len(names)))
        uuids, words = search_and_count_sql_words(database, **{key: kind(**{required: sets})})
        assert uuids == {full}
        assert words["CASE"] >= len(sets) - provider_search.MAX_PLANNED


def test_sql_of_a_provider_search_does_not_grow_with_forbidden_traits(database_with_two_providers):
    database, full = database_with_two_providers
    queries = [
        [{"traits": TraitTerms(forbidden=frozenset(SIXTY_TRAITS[:most]))} for most in (2, 60)],
        [
            {"aggregates": AggregateTerms(forbidden=frozenset(SEVENTY_AGGREGATES[:n]))}
            for n in (2, 70)
        ],
    ]
    for few, many in queries:
        uuids, words = search_and_count_sql_words(database, **few)
        assert full not in uuids
        assert len(uuids) == 1
        assert search_and_count_sql_words(database, **many) == (uuids, words)


def test_query_with_dozens_of_classes_checks_them_in_case_expressions(database_with_two_providers):
    database, _ = database_with_two_providers
    full = make_provider(database, **dict.fromkeys(SIXTY_RESOURCE_CLASSES, 4))
    make_provider(database, **dict.fromkeys(SIXTY_RESOURCE_CLASSES[1:], 4))
    uuids, words = search_and_count_sql_words(
        database, resources=dict.fromkeys(SIXTY_RESOURCE_CLASSES, 4)
    )
    assert uuids == {full}
    assert words["CASE"] >= len(SIXTY_RESOURCE_CLASSES) // provider_search.MAX_PLANNED
    assert (
        search_and_count_sql_words(database, resources=dict.fromkeys(SIXTY_RESOURCE_CLASSES, 5))[0]
        == set()
    )


def test_provider_is_found_if_each_class_has_its_requested_amount(database):
    stocks = [(2, 9), (9, 2), (5, 5), (9, 9)]
    uuids = make_providers(
        database,
        [
            [
                Inventory(resource_class="VCPU", total=cpus),
                Inventory(resource_class="PCI_DEVICE", total=pci),
            ]
            for cpus, pci in stocks
        ],
    )
    for requested in ((5, 5), (3, 9), (9, 1), (1, 1), (10, 1)):
        amounts = dict(zip(("VCPU", "PCI_DEVICE"), requested, strict=True))
        expected = {
            uuid
            for uuid, stock in zip(uuids, stocks, strict=True)
            if all(total >= amount for total, amount in zip(stock, requested, strict=True))
        }
        assert search_and_count_sql_words(database, resources=amounts)[0] == expected
