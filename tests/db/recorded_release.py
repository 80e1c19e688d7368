# SPDX-License-Identifier: Apache-2.0
"""Databases of releases, recorded as files, for tests of upgrades.

``releases/VERSION.json`` has the schema revision of a release, the columns of its tables, rows that
the release wrote, and the responses that it gave to reads. Only the file name names
a release. ``python -m tests.db.recorded_release`` records the current version (``setup.cfg``).
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Self

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.db.migrate import get_newest_revision
from placement_sched.db.tables import metadata
from placement_sched.db.transaction import Database
from placement_sched.operations.prepare import sync
from tests.conftest import make_settings
from tests.docs import samples
from tests.support.repository import ROOT

RELEASES_FOLDER = Path(__file__).parent / "releases"
RECORDED_VERSIONS = sorted(path.stem for path in RELEASES_FOLDER.glob("*.json"))
#: Tables whose rows belong to running processes.
TABLES_WITHOUT_ROWS = {"sched_provider_changes", "sched_commit_marks", "sched_leases"}
REQUEST_HEADERS = {
    "X-Auth-Token": "admin",
    "OpenStack-API-Version": "placement 1.39, compute 2.96, scheduler 1.0",
}
#: Reads of everything that the rows describe.
RECORDED_PATHS = (
    "/placement/resource_providers",
    "/placement/resource_classes",
    f"/placement/resource_providers/{samples.CN1_UUID}/inventories",
    f"/placement/resource_providers/{samples.CN1_UUID}/aggregates",
    f"/placement/resource_providers/{samples.CN2_UUID}/traits",
    f"/placement/resource_providers/{samples.CN2_UUID}/allocations",
    f"/placement/allocations/{samples.INSTANCE_UUID}",
    f"/placement/usages?project_id={samples.PROJECT_ID}",
    "/scheduler/v1/compute_nodes",
    "/scheduler/v1/instances",
    "/scheduler/v1/hosts",
    "/scheduler/v1/decisions",
    "/compute/v2.1/os-aggregates",
    "/compute/v2.1/flavors/detail",
    "/compute/v2.1/os-server-groups?all_projects=true",
    "/compute/v2.1/os-services",
    "/compute/v2.1/os-hypervisors/detail",
    "/compute/v2.1/servers/detail?all_tenants=1",
    "/image/v2/images",
)


def read_responses(client: TestApp) -> dict[str, Any]:
    """Return the responses to reads, with each decision that is listed."""
    responses = {path: client.get(path, headers=REQUEST_HEADERS).json for path in RECORDED_PATHS}
    for entry in responses["/scheduler/v1/decisions"]["decisions"]:
        path = f"/scheduler/v1/decisions/{entry['uuid']}"
        responses[path] = client.get(path, headers=REQUEST_HEADERS).json
    return responses


class RecordedRelease(NamedTuple):
    """The database of a release.

    ``columns`` are type and nullability by table and column. ``rows`` are lists of values in the
    order of the columns, by table, with referenced tables first.
    """

    revision: str
    columns: Mapping[str, Mapping[str, tuple[str, bool]]]
    rows: Mapping[str, list[list[Any]]]
    responses: Mapping[str, Any]

    @classmethod
    def load_release(cls, version: str) -> Self:
        return cls(**json.loads((RELEASES_FOLDER / f"{version}.json").read_text()))

    def tables(self) -> dict[str, sa.Table]:
        return {
            name: sa.Table(
                name,
                sa.MetaData(),
                *(
                    sa.Column(column, getattr(sa, kind), nullable=nullable)
                    for column, (kind, nullable) in columns.items()
                ),
            )
            for name, columns in self.columns.items()
        }

    def create_schema(self, database: Database) -> None:
        configuration = Config()
        configuration.set_main_option("script_location", str(ROOT / "alembic"))

        def upgrade_schema(connection: sa.Connection) -> None:
            configuration.attributes["connection"] = connection
            command.upgrade(configuration, self.revision)

        database.write(upgrade_schema)

    def write_rows(self, database: Database) -> None:
        database.write(self._insert_rows)

    def _insert_rows(self, connection: sa.Connection) -> None:
        if connection.dialect.name in {"mysql", "mariadb"}:
            # Insert the id 0 of VCPU, as a restored dump does.
            mode = connection.scalar(sa.text("SELECT @@sql_mode"))
            connection.exec_driver_sql(f"SET SESSION sql_mode = '{mode},NO_AUTO_VALUE_ON_ZERO'")
        for name, table in self.tables().items():
            rows = [
                {column.name: _parse_time_of_column(column, value) for column, value in pairs}
                for row in self.rows.get(name, ())
                if (pairs := list(zip(table.columns, row, strict=True)))
            ]
            for row in rows:
                connection.execute(table.insert(), row)
            numbers = [row["id"] for row in rows if isinstance(row.get("id"), int)]
            if numbers and connection.dialect.name == "postgresql":
                sequence = sa.func.pg_get_serial_sequence(name, "id")
                connection.execute(sa.select(sa.func.setval(sequence, max(numbers))))


def _parse_time_of_column(column: sa.Column[Any], value: Any) -> Any:
    is_time = isinstance(column.type, sa.DateTime) and value is not None
    return datetime.fromisoformat(value) if is_time else value


def _format_time(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _read_rows(connection: sa.Connection) -> Iterator[tuple[str, list[list[Any]]]]:
    """Yield the rows of each table, without standard traits that no provider has."""
    uses = connection.scalars(sa.text("SELECT trait_id FROM resource_provider_traits"))
    trait_ids = set(uses)
    for table in metadata.sorted_tables:
        if table.name in TABLES_WITHOUT_ROWS:
            continue
        rows = connection.execute(sa.select(table).order_by(*table.primary_key.columns)).mappings()
        yield (
            table.name,
            [
                [_format_time(value) for value in row.values()]
                for row in rows
                if table.name != "traits"
                or row["id"] in trait_ids
                or row["name"].startswith("CUSTOM_")
            ],
        )


def record_release() -> RecordedRelease:
    """Play the story of the samples on a new database, and record the database."""
    with tempfile.TemporaryDirectory() as folder:
        settings = make_settings(
            f"sqlite:///{folder}/release.db",
            scheduler__enable_isolated_aggregate_filtering=True,
            DEFAULT__service_down_time=60,
        )
        database = Database(settings)
        sync(database, lambda: samples.SAMPLE_TIME)
        application = create_app(settings, clock=lambda: samples.SAMPLE_TIME, random=Random(1))
        try:
            client = TestApp(application)
            for _ in samples.send_requests_to(client):
                pass
            responses = read_responses(client)
            with database.read() as connection:
                rows = dict(_read_rows(connection))
        finally:
            application.close()
            database.dispose()
    columns = {
        table.name: {
            column.name: (type(column.type).__name__, bool(column.nullable))
            for column in table.columns
        }
        for table in metadata.sorted_tables
    }
    return RecordedRelease(get_newest_revision(), columns, rows, responses)


def main() -> None:
    """Record the current version, a row or answer a line."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    release = record_release()
    parts = []
    for name, value in release._asdict().items():
        if name == "revision":
            parts.append(f'"{name}": {json.dumps(value)}')
            continue
        entries = []
        for key, entry in value.items():
            lines = ",\n".join(map(json.dumps, entry)) if name == "rows" else json.dumps(entry)
            entries.append(f"{json.dumps(key)}: {f'[{lines}]' if name == 'rows' else lines}")
        parts.append(f'"{name}": {{\n' + ",\n".join(entries) + "\n}")
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    (RELEASES_FOLDER / f"{setup['metadata']['version']}.json").write_text(text)


if __name__ == "__main__":
    main()
