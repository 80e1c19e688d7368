# SPDX-License-Identifier: Apache-2.0
"""A small cloud for tests of ``placement-sched placement``."""

import json
from uuid import UUID

import pytest

from placement_sched.cli.main import main
from tests.support.reports import build_report, node_uuid

FLAVOR = {"name": "small", "vcpus": 2, "memory_mb": 1024, "root_gb": 5, "swap": 100}
FLAVOR_RESOURCES = {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 6}
CELL_UUID = str(UUID(int=99))


def build_consumer_uuid(number: int) -> str:
    return f"aaaaaaaa-0000-4000-8000-{number:012}"


class RepairCloud:
    """Two hosts of 8 CPUs, the second in a cell, and actions on them."""

    def __init__(self, app, capsys):
        self.app = app
        self._capsys = capsys
        app.post_json(
            "/scheduler/v1/compute_nodes", [build_report(1), build_report(2, cell_uuid=CELL_UUID)]
        )

    def record(self, number: int, on: int = 1, **changes) -> str:
        """Record an instance, without allocations."""
        body = {
            "host": f"cn{on}",
            "node": f"cn{on}",
            "project_id": "p",
            "user_id": "u",
            "flavor": FLAVOR,
        }
        self.app.put_json(
            f"/scheduler/v1/instances/{build_consumer_uuid(number)}", {**body, **changes}
        )
        return build_consumer_uuid(number)

    def allocate(self, number: int, amounts=None, kind="INSTANCE", project="p") -> str:
        """Write the allocations of a consumer, with amounts by provider and class."""
        amounts = amounts or {node_uuid(1): {"VCPU": 1}}
        self.app.put_json(
            f"/placement/allocations/{build_consumer_uuid(number)}",
            {
                "allocations": {provider: {"resources": amounts[provider]} for provider in amounts},
                "project_id": project,
                "user_id": "u",
                "consumer_generation": None,
                "consumer_type": kind,
            },
            headers={"OpenStack-API-Version": "placement 1.38"},
        )
        return build_consumer_uuid(number)

    def read_allocations(self, number: int) -> dict:
        """Return the allocations of a consumer by provider."""
        response = self.app.get(
            f"/placement/allocations/{build_consumer_uuid(number)}",
            headers={"OpenStack-API-Version": "placement 1.38"},
        ).json
        return {key: part["resources"] for key, part in response["allocations"].items()}

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command and return status, stdout and stderr."""
        try:
            status = main(["placement", *arguments])
        except SystemExit as left:
            status = left.code
        printed = self._capsys.readouterr()
        return status, printed.out, printed.err

    def document(self, *arguments: str) -> dict:
        """Run a command whose JSON document has its exit code and return the document."""
        status, printed, _ = self.run(*arguments, "--format", "json")
        document = json.loads(printed)
        assert document["code"] == status
        return document


@pytest.fixture
def cloud_without_instances(app, capsys, database_url, monkeypatch):
    """A cloud without recorded instances."""
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", database_url)
    return RepairCloud(app, capsys)


@pytest.fixture
def cloud(cloud_without_instances):
    """A cloud with a recorded instance. Without any, the audit judges no consumer."""
    cloud_without_instances.record(99)
    return cloud_without_instances


@pytest.fixture
def sqlite_cloud(sqlite_app, capsys, sqlite_url, monkeypatch):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    cloud = RepairCloud(sqlite_app, capsys)
    cloud.record(99)
    return cloud
