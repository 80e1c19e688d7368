"""NumInstancesFilter, as nova 34 decides the same cases."""

import pytest

from placement_sched.config import Settings
from placement_sched.config.process import read_files
from placement_sched.scheduler.filters.num_instances_filter import NumInstancesFilter
from placement_sched.scheduler.loading import full_conf
from tests.scheduler.states import a_host, a_spec, settings_with


def refusal(host, **options):
    plugin = NumInstancesFilter.with_settings(settings_with(**options))
    found = plugin.refusal(host, a_spec())
    assert plugin.host_passes(host, a_spec()) is (found is None)
    return found and found.reason


@pytest.mark.parametrize(
    ("there", "most", "reason"),
    [
        (0, 1, None),
        (4, 5, None),
        (5, 5, "5 instances there, the maximum is 5"),
        (6, 5, "6 instances there, the maximum is 5"),
    ],
)
def test_host_that_has_reached_the_maximum_is_refused(there, most, reason):
    host = a_host(num_instances=there)
    assert refusal(host, filter_scheduler__max_instances_per_host=most) == reason


def test_maximum_is_50_unless_told_otherwise():
    assert refusal(a_host(num_instances=49)) is None
    assert refusal(a_host(num_instances=50)).endswith("the maximum is 50")


def test_maximum_may_stand_where_icehouse_had_it(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[DEFAULT]\nmax_instances_per_host = 3\n")
    settings = Settings.from_conf(read_files(full_conf(), [str(file)]))
    assert settings.filter_scheduler.max_instances_per_host == 3


def test_instances_of_one_request_count_against_each_other():
    host = a_host(num_instances=49)
    assert refusal(host) is None
    host.consume_from_request(a_spec())
    assert refusal(host) == "50 instances there, the maximum is 50"
    assert NumInstancesFilter().run_filter_for_index(1)
