# SPDX-License-Identifier: Apache-2.0
"""Weigher of disk operations, as nova 34 weighs the same hosts."""

from placement_sched.config.conf import new_conf
from placement_sched.scheduler.plugins import read_settings
from placement_sched.scheduler.weights.io_ops import IoOpsWeigher
from tests.scheduler.weights.weighing import raw_weights, weigh_hosts
from tests.support.states import build_aggregates, build_host_state

HOSTS = [
    build_host_state("cn1", num_io_ops=4),
    build_host_state("cn2", num_io_ops=0),
    build_host_state("cn3", num_io_ops=1),
    build_host_state("cn4", num_io_ops=-3),
]


def test_least_busy_host_is_best_unless_the_multiplier_is_positive():
    weights = [("cn2", 0.0), ("cn4", 0.0), ("cn3", -0.25), ("cn1", -1.0)]
    assert weigh_hosts(IoOpsWeigher, HOSTS) == weights
    assert raw_weights(IoOpsWeigher, HOSTS) == {"cn1": 4, "cn2": 0, "cn3": 1, "cn4": 0}
    weights = weigh_hosts(IoOpsWeigher, HOSTS, filter_scheduler__io_ops_weight_multiplier=2.0)
    assert weights[:2] == [("cn1", 2.0), ("cn3", 0.5)]


def test_aggregates_may_have_another_multiplier():
    liked = build_aggregates({"io_ops_weight_multiplier": "3"}, {"io_ops_weight_multiplier": "8"})
    hosts = [*HOSTS, build_host_state("cn5", num_io_ops=2, aggregates=liked)]
    assert weigh_hosts(IoOpsWeigher, hosts)[0] == ("cn5", 1.5)


def test_option_may_have_the_group_of_juno(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[DEFAULT]\nio_ops_weight_multiplier = 2.5\n")
    settings = read_settings([str(file)], new_conf())
    assert settings.filter_scheduler.io_ops_weight_multiplier == 2.5
