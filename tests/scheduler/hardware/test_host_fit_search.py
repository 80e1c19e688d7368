"""The first arrangement is that of a search through all of them, and found soon."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.scheduler.hardware import host_fit_search
from placement_sched.scheduler.hardware.host_fit_search import first_arrangement


@pytest.mark.parametrize(
    ("places", "found"),
    [
        ([[0, 1]], (0,)),
        ([[0, 1], [0, 1]], (0, 1)),
        ([[0, 1], [0]], (1, 0)),
        ([[0], [0]], None),
        ([[0, 1, 2], [0, 1], [0, 1]], (2, 0, 1)),
        ([[1], []], None),
        ([], ()),
    ],
)
def test_earlier_items_choose_first(places, found):
    assert first_arrangement(places, lambda _places: True) == found


PLACES = st.lists(st.lists(st.integers(0, 4), unique=True).map(sorted), min_size=1, max_size=4)
ACCEPTED = st.frozensets(st.frozensets(st.integers(0, 4), min_size=1, max_size=4), max_size=12)


@given(PLACES, ACCEPTED)
def test_arrangement_is_that_of_a_search_through_all(places, accepted):
    ways = (
        way
        for way in permutations(range(5), len(places))
        if all(place in some for place, some in zip(way, places, strict=True))
        and frozenset(way) in accepted
    )
    assert first_arrangement(places, lambda some: frozenset(some) in accepted) == next(ways, None)


def test_each_set_of_places_is_judged_once():
    judged = []
    places = [list(range(16))] * 8
    assert first_arrangement(places, lambda some: judged.append(frozenset(some))) is None
    assert len(judged) == len(set(judged)) == 12870


def test_search_gives_up_after_so_many_sets(monkeypatch):
    monkeypatch.setattr(host_fit_search, "MOST_SETS", 100)
    judged = []
    assert first_arrangement([list(range(64))] * 32, judged.append) is None
    assert len(judged) <= 100
