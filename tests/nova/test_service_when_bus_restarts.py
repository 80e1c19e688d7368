# SPDX-License-Identifier: Apache-2.0
"""``placement-sched nova-scheduler`` during a restart of RabbitMQ."""

import gc
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from placement_sched.db.transaction import MAX_WRITERS
from tests.nova.cloud.rabbitmq import RabbitMQ, run_private_rabbitmq
from tests.nova.scheduling import (
    NovaDeployment,
    list_selected_hosts,
    open_nova_deployment_with_two_hosts,
    wait_until_true,
)
from tests.support.scheduling import make_uuid

pytestmark = pytest.mark.exhaustive

#: Number of calls. On SQLite further writers fail after some seconds.
CALL_COUNT = MAX_WRITERS
#: The library's log line for each call that has arrived.
_RECEIVED_CALL_LOG_TEXT = "received message msg_id"
CALL_LOG_OPTIONS = {
    "DEFAULT__default_log_levels": "oslo_messaging._drivers.amqpdriver=DEBUG",
    "placement_database__lock_timeout": "300",
}


@pytest.fixture
def rabbitmq(tmp_path: Path) -> Iterator[RabbitMQ]:
    with run_private_rabbitmq(tmp_path / "rabbitmq") as own:
        own.wait_until_ready()
        yield own


@pytest.fixture
def two_host_nova(tmp_path, rabbitmq, sqlite_template) -> Iterator[NovaDeployment]:
    with open_nova_deployment_with_two_hosts(tmp_path, rabbitmq.url, sqlite_template) as deployment:
        yield deployment
    with warnings.catch_warnings():
        # oslo.messaging's client does not close sockets that the bus has closed.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def test_pending_calls_are_claimed_and_answered_once_after_a_bus_restart(two_host_nova, rabbitmq):
    service = two_host_nova.start_scheduler(workers=1, **CALL_LOG_OPTIONS)
    with closing(
        sqlite3.connect(two_host_nova.url.removeprefix("sqlite:///"), isolation_level=None)
    ) as own:
        # No call can claim during this transaction.
        own.execute("BEGIN IMMEDIATE")
        results = {
            number: two_host_nova.conductor.begin_selection(make_uuid(number))
            for number in range(CALL_COUNT)
        }
        service.wait_for_log_line(_RECEIVED_CALL_LOG_TEXT, CALL_COUNT)
        rabbitmq.restart()
        own.execute("ROLLBACK")
    for number, result in results.items():
        assert list_selected_hosts(result.result(timeout=150))
        (allocated,) = two_host_nova.read_allocations(make_uuid(number)).values()
        assert allocated["resources"]["VCPU"] == 1
    # RabbitMQ drops messages before the queue has a consumer.
    wait_until_true(two_host_nova.is_queue_consumed)
    assert list_selected_hosts(two_host_nova.conductor.select_destinations(make_uuid(CALL_COUNT)))
    assert service.read_log_lines("Traceback") == []
