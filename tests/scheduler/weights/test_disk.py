"""DiskWeigher: what is free counts."""

from placement_sched.scheduler.weighing import run_weighers
from placement_sched.scheduler.weights.disk import DiskWeigher
from tests.scheduler.states import a_host, a_spec, settings_with

HOSTS = [
    a_host("cn1", free_disk_mb=512),
    a_host("cn2", free_disk_mb=2048),
    a_host("cn3", free_disk_mb=1024),
    a_host("cn4", free_disk_mb=-512),
]


def weighed(**options):
    plugin = DiskWeigher.with_settings(settings_with(**options))
    run = run_weighers([plugin], HOSTS, a_spec())
    return [(host.obj.host, host.weight) for host in run.hosts]


def test_host_with_the_most_free_wins_and_less_than_nothing_is_nothing():
    assert weighed() == [("cn2", 1.0), ("cn3", 0.5), ("cn1", 0.25), ("cn4", 0.0)]


def test_negative_multiplier_turns_the_order_round():
    names = [name for name, _ in weighed(filter_scheduler__disk_weight_multiplier=-1.0)]
    assert names == ["cn4", "cn1", "cn3", "cn2"]
