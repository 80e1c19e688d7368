# SPDX-License-Identifier: Apache-2.0
"""Recorder of the events of a server, and reports of its hosts.

The reports are computed from all instances of a host, as nova-compute does, and not from the
changes that the run of a trace computes.
"""

import shutil
import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from placement_sched.app import create_app
from placement_sched.extensions.traces.events import Event, format_trace, read_trace
from placement_sched.extensions.traces.runs import RunOptions, Variant, run_trace
from placement_sched.model.hardware.numa import InstanceNUMATopology, NUMACell, NUMATopology
from placement_sched.model.hardware.numa_fit import fit_to_host, with_usage
from tests.conftest import AdminClient, make_settings
from tests.support.scheduling import make_uuid

START = datetime(2026, 11, 1)
SPEC = {"project_id": "p1", "user_id": "u1", "image": None}


def build_topology(cells):
    """Return a reported NUMA topology as a value."""
    return NUMATopology(
        NUMACell(
            id=cell["id"],
            cpuset=frozenset(cell["cpuset"]),
            pcpuset=frozenset(cell["pcpuset"]),
            siblings=tuple(map(frozenset, cell["siblings"])),
            memory=cell["memory"],
        )
        for cell in cells
    )


@dataclass(eq=False)
class TickingClock:
    """A clock of a server, which advances a minute after each event."""

    time: datetime = START

    def __call__(self):
        return self.time

    def advance(self):
        """Return the time, and advance the clock."""
        time, self.time = self.time, self.time + timedelta(minutes=1)
        return time


