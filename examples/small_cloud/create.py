# SPDX-License-Identifier: Apache-2.0
"""Databases of nova and OpenStack placement with ``cloud.yaml``.

The working directory gets ``placement.db``, ``nova_api.db``, ``nova_cell0.db``, ``nova_cell1.db``,
``nova.conf`` and ``placement.conf``. Nova's tables have only the columns that are read.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, MetaData, RowMapping, create_engine, text

from placement_sched.nova.databases.tables import API, CELL

CLOUD = Path(__file__).with_name("cloud.yaml")
PLACEMENT_URL = "sqlite:///placement.db"
#: The revision of placement's schema since 2023.2.
REVISION = "a082b8bb98d0"
CELL_UUIDS = {
    "cell0": "00000000-0000-0000-0000-000000000000",
    "cell1": "c1a0e0ab-9d0b-4f1b-8f5c-3a2f6c1d7e10",
}
NOVA_CONF = """\
[DEFAULT]
transport_url = fake://
[api_database]
connection = sqlite:///nova_api.db
[database]
connection = sqlite:///nova_cell1.db
"""
PLACEMENT_CONF = f"""\
[placement_database]
connection = {PLACEMENT_URL}
[api]
auth_strategy = noauth2
"""
NOW = datetime.now(UTC).replace(microsecond=0, tzinfo=None)


class NovaDatabases:
    """Nova's API database, cell0 and a cell."""

    def __init__(self) -> None:
        self.api = self._create("api", API)
        self.cells = {name: self._create(name, CELL) for name in CELL_UUIDS}
        self._cell_ids = {
            name: self._add(
                self.api,
                "cell_mappings",
                {"uuid": uuid, "name": name, "disabled": False}
                | {"database_connection": f"sqlite:///nova_{name}.db"},
            )
            for name, uuid in CELL_UUIDS.items()
        }

    @staticmethod
    def _create(name: str, metadata: MetaData) -> Connection:
        connection = create_engine(f"sqlite:///nova_{name}.db").connect()
        metadata.create_all(connection)
        return connection

    def _add(self, database: Connection, table_name: str, values: Mapping[Any, Any]) -> int:
        table = (API if database is self.api else CELL).tables[table_name]
        row = {"deleted": 0, **values, "created_at": NOW, "updated_at": NOW}
        columns = {name: value for name, value in row.items() if name in table.c}
        key = database.execute(table.insert().values(columns)).inserted_primary_key
        return int(key[0]) if key else 0

    def add_host(self, node: RowMapping, service: RowMapping) -> None:
        """Insert a compute node with its service."""
        report = json.loads(node["report"])
        report |= {name: json.dumps(report[name]) for name in ("stats", "metrics")}
        report |= {"numa_topology": None, "uuid": node["uuid"], "host": node["host"]}
        report |= {"hypervisor_hostname": node["hypervisor_hostname"]}
        self._add(self.cells["cell1"], "compute_nodes", report)
        heartbeat = {"topic": "compute", "version": 66, "last_seen_up": NOW}
        self._add(self.cells["cell1"], "services", {**service, **heartbeat})
        mapping = {"host": node["host"], "cell_id": self._cell_ids["cell1"]}
        self._add(self.api, "host_mappings", mapping)

    def add_server(self, instance: RowMapping) -> None:
        """Insert a server. A server without a host is in cell0."""
        cell, owner = "cell1" if instance["host"] else "cell0", {"instance_uuid": instance["uuid"]}
        flavor = json.loads(instance["flavor"]) | {"flavorid": instance["flavorid"]}
        stored = build_nova_object("Flavor", "1.2", flavor)
        sizes = {name: flavor[name] for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")}
        values = {**instance, **sizes, "hidden": False}
        self._add(self.cells[cell], "instances", values)
        extra = {"flavor": json.dumps({"cur": stored, "old": None, "new": None})}
        self._add(self.cells[cell], "instance_extra", owner | extra)
        mapping = {"cell_id": self._cell_ids[cell], "queued_for_delete": False}
        self._add(self.api, "instance_mappings", owner | mapping)
        if not instance["host"]:
            request = owner | json.loads(instance["request"]) | {"scheduler_hints": None}
            request |= {"project_id": instance["project_id"], "user_id": instance["user_id"]}
            request |= {"flavor": stored, "num_instances": 1}
            spec = json.dumps(build_nova_object("RequestSpec", "1.14", request))
            self._add(self.api, "request_specs", owner | {"spec": spec})

    def add_aggregate_row(self, table_name: str, row: RowMapping) -> None:
        """Insert a host aggregate, its metadata or its members."""
        self._add(self.api, table_name, row)

    def commit(self) -> None:
        """Commit all rows."""
        for connection in (self.api, *self.cells.values()):
            connection.commit()


def build_nova_object(name: str, version: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return an object as nova stores it."""
    header = {"name": name, "namespace": "nova", "version": version, "data": data}
    return {f"nova_object.{key}": value for key, value in header.items()}


def load_cloud() -> None:
    """Load the fleet file into ``placement.db``."""
    environment = {**os.environ, "OS_PLACEMENT_DATABASE__CONNECTION": PLACEMENT_URL}
    command = [sys.executable, "-m", "placement_sched", "fleet", "load", str(CLOUD)]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True, timeout=600)


def remove_own_tables(placement: Connection) -> None:
    """Leave only the schema of OpenStack placement."""
    for kind in ("trigger", "table"):
        query = f"SELECT name FROM sqlite_master WHERE type = '{kind}' AND name LIKE '%sched_%'"
        for name in placement.scalars(text(query)).all():
            placement.execute(text(f"DROP {kind} {name}"))
    placement.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
    placement.execute(text(f"INSERT INTO alembic_version VALUES ('{REVISION}')"))


def main() -> None:
    """Create all files."""
    if existing := [*Path().glob("placement.*"), *Path().glob("nova*")]:
        sys.exit(f"{existing[0]} exists: run this in an empty directory")
    load_cloud()
    placement, nova = create_engine(PLACEMENT_URL).connect(), NovaDatabases()

    def read_rows(table_name: str) -> list[RowMapping]:
        return list(placement.execute(text(f"SELECT * FROM sched_{table_name}")).mappings())

    services = {service["host"]: service for service in read_rows("services")}
    for node in read_rows("compute_nodes"):
        nova.add_host(node, services[node["host"]])
    for instance in read_rows("instances"):
        nova.add_server(instance)
    for table_name in ("aggregates", "aggregate_metadata", "aggregate_hosts"):
        for row in read_rows(table_name):
            nova.add_aggregate_row(table_name, row)
    nova.commit()
    remove_own_tables(placement)
    placement.commit()
    Path("nova.conf").write_text(NOVA_CONF, encoding="utf-8")
    Path("placement.conf").write_text(PLACEMENT_CONF, encoding="utf-8")


if __name__ == "__main__":
    main()
