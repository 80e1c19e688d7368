# SPDX-License-Identifier: Apache-2.0
"""nova's message bus is read from nova.conf as oslo.messaging reads it."""

import ssl

import pytest

from placement_sched.errors import ConfigurationError
from placement_sched.nova.shadow.tap import read_transport

SECRET = "s3cret"  # noqa: S105 - of nothing


@pytest.fixture
def read(tmp_path):
    def reading(*lines):
        file = tmp_path / "nova.conf"
        file.write_text("\n".join(["[DEFAULT]", *lines]))
        return read_transport([str(file)])

    return reading


def test_one_address_has_rabbitmqs_port_and_host(read):
    transport = read(f"transport_url = rabbit://u:{SECRET}@mq/")
    (broker,) = transport.brokers
    assert (str(broker), transport.exchange) == ("mq:5672", "nova")
    assert broker.arguments["userid"] == "u"
    assert broker.arguments["password"] == SECRET
    assert (broker.arguments["virtual_host"], broker.arguments["ssl"]) == ("/", False)
    assert SECRET not in repr(transport)


def test_several_addresses_share_a_virtual_host(read):
    transport = read("transport_url = rabbit://u:a%40@mq1:1,u:b@mq2:2/cloud%2F1")
    assert list(map(str, transport.brokers)) == ["mq1:1", "mq2:2"]
    assert [one.arguments["password"] for one in transport.brokers] == ["a@", "b"]
    assert {one.arguments["virtual_host"] for one in transport.brokers} == {"cloud/1"}


def test_tls_is_read_from_its_options(read):
    lines = ("transport_url = rabbit://mq/", "[oslo_messaging_rabbit]", "ssl = true")
    assert read(*lines).brokers[0].arguments["ssl"] is True
    files = read(*lines, "ssl_ca_file = /ca", "ssl_cert_file = /cert", "ssl_key_file = /key")
    assert files.brokers[0].arguments["ssl"] == {
        "ca_certs": "/ca",
        "cert_reqs": ssl.CERT_REQUIRED,
        "certfile": "/cert",
        "keyfile": "/key",
        "server_hostname": "mq",
    }


def test_query_of_the_url_wins(read):
    transport = read("transport_url = rabbit://mq/?ssl=1&ssl_ca_file=/ca")
    assert transport.brokers[0].arguments["ssl"]["ca_certs"] == "/ca"


def test_exchange_is_control_exchange_and_as_durable_as_nova_makes_it(read):
    url = "transport_url = rabbit://mq/"
    transport = read(url, "control_exchange = cloud2")
    assert (transport.exchange, transport.is_durable) == ("cloud2", False)
    durable = read(url, "[oslo_messaging_rabbit]", "amqp_durable_queues = true")
    assert durable.is_durable


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "[DEFAULT] transport_url is not set"),
        (f"transport_url = {SECRET}", "[DEFAULT] transport_url is not a URL of a message bus"),
        (
            f"transport_url = rabbit://u:{SECRET}@mq:port/",
            "[DEFAULT] transport_url is not a URL of a message bus",
        ),
        ("transport_url = kafka://mq/", "[DEFAULT] transport_url: kafka is not RabbitMQ"),
    ],
)
def test_what_cannot_be_tapped_is_said_in_one_line(read, line, said):
    with pytest.raises(ConfigurationError) as refused:
        read(line)
    assert refused.value.detail.startswith(said)
    assert SECRET not in refused.value.detail
