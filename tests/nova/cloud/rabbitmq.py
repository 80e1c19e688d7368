# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ that a test can stop and start."""

import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from amqp.exceptions import NotFound
from kombu import Connection

from tests.conftest import IS_BROKER_REQUIRED
from tests.nova.cloud.processes import Program
from tests.support.loopback import reserve_port
from tests.support.servers import wait_until

#: Debian's server program. The script in the path runs for root and rabbitmq only.
DEBIAN_SERVER_PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class RabbitMQ:
    """A broker with its own data, ports and name server (epmd)."""

    def __init__(self, folder: Path, ports: tuple[int, int, int]) -> None:
        self.port, distribution, names = ports
        folder.mkdir()
        (folder / "enabled_plugins").write_text("[].\n")
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.local = 127.0.0.1:{self.port}\nlog.console = true\n"
        )
        variables = {
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"cloud{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none.conf"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_LOGS": "-",
        }
        (folder / "none.conf").touch()
        epmd = shutil.which("epmd") or "epmd"
        self.names = Program("epmd", [epmd, "-address", "127.0.0.1"], folder, variables)
        self.server = Program("rabbitmq", [_find_server_program()], folder, variables)

    @property
    def url(self) -> str:
        return f"rabbit://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> None:
        self.server.start()

    def wait_until_ready(self) -> None:
        assert wait_until(self._is_responding, 180), self.server.read_log_tail()

    def restart(self) -> None:
        self.server.kill()
        self.start()
        self.wait_until_ready()

    def _is_responding(self) -> bool:
        process = self.server.process
        assert process is not None
        assert process.poll() is None, self.server.read_log_tail()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as client:
                # The server answers another protocol version with the header of its own.
                client.sendall(b"AMQP\x00\x00\x00\x00")
                return client.recv(4) == b"AMQP"
        except OSError:
            return False


def has_consumer(url: str, queue: str) -> bool:
    """Return whether a service receives the messages of a queue, such as ``compute.cn1``."""
    with Connection(url.replace("rabbit://", "amqp://")) as connection:
        try:
            declared = connection.default_channel.queue_declare(queue, passive=True)
        except NotFound:
            return False
        return int(declared.consumer_count) > 0


def _find_server_program() -> str:
    return (
        str(DEBIAN_SERVER_PROGRAM)
        if DEBIAN_SERVER_PROGRAM.exists()
        else shutil.which("rabbitmq-server") or ""
    )


@contextmanager
def run_private_rabbitmq(folder: Path) -> Iterator[RabbitMQ]:
    if not _find_server_program():
        assert not IS_BROKER_REQUIRED, "there is no rabbitmq-server"
        pytest.skip("RabbitMQ is not installed here: there is no rabbitmq-server")
    with ExitStack() as stack:
        ports = tuple(stack.enter_context(reserve_port()).getsockname()[1] for _ in range(3))
        broker = RabbitMQ(folder, (ports[0], ports[1], ports[2]))
        stack.callback(broker.names.kill)
        stack.callback(broker.server.kill)
        broker.names.start()
        broker.start()
        yield broker
