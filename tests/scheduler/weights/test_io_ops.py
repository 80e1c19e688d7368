# SPDX-License-Identifier: Apache-2.0
"""IoOpsWeigher, as nova 34 weighs the same hosts."""

from placement_sched.config.conf import new_conf
from placement_sched.scheduler.plugins import read_settings
from placement_sched.scheduler.weights.io_ops import IoOpsWeigher
from tests.scheduler.weights.weighing import raw, weighed
from tests.support.states import a_host, aggregates

HOSTS = [
    a_host("cn1", num_io_ops=4),
    a_host("cn2", num_io_ops=0),
    a_host("cn3", num_io_ops=1),
    a_host("cn4", num_io_ops=-3),
]


def test_host_that_is_the_least_busy_wins_and_less_than_nothing_is_nothing():
    assert weighed(IoOpsWeigher, HOSTS) == [
        ("cn2", 0.0),
        ("cn4", 0.0),
        ("cn3", -0.25),
        ("cn1", -1.0),
    ]
    assert raw(IoOpsWeigher, HOSTS) == {"cn1": 4, "cn2": 0, "cn3": 1, "cn4": 0}


def test_positive_multiplier_prefers_the_busiest():
    told = weighed(IoOpsWeigher, HOSTS, filter_scheduler__io_ops_weight_multiplier=2.0)
    assert told[:2] == [("cn1", 2.0), ("cn3", 0.5)]


def test_aggregates_may_have_another_multiplier():
    liked = aggregates({"io_ops_weight_multiplier": "3"}, {"io_ops_weight_multiplier": "8"})
    hosts = [*HOSTS, a_host("cn5", num_io_ops=2, aggregates=liked)]
    assert weighed(IoOpsWeigher, hosts)[0] == ("cn5", 1.5)


def test_option_is_also_read_where_juno_has_it(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[DEFAULT]\nio_ops_weight_multiplier = 2.5\n")
    settings = read_settings([str(file)], new_conf())
    assert settings.filter_scheduler.io_ops_weight_multiplier == 2.5
