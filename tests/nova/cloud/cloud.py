# SPDX-License-Identifier: Apache-2.0
"""A nova cloud on this service: nova's programs, RabbitMQ and databases."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from sqlalchemy import make_url

from tests.differential.comparison import PEER_PYTHON, skip_without_peer
from tests.nova.cloud.files import (
    API_PASTE_INI_TEXT,
    COMPUTE_VERSION,
    CloudAddresses,
    build_compute_conf,
    build_nova_conf,
    build_placement_sched_conf,
    format_clouds_yaml,
    write_options,
)
from tests.nova.cloud.neutron import respond_without_ports
from tests.nova.cloud.processes import Program
from tests.nova.cloud.rabbitmq import RabbitMQ, run_private_rabbitmq
from tests.support.empty_databases import empty_database
from tests.support.loopback import reserve_port, serve_application
from tests.support.servers import PROGRAMS_FOLDER

PEER_FOLDER = Path(__file__).with_name("peer")
COMPUTE_HOSTS = ("cn1", "cn2")
NOVA_PROGRAMS_FOLDER = PEER_PYTHON.parent
#: Interpreter of the nova-computes, which may be of another release, as in a rolling upgrade.
COMPUTE_PYTHON = Path(os.environ.get("PLACEMENT_SCHED_COMPUTE_PYTHON", PEER_PYTHON))
PLACEMENT_VERSION = "1.39"
#: Seconds between two polls. More polls would keep nova-api busy.
POLL_SECONDS = 0.2


class Cloud:
    """The programs of a running cloud, which a test can stop and start."""

    def __init__(self, folder: Path, addresses: CloudAddresses, broker: RabbitMQ) -> None:
        self.folder, self.addresses, self.broker = folder, addresses, broker
        self.nova_conf = write_options(folder / "nova.conf", build_nova_conf(addresses, folder))
        self.own_conf = write_options(folder / "own.conf", build_placement_sched_conf(addresses))
        (folder / "api-paste.ini").write_text(API_PASTE_INI_TEXT)
        (folder / "clouds.yaml").write_text(format_clouds_yaml(addresses))
        self._variables = {"PYTHONPATH": str(PEER_FOLDER), "HOME": str(folder)}
        own = [PROGRAMS_FOLDER / "placement-sched"]
        files = ["--config-file", self.nova_conf]
        ours = [*files, "--config-file", self.own_conf]
        _, _, port = addresses.placement_sched.rpartition(":")
        serve = [*own, "serve", "--port", port, "--config-file", self.own_conf]
        self.placement = Program("placement-sched", serve, folder)
        self.api = self._make_api_program()
        self.conductor = self._make_nova_program("nova-conductor", *files)
        self.computes = {host: self._make_compute_program(host) for host in COMPUTE_HOSTS}
        self.nova_scheduler = self._make_nova_program("nova-scheduler", *files)
        command = [*own, "nova-scheduler", *ours]
        self.our_scheduler = Program("placement-sched-nova-scheduler", command, folder)

    @property
    def programs(self) -> list[Program]:
        schedulers = [self.nova_scheduler, self.our_scheduler]
        return [*self.computes.values(), self.conductor, self.api, *schedulers, self.placement]

    def start_programs(self, cell0: str, report_step: Callable[[str], None]) -> None:
        self.placement.start()
        report_step("nova's databases")
        job = self._make_peer_program(
            "databases", PEER_FOLDER / "prepare.py", "databases", self.nova_conf, cell0
        )
        job.run()
        self.broker.wait_until_ready()
        report_step("nova-api, nova-conductor and two nova-computes")
        for program in (self.conductor, self.api, *self.computes.values()):
            program.start()
        wait_for_condition("both hosts are registered", self._are_hosts_registered, self)
        self._make_peer_program("hosts", PEER_FOLDER / "prepare.py", "hosts", self.nova_conf).run()
        wait_for_condition(
            "both hosts are mapped",
            lambda: set(self.read_uuids_by_hypervisor()) == set(COMPUTE_HOSTS),
            self,
        )

    def start_scheduler(self, scheduler: Program) -> None:
        """Start a scheduler and wait until nova lists a scheduler.

        RabbitMQ drops nova's calls until the first scheduler has declared the queue.
        """
        scheduler.start()
        wait_for_condition(
            f"{scheduler.name} is up", lambda: self.read_services_by_host("nova-scheduler"), self
        )

    def heal_with_nova_manage(self) -> None:
        """Create missing allocations with nova-manage placement heal_allocations."""
        self._make_peer_program("heal", PEER_FOLDER / "prepare.py", "heal", self.nova_conf).run()

    def request_compute_api(self, method: str, path: str, body: Any = None) -> Any:
        return self._request_json(
            method, self.addresses.compute_api + path, body, f"compute {COMPUTE_VERSION}"
        )

    def post_server(self, server: Any) -> tuple[Mapping[str, str], Any]:
        url, version = f"{self.addresses.compute_api}/servers", f"compute {COMPUTE_VERSION}"
        headers, result = self._send_request("POST", url, {"server": server}, version)
        return headers, result["server"]

    def request_placement_sched(self, method: str, path: str, body: Any = None) -> Any:
        version = f"placement {PLACEMENT_VERSION}"
        return self._request_json(method, self.addresses.placement_sched + path, body, version)

    def read_uuids_by_hypervisor(self) -> dict[str, str]:
        hypervisors = self.request_compute_api("GET", "/os-hypervisors")["hypervisors"]
        return {each["hypervisor_hostname"]: each["id"] for each in hypervisors}

    def read_services_by_host(self, binary: str) -> dict[str, dict[str, Any]]:
        services = self.request_compute_api("GET", f"/os-services?binary={binary}")["services"]
        return {service["host"]: service for service in services}

    def read_last_heartbeats_by_service(self) -> dict[str, str]:
        services = self.request_compute_api("GET", "/os-services")["services"]
        return {
            f"{service['binary']} {service['host']}": service["updated_at"] or ""
            for service in services
        }

    def have_all_services_reported_since(self, before: Mapping[str, str]) -> bool:
        seen = self.read_last_heartbeats_by_service()
        return all(seen[name] > when for name, when in before.items())

    def read_last_log_lines(self) -> str:
        programs = [*self.programs, self.broker.server]
        return "\n".join(program.read_log_tail() for program in programs)

    def _are_hosts_registered(self) -> bool:
        self.check_programs_run()
        try:
            services = self.read_services_by_host("nova-compute")
            providers = self.request_placement_sched("GET", "/placement/resource_providers")[
                "resource_providers"
            ]
        except OSError:
            return False
        up = {host for host, service in services.items() if service["state"] == "up"}
        return up == set(COMPUTE_HOSTS) and len(providers) == len(COMPUTE_HOSTS)

    def check_programs_run(self) -> None:
        for program in self.programs:
            ended = program.process is not None and program.process.poll() is not None
            assert not ended, program.read_log_tail()

    def _make_api_program(self) -> Program:
        _, _, port = self.addresses.compute_api.removesuffix("/v2.1").rpartition(":")
        variables = {"OS_NOVA_CONFIG_DIR": str(self.folder)}
        return self._make_peer_program("nova-api", PEER_FOLDER / "api.py", port, **variables)

    def _make_compute_program(self, host: str) -> Program:
        state = self.folder / host
        state.mkdir()
        shared = build_compute_conf(self.addresses, self.folder)
        own = {"host": host, "state_path": str(state)}
        options = {**shared, "DEFAULT": {**shared["DEFAULT"], **own}}
        file = write_options(self.folder / f"nova-{host}.conf", options)
        command = [COMPUTE_PYTHON, PEER_FOLDER / "compute.py", "--config-file", file]
        return Program(f"nova-compute-{host}", command, self.folder, self._variables)

    def _make_nova_program(self, program: str, *arguments: str | Path) -> Program:
        return Program(
            program, [NOVA_PROGRAMS_FOLDER / program, *arguments], self.folder, self._variables
        )

    def _make_peer_program(self, name: str, *arguments: str | Path, **more: str) -> Program:
        command = [PEER_PYTHON, *arguments]
        return Program(name, command, self.folder, {**self._variables, **more})

    def _request_json(self, method: str, url: str, body: Any, version: str) -> Any:
        return self._send_request(method, url, body, version)[1]

    @staticmethod
    def _send_request(
        method: str, url: str, body: Any, version: str
    ) -> tuple[Mapping[str, str], Any]:
        headers = {
            "X-Auth-Token": "admin",
            "Content-Type": "application/json",
            "OpenStack-API-Version": version,
        }
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(url, data, headers, method=method), timeout=120) as response:
                return dict(response.headers), json.loads(response.read() or b"null")
        except HTTPError as rejection:
            with rejection:
                text = rejection.read().decode(errors="replace")
            raise ConnectionError(f"{method} {url}: {rejection.code} {text}") from None


def wait_for_condition(
    what: str, true: Callable[[], object], cloud: Cloud, seconds: float = 240
) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not in {seconds} s: {what}\n{cloud.read_last_log_lines()}"
        time.sleep(POLL_SECONDS)


@contextmanager
def run_nova_cloud(
    folder: Path, kind: str, report_step: Callable[[str], None] = lambda _: None
) -> Iterator[Cloud]:
    skip_without_peer()
    with ExitStack() as stack:
        report_step("RabbitMQ")
        broker = stack.enter_context(run_private_rabbitmq(folder / "rabbitmq"))
        urls = [stack.enter_context(empty_database(kind, folder)) for _ in range(4)]
        network = stack.enter_context(serve_application(respond_without_ports))
        compute, sched = (
            f"http://127.0.0.1:{stack.enter_context(reserve_port()).getsockname()[1]}"
            for _ in range(2)
        )
        api, cell0, cell1 = (_replace_driver_for_nova(url) for url in urls[:3])
        addresses = CloudAddresses(
            api, cell1, urls[3], broker.url, f"{compute}/v2.1", sched, network
        )
        cloud = Cloud(folder, addresses, broker)
        for program in cloud.programs:
            stack.callback(program.kill)
        cloud.start_programs(cell0, report_step)
        yield cloud


def _replace_driver_for_nova(url: str) -> str:
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg2")
    return parsed.render_as_string(hide_password=False)
