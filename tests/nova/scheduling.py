# SPDX-License-Identifier: Apache-2.0
"""A nova in SQLite files, ``placement-sched nova-scheduler`` on it, and a conductor."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from sqlalchemy import create_engine

from placement_sched.app import Application, create_app
from placement_sched.config.options.services import import_oslo_messaging
from placement_sched.nova.objects import build_primitive
from tests.conftest import AdminClient, make_settings
from tests.nova.cloud.rabbitmq import has_consumer, run_private_rabbitmq
from tests.nova.service_records import SERVICES_TABLE
from tests.support import program
from tests.support.conformance import CheckedApplication
from tests.support.nova_clouds import NovaCloud, create_sqlite_nova
from tests.support.scheduling import make_report
from tests.support.servers import build_environment, read_whole_lines, wait_until

SERVICE_START_LOG_TEXT = "placement-sched nova-scheduler serves "
OSLO_MESSAGING = import_oslo_messaging()
#: Modules of the exceptions that nova's clients raise from a response.
REMOTE_EXCEPTION_MODULES = [
    "nova.exception",
    "oslo_messaging.rpc.dispatcher",
    "placement_sched.nova.objects",
]
_LOG_KEYS = ("message", "levelname")


@contextmanager
def create_private_bus(broker: str) -> Iterator[str]:
    """Yield the URL of a private bus, since nova's names of queues are fixed.

    It is a virtual host of the broker, or another broker if rabbitmqctl may not create virtual
    hosts.
    """
    name, control = f"test-{uuid4().hex[:12]}", shutil.which("rabbitmqctl")

    def run_rabbitmqctl(*words: str) -> bool:
        done = subprocess.run([str(control), *words], capture_output=True, check=False, timeout=120)
        return done.returncode == 0

    if control is not None and run_rabbitmqctl("add_vhost", name):
        try:
            assert run_rabbitmqctl("set_permissions", "-p", name, "guest", ".*", ".*", ".*")
            yield f"{broker.rstrip('/')}/{name}"
        finally:
            run_rabbitmqctl("delete_vhost", name)
        return
    with TemporaryDirectory() as folder, run_private_rabbitmq(Path(folder) / "rabbitmq") as own:
        own.wait_until_ready()
        yield own.url


def build_request_spec_primitive(
    *instances: str, memory_mb: int = 512, **fields: Any
) -> dict[str, Any]:
    sizes = {"vcpus": 1, "memory_mb": memory_mb, "root_gb": 1, "ephemeral_gb": 0, "swap": 0}
    flavor = {"id": 1, "flavorid": "1", "name": "m1.tiny", "extra_specs": {}, **sizes}
    image = {"id": str(uuid4()), "properties": build_primitive("ImageMetaProps", {})}
    return build_primitive(
        "RequestSpec",
        {
            "project_id": "demo",
            "user_id": "ann",
            "num_instances": len(instances),
            "instance_uuid": instances[0],
            "flavor": build_primitive("Flavor", flavor),
            "image": build_primitive("ImageMeta", image),
            "is_bfv": False,
            **fields,
        },
    )


class Conductor:
    """Calls a scheduler as nova-conductor does, with oslo.messaging."""

    def __init__(self, url: str, exchange: str = "nova") -> None:
        conf = OSLO_MESSAGING.LoggingNotificationHandler.CONF
        conf(args=[], default_config_files=[], default_config_dirs=[])
        self._transport = OSLO_MESSAGING.get_rpc_transport(
            conf, url, allowed_remote_exmods=REMOTE_EXCEPTION_MODULES
        )
        target = OSLO_MESSAGING.Target(topic="scheduler", exchange=exchange, version="4.0")
        self._client = OSLO_MESSAGING.get_rpc_client(self._transport, target)
        self._threads = ThreadPoolExecutor(64)

    def call(self, method: str, version: str = "4.5", *, timeout: int = 120, **sent: Any) -> Any:
        context = {"request_id": sent.pop("request_id", None) or f"req-{uuid4()}"}
        names = ("user_id", "project_id", "is_admin")
        context |= {name: sent.pop(name) for name in names if name in sent}
        namespace = sent.pop("namespace", None)
        to = self._client.prepare(
            version=version, timeout=timeout, call_monitor_timeout=60, namespace=namespace
        )
        return to.call(context, method, **sent)

    def select_destinations(self, *instances: str, **fields: Any) -> Any:
        return self.call(
            "select_destinations",
            spec_obj=build_request_spec_primitive(*instances, **fields),
            instance_uuids=list(instances),
            return_objects=True,
        )

    def begin_selection(self, *instances: str, **fields: Any) -> Future[Any]:
        return self._threads.submit(self.select_destinations, *instances, **fields)

    def fanout_cast(self, method: str, version: str, **sent: Any) -> None:
        self._client.prepare(version=version, fanout=True).cast({}, method, **sent)

    def cast(self, method: str, context: dict[str, Any] | None = None, **sent: Any) -> None:
        self._client.prepare(version="4.5").cast(context or {}, method, **sent)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._transport.cleanup()


def list_selected_hosts(result: Sequence[Sequence[dict[str, Any]]]) -> list[str]:
    return [selections[0]["nova_object.data"]["service_host"] for selections in result]


class SchedulerService:
    """A running ``placement-sched nova-scheduler``."""

    def __init__(self, process: program.Process, log: Path) -> None:
        self.process, self.log = process, log

    def list_worker_pids(self) -> list[int]:
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(word) for file in threads for word in file.read_text().split()]

    def read_log_lines(self, part: str) -> list[str]:
        return [line for line in read_whole_lines(self.log) if part in line]

    def read_log_records(self, part: str) -> list[dict[str, Any]]:
        """Return the fields of log lines in JSON, and ``message`` and ``levelname``."""
        rows = map(json.loads, self.read_log_lines(part))
        return [{**row["extra"], **{key: row[key] for key in _LOG_KEYS}} for row in rows]

    def wait_for_log_line(self, part: str, count: int = 1) -> str:
        assert wait_until(lambda: len(self.read_log_lines(part)) >= count, 120), (
            self.log.read_text()
        )
        return self.read_log_lines(part)[-1]

    def stop_with_signal(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=120)

    def kill(self) -> None:
        for pid in (self.process.pid, *self.list_worker_pids()):
            os.kill(pid, signal.SIGKILL)


class NovaDeployment:
    """A nova with a cell, this service's database, and the services that use them."""

    def __init__(self, folder: Path, bus: str, url: str, application: Application) -> None:
        self.folder, self.bus, self.url = folder, bus, url
        self.nova: NovaCloud = create_sqlite_nova(folder, "one")
        #: Database of the service records, since the tables of ``nova`` lack columns.
        self.service_records_engine = create_engine(f"sqlite:///{folder}/nova_records.db")
        SERVICES_TABLE.create(self.service_records_engine)
        self.app = AdminClient(CheckedApplication(application))
        self.conductor = Conductor(bus)
        self._stack = ExitStack()
        self._started = 0

    def add_host(self, name: str) -> None:
        uuid = self.nova.add_host(name)
        body = make_report(name, uuid=uuid)
        self.app.post_json("/scheduler/v1/compute_nodes", [body])

    def write_configuration(self, host: str, **options: str) -> Path:
        written = {
            "DEFAULT__transport_url": self.bus,
            "DEFAULT__host": host,
            "DEFAULT__report_interval": "1",
            "DEFAULT__service_down_time": "86400",
            "api_database__connection": self.nova.api.url,
            "database__connection": self.service_records_engine.url.render_as_string(),
            "placement_database__connection": self.url,
            "oslo_messaging_rabbit__kombu_reconnect_delay": "0.2",
            **options,
        }
        file = self.folder / f"{host}.conf"
        lines: dict[str, list[str]] = {}
        for key, value in written.items():
            group, _, name = key.partition("__")
            lines.setdefault(group, []).append(f"{name} = {value}")
        parts = (f"[{group}]\n" + "\n".join(rows) for group, rows in lines.items())
        file.write_text("\n".join(parts))
        return file

    def start_scheduler(
        self, host: str = "ctl1", workers: int = 2, **options: str
    ) -> SchedulerService:
        self._started += 1
        log = self.folder / f"{host}.{self._started}.log"
        file = self.write_configuration(host, **options)
        with log.open("w") as output, Path(os.devnull).open() as nothing:
            process = program.start_program(
                ["nova-scheduler", "--config-file", file, "--workers", workers],
                cwd=self.folder,
                env=build_environment(),
                streams=[nothing, output, output],
            )
        service = SchedulerService(process, log)
        self._stack.callback(self._stop_service, service)
        service.wait_for_log_line(SERVICE_START_LOG_TEXT)
        return service

    def _stop_service(self, service: SchedulerService) -> None:
        if service.process.poll() is None:
            service.process.send_signal(signal.SIGTERM)
            try:
                service.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                service.kill()

    def is_queue_consumed(self) -> bool:
        return has_consumer(self.bus, "scheduler")

    def read_allocations(self, instance: str) -> dict[str, Any]:
        return dict(self.app.get(f"/placement/allocations/{instance}").json["allocations"])

    def list_recorded_instances(self, *instances: str) -> list[str]:
        paths = {uuid: f"/scheduler/v1/instances/{uuid}" for uuid in instances}
        return [uuid for uuid in paths if self.app.get(paths[uuid], status="*").status_int == 200]

    def close(self) -> None:
        self._stack.close()
        self.conductor.close()
        self.nova.close()
        self.service_records_engine.dispose()


