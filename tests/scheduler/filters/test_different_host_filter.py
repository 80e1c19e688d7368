"""DifferentHostFilter, as nova 34 decides the same cases."""

import pytest

from placement_sched.scheduler.filters.different_host_filter import DifferentHostFilter
from tests.placing import instance
from tests.scheduler.states import a_host, a_spec, instances_on

HERE, TOO, ELSEWHERE = map(instance, (1, 2, 3))


def refusal(hint):
    plugin = DifferentHostFilter()
    host = a_host(instances=instances_on("cn1", HERE, TOO))
    spec = a_spec(scheduler_hints={} if hint is None else {"different_host": hint})
    found = plugin.refusal(host, spec)
    assert plugin.host_passes(host, spec) is (found is None)
    return found and found.reason


@pytest.mark.parametrize("hint", [None, [], ELSEWHERE, [ELSEWHERE], "no uuid"], ids=str)
def test_host_without_the_instances_passes(hint):
    assert refusal(hint) is None


@pytest.mark.parametrize(
    ("hint", "named"),
    [
        (HERE, HERE),
        ([ELSEWHERE, HERE], HERE),
        ([TOO, HERE], f"{HERE}, {TOO}"),
        (HERE.upper(), HERE),
    ],
    ids=str,
)
def test_host_of_one_of_the_instances_is_refused_with_those_it_has(hint, named):
    assert refusal(hint) == f"different_host: {named} is here"


def test_filter_runs_once_per_request():
    assert not DifferentHostFilter().run_filter_for_index(1)
