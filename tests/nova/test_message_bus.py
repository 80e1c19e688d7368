# SPDX-License-Identifier: Apache-2.0
"""The message bus options of nova.conf are read as oslo.messaging reads them."""

import ssl

import pytest

from placement_sched.errors import ConfigurationError
from placement_sched.nova.message_bus import read_transport

PASSWORD = "s3cret"  # noqa: S105 - of nothing


@pytest.fixture
def read_conf_transport(tmp_path):
    def read_lines(*lines):
        file = tmp_path / "nova.conf"
        file.write_text("\n".join(["[DEFAULT]", *lines]))
        return read_transport([str(file)])

    return read_lines


def test_single_address_has_default_port_and_virtual_host(read_conf_transport):
    transport = read_conf_transport(f"transport_url = rabbit://u:{PASSWORD}@mq/")
    (broker,) = transport.brokers
    assert (str(broker), transport.exchange) == ("mq:5672", "nova")
    assert broker.arguments["userid"] == "u"
    assert broker.arguments["password"] == PASSWORD
    assert (broker.arguments["virtual_host"], broker.arguments["ssl"]) == ("/", False)
    assert PASSWORD not in repr(transport)


def test_several_addresses_share_a_virtual_host(read_conf_transport):
    transport = read_conf_transport("transport_url = rabbit://u:a%40@mq1:1,u:b@mq2:2/cloud%2F1")
    assert list(map(str, transport.brokers)) == ["mq1:1", "mq2:2"]
    assert [broker.arguments["password"] for broker in transport.brokers] == ["a@", "b"]
    assert {one.arguments["virtual_host"] for one in transport.brokers} == {"cloud/1"}


def test_tls_of_the_bus_is_read_from_its_options(read_conf_transport):
    lines = ("transport_url = rabbit://mq/", "[oslo_messaging_rabbit]", "ssl = true")
    assert read_conf_transport(*lines).brokers[0].arguments["ssl"] is True
    files = read_conf_transport(
        *lines, "ssl_ca_file = /ca", "ssl_cert_file = /cert", "ssl_key_file = /key"
    )
    assert files.brokers[0].arguments["ssl"] == {
        "ca_certs": "/ca",
        "cert_reqs": ssl.CERT_REQUIRED,
        "certfile": "/cert",
        "keyfile": "/key",
        "server_hostname": "mq",
    }


def test_url_query_overrides_options(read_conf_transport):
    transport = read_conf_transport("transport_url = rabbit://mq/?ssl=1&ssl_ca_file=/ca")
    assert transport.brokers[0].arguments["ssl"]["ca_certs"] == "/ca"


def test_exchange_has_the_name_and_durability_of_control_exchange(read_conf_transport):
    url = "transport_url = rabbit://mq/"
    transport = read_conf_transport(url, "control_exchange = cloud2")
    assert (transport.exchange, transport.is_durable) == ("cloud2", False)
    durable = read_conf_transport(url, "[oslo_messaging_rabbit]", "amqp_durable_queues = true")
    assert durable.is_durable


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "[DEFAULT] transport_url is not set"),
        (f"transport_url = {PASSWORD}", "[DEFAULT] transport_url is not a URL of a message bus"),
        (
            f"transport_url = rabbit://u:{PASSWORD}@mq:port/",
            "[DEFAULT] transport_url is not a URL of a message bus",
        ),
        ("transport_url = kafka://mq/", "[DEFAULT] transport_url: kafka is not RabbitMQ"),
    ],
)
def test_unsupported_transport_is_a_one_line_error(read_conf_transport, line, words):
    with pytest.raises(ConfigurationError) as refused:
        read_conf_transport(line)
    assert refused.value.detail.startswith(words)
    assert PASSWORD not in refused.value.detail