@dataclass(frozen=True)
class SharedSchedulerService:
    """A site and its running service, for the tests of a module that do not stop the service."""

    deployment: NovaDeployment
    service: SchedulerService
    metrics_url: str


@contextmanager
def run_shared_scheduler_service(
    folder: Path, broker: str, template: Path
) -> Iterator[SharedSchedulerService]:
    """Yield a service with logs in JSON, a log line for each call, metrics and no sync rounds."""
    with (
        create_private_bus(broker) as bus,
        open_nova_deployment_with_two_hosts(folder, bus, template) as deployment,
    ):
        # This host cannot be recorded.
        deployment.nova.add_host("cn0", free_disk_gb=None)
        options = {
            "DEFAULT__use_json": "true",
            "api__slow_request_seconds": "0.000001",
            "scheduler__metrics_listen": "127.0.0.1:0",
            "scheduler__nova_sync_interval": "3600",
        }
        service = deployment.start_scheduler(**options)
        (line,) = service.read_log_lines(", metrics at ")
        yield SharedSchedulerService(deployment, service, f"http://{line.rpartition(' ')[2]}")


@contextmanager
def open_nova_deployment_with_two_hosts(
    folder: Path, bus: str, template: Path
) -> Iterator[NovaDeployment]:
    """Yield a nova with the hosts cn1 and cn2, without a running scheduler."""
    url = f"sqlite:///{shutil.copy(template, folder / 'placement_sched.db')}"
    with (
        closing(create_app(make_settings(url))) as application,
        closing(NovaDeployment(folder, bus, url, application)) as deployment,
    ):
        deployment.add_host("cn1")
        deployment.add_host("cn2")
        yield deployment


def wait_until_true(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