@dataclass
class Recorder:
    """A client of a server that reports hosts and records events."""

    client: AdminClient
    reports: dict[str, dict]
    clock: TickingClock
    events: list[Event] = field(default_factory=list)
    hosts: dict[str, str] = field(default_factory=dict)
    flavors: dict[str, dict] = field(default_factory=dict)
    cells: dict[str, tuple] = field(default_factory=dict)
    devices: dict[str, str] = field(default_factory=dict)
    number: int = 0

    def report(self, *names):
        """Report hosts with the amounts that their instances use."""
        documents = [self._build_report(name) for name in names or self.reports]
        self.client.post_json("/scheduler/v1/compute_nodes", documents)

    def _build_report(self, name):
        report = self.reports[name]
        flavors = [self.flavors[uuid] for uuid, host in self.hosts.items() if host == name]
        used = {
            "vcpus_used": sum(flavor["vcpus"] for flavor in flavors),
            "memory_mb_used": sum(flavor["memory_mb"] for flavor in flavors),
            "local_gb_used": sum(flavor["root_gb"] for flavor in flavors),
            "stats": {"num_instances": str(len(flavors))},
        }
        if "numa_topology" in report:
            used["numa_topology"] = self._build_used_topology(name)
        if "pci_device_pools" in report:
            used["pci_device_pools"] = self._build_free_pools(name)
        return {**report, **used}

    def _build_free_pools(self, name):
        vendors = [self.devices.get(uuid) for uuid, host in self.hosts.items() if host == name]
        pools = [
            {**pool, "count": pool["count"] - vendors.count(pool["vendor_id"])}
            for pool in self.reports[name]["pci_device_pools"]
        ]
        return [pool for pool in pools if pool["count"]]

    def _build_used_topology(self, name):
        cells = self.reports[name]["numa_topology"]["cells"]
        used = defaultdict(lambda: {"cpu_usage": 0, "memory_usage": 0, "pinned_cpus": set()})
        for uuid, host in self.hosts.items():
            for cell in self.cells.get(uuid, ()) if host == name else ():
                used[cell.id]["memory_usage"] += cell.memory
                used[cell.id]["cpu_usage"] += len(cell.cpuset)
                used[cell.id]["pinned_cpus"] |= cell.host_cpus
        return {
            "cells": [
                {**cell, **used[cell["id"]], "pinned_cpus": sorted(used[cell["id"]]["pinned_cpus"])}
                for cell in cells
            ]
        }

    def _pin(self, uuid, name, request):
        """Pin the CPUs of a new instance, as nova-compute does."""
        if "numa_topology" not in request:
            return
        host = build_topology(self.reports[name]["numa_topology"]["cells"])
        for key, place in self.hosts.items():
            if place == name and key != uuid:
                host = with_usage(host, self.cells[key])
        wanted = InstanceNUMATopology.from_document(request["numa_topology"])
        self.cells[uuid] = fit_to_host(host, wanted)

    def add(self, kind, servers, request=None, decision=None):
        """Add an event of this minute to the trace."""
        self.number += 1
        time = self.clock.advance()
        values = {"kind": kind, "servers": tuple(servers), "request": request}
        self.events.append(Event(line=self.number, time=time, decision=decision, **values))

    def create(self, flavor, count=1, **more):
        """Request servers, and return their uuids, or () without a valid host."""
        uuids = [make_uuid(1000 * len(self.events) + each + 1) for each in range(count)]
        request = {**SPEC, "flavor": flavor, **more}
        selections, decision = self._select({**request, "instance_uuids": uuids}, claim=True)
        self.add("create", uuids, request, decision)
        for uuid, host in zip(uuids, selections, strict=False):
            self._pin(uuid, host, request)
            for each in request.get("pci_requests", {}).get("requests", ()):
                self.devices[uuid] = each["spec"][0]["vendor_id"]
            self.hosts[uuid], self.flavors[uuid] = host, flavor
        self.report(*set(selections))
        return uuids if selections else ()

    def delete(self, uuid):
        """Delete a server."""
        self.client.delete(f"/scheduler/v1/instances/{uuid}")
        self.add("delete", [uuid])
        self.report(self._forget(uuid))

    def resize(self, uuid, flavor):
        """Resize a server to another host, and confirm."""
        self._migrate("resize", uuid, flavor)

    def move(self, uuid):
        """Move a server to another host."""
        self._migrate("move", uuid, self.flavors[uuid])

    def _migrate(self, kind, uuid, flavor):
        old = self.hosts[uuid]
        request = {**SPEC, "flavor": flavor, "ignore_hosts": [old]}
        chosen, decision = self._select({**request, "instance_uuids": [uuid]}, claim="add")
        self.add(kind, [uuid], None if kind == "move" else request, decision)
        if not chosen:
            return
        (host,) = chosen
        self._drop_old_allocations(uuid, decision)
        self.hosts[uuid], self.flavors[uuid] = host, flavor
        record = {"host": host, "node": host, "project_id": "p1", "user_id": "u1"}
        self.client.put_json(f"/scheduler/v1/instances/{uuid}", {**record, "flavor": flavor})
        self.report(old, host)

    def _drop_old_allocations(self, uuid, decision):
        selected = self.client.get(f"/scheduler/v1/decisions/{decision}").json["selections"]
        path = f"/placement/allocations/{uuid}"
        headers = {"OpenStack-API-Version": "placement 1.39"}
        current = self.client.get(path, headers=headers).json
        current["allocations"] = selected[0][0]["allocation_request"]["allocations"]
        self.client.put_json(path, current, headers=headers)

    def read_allocations(self):
        """Return the allocations of the server, by instance, provider and class."""
        headers, allocations = {"OpenStack-API-Version": "placement 1.39"}, {}
        for uuid in self.hosts:
            body = self.client.get(f"/placement/allocations/{uuid}", headers=headers).json
            allocations[uuid] = {
                (provider, name): amount
                for provider, part in body["allocations"].items()
                for name, amount in part["resources"].items()
            }
        return allocations

    def _forget(self, uuid):
        self.cells.pop(uuid, None)
        self.flavors.pop(uuid)
        return self.hosts.pop(uuid)

    def _select(self, request, *, claim):
        response = self.client.post_json(
            "/scheduler/v1/select_destinations",
            {"request_spec": request, "claim": claim},
            expect_errors=True,
        )
        if response.status_int == 409:
            return (), response.json["errors"][0]["decision"]
        assert response.status_int == 200, response.text
        body = response.json
        return [each[0]["service_host"] for each in body["selections"]], body["decision"]


def open_recorder(
    template, folder, reports, prepare=lambda _client: None, read_settings=make_settings, **options
):
    """Return a recorder, and settings for a copy of the first database."""
    path = folder / "server.db"
    shutil.copy(template, path)
    clock = TickingClock()
    app = create_app(read_settings(f"sqlite:///{path}", **options), clock=clock)
    recorder = Recorder(AdminClient(app), {each["host"]: each for each in reports}, clock)
    recorder.report()
    prepare(recorder.client)
    start = folder / "start.db"
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(start)) as target:
        source.backup(target)
    return recorder, read_settings(f"sqlite:///{start}", **options)


def assert_equal_servers(result, recorder):
    """Assert that a run gives the recorded hosts and allocations."""
    servers = result.servers.items()
    assert {uuid: server.host for uuid, server in servers} == recorder.hosts
    assert {uuid: dict(server.amounts) for uuid, server in servers} == recorder.read_allocations()


def run_recorded(recorder, settings, folder, variant=None, seed=0, **options):
    """Run the trace of a recorder on the cloud before its first event."""
    file = folder / "trace.jsonl"
    file.write_text(format_trace(recorder.events))
    with closing(create_app(settings, clock=TickingClock())) as application:
        scheduler = application.services.scheduler
        trace = read_trace(str(file))
        return run_trace(scheduler, trace, variant or Variant("now"), seed, RunOptions(**options))
