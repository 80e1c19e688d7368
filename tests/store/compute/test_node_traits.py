"""Whether all enabled nodes have a trait, and the fingerprint of what that follows from."""

import pytest

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from placement_sched.store.compute import node_traits
from tests.conftest import make_settings
from tests.empty_databases import KINDS, empty_database
from tests.operations.test_reports import report
from tests.reports import a_report, node_uuid
from tests.service_changes import disable
from tests.trait_carriers import TRAIT, make, put_on, remove, swap, take_off

pytestmark = pytest.mark.all_databases

SALT = 20_261_121


def coverage(database, trait=TRAIT):
    with database.read() as connection:
        return node_traits.coverage(connection, trait, SALT)


def fingerprint(database, salt=SALT, trait=TRAIT):
    with database.read() as connection:
        return node_traits.fingerprint(connection, trait, salt)


def all_have(database):
    return coverage(database).all_have


@pytest.fixture
def cloud(database, settings):
    """A database with two enabled nodes, of which the first has the trait."""
    report(database, settings, a_report(1), a_report(2))
    put_on(database, node_uuid(1))
    return database


@pytest.fixture(params=KINDS)
def unused(request, tmp_path):
    """A database that nobody uses afterwards, whatever ids are left."""
    with empty_database(request.param, tmp_path) as url:
        database = Database(make_settings(url))
        sync(database, utcnow)
        yield database
        database.dispose()


def test_all_have_it_once_the_last_has(cloud):
    assert not all_have(cloud)
    put_on(cloud, node_uuid(2))
    assert all_have(cloud)


def test_without_enabled_nodes_none_has_it(database, settings):
    make(database, node_uuid(1))
    put_on(database, node_uuid(1))
    assert not all_have(database)
    report(database, settings, a_report(2))
    put_on(database, node_uuid(2))
    database.write(lambda connection: disable(connection, "cn2", "fan"))
    assert not all_have(database)


def test_disabled_nodes_need_it_not(cloud):
    cloud.write(lambda connection: disable(connection, "cn2", "fan"))
    assert all_have(cloud)


def test_node_without_provider_lacks_it(cloud):
    remove(cloud, node_uuid(2))
    assert not all_have(cloud)


def test_unknown_trait_is_nobodys(cloud):
    assert not coverage(cloud, "CUSTOM_UNKNOWN").all_have


def test_fingerprint_of_an_answer_is_that_of_the_moment(cloud):
    for salt in (SALT, SALT + 1):
        with cloud.read() as connection:
            found = node_traits.coverage(connection, TRAIT, salt)
        assert found.fingerprint == fingerprint(cloud, salt)
    assert fingerprint(cloud, SALT) != fingerprint(cloud, SALT + 1)


def test_fingerprint_is_of_one_trait(cloud):
    before = fingerprint(cloud, trait="HW_CPU_X86_AVX2")
    assert before != fingerprint(cloud)
    put_on(cloud, node_uuid(2))
    assert fingerprint(cloud, trait="HW_CPU_X86_AVX2") == before


@pytest.mark.parametrize(
    "change",
    [
        lambda database: put_on(database, node_uuid(2)),
        lambda database: take_off(database, node_uuid(1)),
        lambda database: swap(database, node_uuid(1), node_uuid(2)),
        lambda database: remove(database, node_uuid(1)),
        lambda database: database.write(lambda connection: disable(connection, "cn2", "fan")),
    ],
    ids=["one more", "one less", "another", "a provider less", "a node less"],
)
def test_fingerprint_changes_with(cloud, change):
    before = fingerprint(cloud)
    change(cloud)
    assert fingerprint(cloud) != before


def test_fingerprint_tells_carriers_whose_ids_have_the_same_sum_and_squares(database):
    # 1 + 5 + 6 = 2 + 3 + 7, and so do their squares, from wherever one counts.
    for number in range(1, 8):
        make(database, node_uuid(number), 10**6 + number)
    salts = (SALT, 2, 10**9 + 7)
    seen = []
    for numbers in ((1, 5, 6), (2, 3, 7)):
        take_off(database, *map(node_uuid, range(1, 8)))
        put_on(database, *map(node_uuid, numbers))
        seen.append([fingerprint(database, salt) for salt in salts])
    assert all(one != other for one, other in zip(*seen, strict=True))
    assert {found.carriers for told in seen for found in told} == {3}


def test_ids_and_salts_of_any_size_are_summed(unused):
    numbers = (1, 2**31 - 3, 2**31 - 2)
    for number in numbers:
        make(unused, node_uuid(number), number)
        put_on(unused, node_uuid(number))
    for salt in (1, node_traits.SALTS - 1):
        squares = [(number * salt % (2**31 - 1)) ** 2 % (2**31 - 19) for number in numbers]
        mixed = sum(square**2 % (2**31 - 1) for square in squares)
        assert fingerprint(unused, salt) == node_traits.Fingerprint(0, 3, mixed)
