"""CPUWeigher: free virtual CPUs count, with the ratio."""

from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weighing import run_weighers
from placement_sched.scheduler.weights.cpu import CPUWeigher
from tests.scheduler.states import a_host, a_spec, settings_with

HOSTS = [
    a_host("cn1", vcpus_total=8, vcpus_used=1, cpu_allocation_ratio=1.0),  # 7 free
    a_host("cn2", vcpus_total=4, vcpus_used=2, cpu_allocation_ratio=4.0),  # 14 free
    a_host("cn3", vcpus_total=4, vcpus_used=9, cpu_allocation_ratio=1.0),  # 5 too many
]


def weighed(hosts, **options):
    plugin = CPUWeigher.with_settings(settings_with(**options))
    run = run_weighers([plugin], hosts, a_spec())
    return [(host.obj.host, host.weight) for host in run.hosts]


def test_host_with_the_most_free_cpus_wins():
    assert weighed(HOSTS) == [("cn2", 1.0), ("cn1", 0.5), ("cn3", 0.0)]


def test_negative_multiplier_turns_the_order_round():
    names = [name for name, _ in weighed(HOSTS, filter_scheduler__cpu_weight_multiplier=-1.0)]
    assert names == ["cn3", "cn1", "cn2"]


def test_empty_host_state_has_nothing_free():
    assert weighed([HostState("cn0", "cn0"), HOSTS[0]]) == [("cn1", 1.0), ("cn0", 0.0)]
