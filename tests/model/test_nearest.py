"""Which known name somebody may have meant."""

import pytest

from placement_sched.model.nearest import did_you_mean, nearest

HOSTS = [f"cn{number}" for number in range(1, 21)]


@pytest.mark.parametrize(
    ("name", "known", "most", "wanted"),
    [
        ("cn77", HOSTS, 1, ("cn7",)),
        ("CN7", HOSTS, 1, ("cn7",)),
        ("az9", ["az2", "az1"], 1, ("az1",)),
        ("cmp7", ["cmp0007.cloud", "cmp7x", "CMP7"], 2, ("CMP7", "cmp7x")),
        ("mars", HOSTS, 3, ()),
        ("", HOSTS, 3, ()),
        ("a", [], 3, ()),
    ],
)
def test_the_nearest_come_first_whatever_the_case(name, known, most, wanted):
    assert nearest(name, known, most) == wanted


def test_they_end_a_sentence():
    assert did_you_mean(()) == ""
    assert did_you_mean(["cn7", "cn70"]) == "; did you mean 'cn7' or 'cn70'?"
