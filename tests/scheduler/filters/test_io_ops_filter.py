"""IoOpsFilter, as nova 34 decides the same cases."""

import pytest

from placement_sched.config import Settings
from placement_sched.config.process import read_files
from placement_sched.scheduler.filters.io_ops_filter import IoOpsFilter
from placement_sched.scheduler.loading import full_conf
from tests.scheduler.states import a_host, a_spec, settings_with


def refusal(host, **options):
    plugin = IoOpsFilter.with_settings(settings_with(**options))
    found = plugin.refusal(host, a_spec())
    assert plugin.host_passes(host, a_spec()) is (found is None)
    return found and found.reason


@pytest.mark.parametrize(
    ("busy", "most", "reason"),
    [
        (0, 8, None),
        (7, 8, None),
        (8, 8, "8 instances busy with disks, the maximum is 8"),
        (9, 8, "9 instances busy with disks, the maximum is 8"),
        (0, 0, "0 instances busy with disks, the maximum is 0"),
    ],
)
def test_host_that_has_reached_the_maximum_is_refused(busy, most, reason):
    host = a_host(num_io_ops=busy)
    assert refusal(host, filter_scheduler__max_io_ops_per_host=most) == reason


def test_maximum_is_8_unless_told_otherwise():
    assert refusal(a_host(num_io_ops=7)) is None
    assert refusal(a_host(num_io_ops=8)).endswith("the maximum is 8")


def test_maximum_may_stand_where_icehouse_had_it(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[DEFAULT]\nmax_io_ops_per_host = 3\n")
    settings = Settings.from_conf(read_files(full_conf(), [str(file)]))
    assert settings.filter_scheduler.max_io_ops_per_host == 3


def test_instances_of_one_request_count_against_each_other():
    host = a_host(num_io_ops=7)
    assert refusal(host) is None
    host.consume_from_request(a_spec())
    assert refusal(host) == "8 instances busy with disks, the maximum is 8"
    assert IoOpsFilter().run_filter_for_index(1)
