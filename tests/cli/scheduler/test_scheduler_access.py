"""The client of ``/scheduler/v1``."""

import socket

import pytest

from placement_sched.cli.scheduler.scheduler_access import SchedulerClient
from placement_sched.errors import Unavailable


def test_names_of_aggregates_that_cannot_be_had_are_none():
    assert SchedulerClient("http://127.0.0.1:1", "admin").aggregate_names() == {}


def test_a_server_that_takes_longer_may_still_be_working():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unavailable) as told:
            SchedulerClient(base, "admin", timeout=0.2).explain({})
    assert told.value.detail == (
        f"{base} did not answer within 0.2 s; it may still be working on the request: wait longer "
        "with --timeout SECONDS"
    )
