"""SameHostFilter, as nova 34 decides the same cases."""

import pytest

from placement_sched.scheduler.filters.same_host_filter import SameHostFilter
from tests.placing import instance
from tests.scheduler.states import a_host, a_spec, instances_on

HERE, TOO, ELSEWHERE = map(instance, (1, 2, 3))


def refusal(hint):
    plugin = SameHostFilter()
    host = a_host(instances=instances_on("cn1", HERE, TOO))
    spec = a_spec(scheduler_hints={} if hint is None else {"same_host": hint})
    found = plugin.refusal(host, spec)
    assert plugin.host_passes(host, spec) is (found is None)
    return found and found.reason


@pytest.mark.parametrize("hint", [None, [], HERE, [ELSEWHERE, HERE], HERE.upper()], ids=str)
def test_host_of_one_of_the_instances_passes(hint):
    assert refusal(hint) is None


@pytest.mark.parametrize(
    ("hint", "named"),
    [(ELSEWHERE, ELSEWHERE), (["x", ELSEWHERE], f"x, {ELSEWHERE}")],
    ids=str,
)
def test_host_of_none_of_the_instances_is_refused_with_them(hint, named):
    assert refusal(hint) == f"same_host: none of {named} is here"


def test_filter_runs_once_per_request():
    assert not SameHostFilter().run_filter_for_index(1)
