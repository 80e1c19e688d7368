# SPDX-License-Identifier: Apache-2.0
"""Nova's client of the scheduler and this service's RPC server on a real RabbitMQ."""

from importlib import import_module
from queue import Queue
from uuid import uuid4

import pytest
from oslo_config import cfg

from placement_sched.config.options.notifications import oslo_messaging
from placement_sched.errors import Invalid
from placement_sched.nova.objects import (
    aggregate_of,
    aggregates_of,
    no_valid_host,
    to_remote_failure,
)
from placement_sched.nova.request_spec import document_of
from placement_sched.nova.rpc import dictionaries_of, instances_of, primitives_of
from tests.nova.wire.answers import build_answer, build_selection
from tests.nova.wire.comparison import unify_empty_values

pytestmark = pytest.mark.system


#: Seed of a request with a project.
PROJECT_SEED = 2


class Endpoint:
    """An endpoint that returns a host, or raises for a request without a project."""

    def __init__(self, target):
        self.target = target
        self.documents = []
        self.announced = Queue()

    def select_destinations(
        self, _context, spec_obj=None, instance_uuids=None, return_objects=False, **_more
    ):
        try:
            document = document_of(spec_obj, instance_uuids)
        except Invalid as wrong:
            raise to_remote_failure(wrong) from None
        self.documents.append(document)
        if document.get("project_id") is None:
            raise no_valid_host("It is of no project.")
        chosen = build_answer([build_selection(0), build_selection(1)])
        return primitives_of(chosen) if return_objects else dictionaries_of(chosen)

    def update_aggregates(self, _context, aggregates):
        self.announced.put([one.uuid for one in aggregates_of(aggregates)])

    def delete_aggregate(self, _context, aggregate):
        self.announced.put(aggregate_of(aggregate).uuid)

    def update_instance_info(self, _context, host_name, instance_info):
        self.announced.put((host_name, [one.uuid for one in instances_of(instance_info)]))


@pytest.fixture(scope="module")
def serving(broker):
    library, exchange = oslo_messaging(), f"nova-{uuid4().hex}"
    endpoint = Endpoint(library.Target(version="4.5"))
    conf = cfg.ConfigOpts()
    conf(args=[], default_config_files=[], default_config_dirs=[])
    # The library uses these options only in the process's ConfigOpts.
    tracing = import_module("oslo_messaging._tracing.client").oslo_messaging_tracing
    conf.register_opts(tracing, "oslo_messaging_tracing")
    transport = library.get_rpc_transport(conf, broker)
    target = library.Target(topic="scheduler", server="ours", exchange=exchange)
    server = library.get_rpc_server(transport, target, [endpoint])
    server.start()
    yield exchange, endpoint
    server.stop()
    server.wait(timeout=60)
    transport.cleanup()


@pytest.fixture
def call(nova, broker, serving):
    exchange, endpoint = serving

    def call(seed, *cap):
        endpoint.documents.clear()
        answer = nova("call", broker, exchange, seed, *cap)
        return next(iter(endpoint.documents), None), answer

    return call


def test_nova_client_is_answered(call):
    for seed in range(20):
        document, answer = call(seed)
        flavor = answer["held"]["flavor"]
        assert unify_empty_values(document["flavor"], flavor) == flavor
        if document.get("project_id") is None:
            assert "nova.exception.NoValidHost" in answer["classes"]
            assert answer["words"] == "No valid host was found. It is of no project."
            assert answer["kwargs"]["reason"] == "It is of no project."
        else:
            assert answer["hosts"] == [["cn1", "cn2"]]


@pytest.mark.parametrize("cap", ["pike", "ocata"])
def test_older_clients_are_answered_with_dictionaries(call, cap):
    document, answer = call(PROJECT_SEED, cap)
    assert answer["legacy"] == [{"host": "cn1", "nodename": "node1", "limits": {}}]
    assert document["flavor"]["memory_mb"] == answer["held"]["flavor"]["memory_mb"]


def test_clients_that_send_dictionaries_get_an_error_naming_the_option(call):
    document, answer = call(PROJECT_SEED, "liberty")
    assert document is None
    assert "builtins.ValueError" in answer["classes"]
    assert "[upgrade_levels] scheduler" in answer["text"]


def test_notifications_are_parsed(nova, broker, serving):
    exchange, endpoint = serving
    answer = nova("announce", broker, exchange, 3)
    heard = [endpoint.announced.get(timeout=60) for _ in range(3)]
    assert [answer["aggregate"]] in heard
    assert answer["aggregate"] in heard
    assert ("cn1", [answer["instance"]]) in heard
