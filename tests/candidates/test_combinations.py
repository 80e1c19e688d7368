"""Whole questions on trees and sharing providers, against the naive reference."""

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement_sched.candidates.search import find, prepare
from tests.candidates.reference import all_candidates, as_found
from tests.candidates.reload import reload
from tests.candidates.strategies import queries, tree_clouds

EXAMPLES = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _find(database, query, options, *, one_of_a_tree=False):
    with database.read() as connection:
        search = prepare(connection, query)
        found = find(connection, search, options, Random(7), one_of_a_tree=one_of_a_tree)
    return found.requests


@EXAMPLES
@given(cloud=tree_clouds(), query=queries(), one_of_a_tree=st.booleans())
def test_search_finds_every_combination_once(database, settings, cloud, query, one_of_a_tree):
    reload(database, cloud)
    found = _find(database, query, settings, one_of_a_tree=one_of_a_tree)
    told = [as_found(request) for request in found]
    assert set(told) == all_candidates(cloud, query, one_of_a_tree=one_of_a_tree)
    assert len(set(told)) == len(told)
