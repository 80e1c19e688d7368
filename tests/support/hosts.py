# SPDX-License-Identifier: Apache-2.0
"""Hosts, providers, instances and flavors, written without the APIs."""

from uuid import uuid4

from sqlalchemy import insert, update

from placement_sched.db.tables import compute_nodes, instances, resource_providers, services
from placement_sched.db.transaction import Database
from placement_sched.model.flavor import Flavor
from placement_sched.schemas.node_report import Defaults, parse
from placement_sched.store.compute import flavors
from placement_sched.store.compute.compute_nodes import build_row
from tests.support.reports import NOW, build_report


def add_node(database: Database, host: str, node: str | None = None, *, provider=True) -> str:
    """Add a compute node with its root provider and return its uuid."""
    uuid, name = str(uuid4()), node or host
    report = build_report(uuid=uuid, host=host, hypervisor_hostname=name)

    def write_rows(connection):
        connection.execute(
            insert(compute_nodes),
            # All columns, since readers in background threads see the row, too.
            {**build_row(parse(report, Defaults(now=NOW)).node), "version": 1},
        )
        if provider:
            connection.execute(
                insert(resource_providers),
                {"uuid": uuid, "name": f"{host}-{name}", "generation": 0},
            )
            connection.execute(
                update(resource_providers)
                .where(resource_providers.c.uuid == uuid)
                .values(root_provider_id=resource_providers.c.id)
            )

    database.write(write_rows)
    return uuid


def add_service(database: Database, host: str, binary: str = "nova-compute") -> None:
    row = {"uuid": str(uuid4()), "host": host, "binary": binary, "last_seen_up": NOW}
    database.write(lambda connection: connection.execute(insert(services), row))


def add_instance(database: Database, host: str) -> None:
    row = {"uuid": str(uuid4()), "host": host, "node": host, "display_name": "one"}
    database.write(lambda connection: connection.execute(insert(instances), row))


def add_flavor(database, name, *required, private=False):
    specs = {f"trait:{trait}": "required" for trait in required}

    def write_rows(connection):
        flavors.add_many(connection, [Flavor(flavorid=name, name=name, is_public=not private)], NOW)
        number = flavors.find_by_flavorid(connection, name).id
        flavors.set_extra_specs(connection, number, specs, NOW)

    database.write(write_rows)
