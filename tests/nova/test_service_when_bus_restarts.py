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
from tests.nova.cloud.rabbitmq import RabbitMQ, private_broker
from tests.nova.scheduling import (
    NovaDeployment,
    list_selected_hosts,
    open_nova_deployment_with_two_hosts,
    wait_until_true,
)
from tests.support.scheduling import instance

pytestmark = pytest.mark.exhaustive

#: Number of calls. On SQLite further writers fail after some seconds.
CALLS = MAX_WRITERS
#: The library's log line for each call that has arrived.
_ARRIVED = "received message msg_id"
OPTIONS = {
    "DEFAULT__default_log_levels": "oslo_messaging._drivers.amqpdriver=DEBUG",
    "placement_database__lock_timeout": "300",
}


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[RabbitMQ]:
    with private_broker(tmp_path / "rabbitmq") as own:
        own.wait_until_ready()
        yield own


@pytest.fixture
def nova_site(tmp_path, bus, sqlite_template) -> Iterator[NovaDeployment]:
    with open_nova_deployment_with_two_hosts(tmp_path, bus.url, sqlite_template) as site:
        yield site
    with warnings.catch_warnings():
        # oslo.messaging's client does not close sockets that the bus has closed.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def test_pending_calls_are_claimed_and_answered_once_after_a_bus_restart(nova_site, bus):
    service = nova_site.start(workers=1, **OPTIONS)
    with closing(
        sqlite3.connect(nova_site.url.removeprefix("sqlite:///"), isolation_level=None)
    ) as own:
        # No call can claim during this transaction.
        own.execute("BEGIN IMMEDIATE")
        answers = {
            number: nova_site.conductor.begin_select(instance(number)) for number in range(CALLS)
        }
        service.wait_for_line(_ARRIVED, CALLS)
        bus.restart()
        own.execute("ROLLBACK")
    for number, answer in answers.items():
        assert list_selected_hosts(answer.result(timeout=150))
        (allocated,) = nova_site.allocations(instance(number)).values()
        assert allocated["resources"]["VCPU"] == 1
    # RabbitMQ drops messages before the queue has a consumer.
    wait_until_true(nova_site.is_queue_consumed)
    assert list_selected_hosts(nova_site.conductor.select(instance(CALLS)))
    assert service.lines("Traceback") == []
