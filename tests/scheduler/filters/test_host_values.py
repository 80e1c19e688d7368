"""What lies somewhere inside of what a host reports."""

import pytest

from placement_sched.scheduler.filters.host_values import value_at
from tests.scheduler.states import a_host

HOST = a_host(cpu_info='{"arch": "x86_64", "maxphysaddr": {"bits": 40}}', stats={"gpu": "1"})


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("host", "cn1"),
        ("gpu", "1"),
        ("stats:gpu", "1"),
        ("cpu_info:maxphysaddr:bits", 40),
        ("cpu_info:maxphysaddr", {"bits": 40}),
        ("cpu_info:model", None),
        ("host:deeper", None),
        ("nothing", None),
    ],
)
def test_path_leads_through_attributes_stats_mappings_and_json(path, found):
    assert value_at(HOST, path.split(":")) == found
