"""Virtual CPUs that float over a NUMA node's shared CPUs, as nova 34 decides the same cases."""

import pytest

from placement_sched.scheduler.hardware.host_fit_shared import shared_shortage
from tests.scheduler.hardware.fitting import a_cell, asked, limits


@pytest.mark.parametrize(
    ("used", "ratio", "wanted", "short"),
    [
        (0, 1.0, 4, None),
        (0, 16.0, 5, "5 shared CPUs asked, 4 in all"),
        (0, 0.5, 3, "3 shared CPUs asked, 2 free of 4 x 0.5"),
        (4, 1.0, 1, "1 shared CPUs asked, 0 free of 4 x 1"),
        (4, 2.0, 4, None),
        (5, 2.0, 4, "4 shared CPUs asked, 3 free of 4 x 2"),
        (5, 1.3, 0, None),
        (6, 1.3, 0, "0 shared CPUs asked, -0.8 free of 4 x 1.3"),
    ],
)
def test_shared_cpus_are_given_away_by_the_ratio(used, ratio, wanted, short):
    host = a_cell(shared=range(4), cpu_usage=used)
    assert shared_shortage(host, asked(shared=range(wanted)), limits(cpu=ratio)) == short


def test_without_limits_only_the_nodes_own_cpus_count():
    host = a_cell(shared=range(4), cpu_usage=99)
    assert shared_shortage(host, asked(shared=range(4)), None) is None
    assert shared_shortage(host, asked(shared=range(5)), None) is not None
