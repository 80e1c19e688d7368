"""The client of ``/scheduler/v1``."""

from placement_sched.cli.scheduler_client import SchedulerClient


def test_names_of_aggregates_that_cannot_be_had_are_none():
    assert SchedulerClient("http://127.0.0.1:1", "admin").aggregate_names() == {}
