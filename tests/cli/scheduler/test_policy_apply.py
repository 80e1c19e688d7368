# SPDX-License-Identifier: Apache-2.0
"""``policy apply``, and commands that report conflicts between aggregates and policies."""

import json

import pytest

from placement_sched.cli.main import main
from placement_sched.operations import aggregates
from placement_sched.store.placement import inventories, resource_providers
from tests.api.compute.conftest import AggregateApi
from tests.support.clouds import uuid_of
from tests.support.policies import settings_with_policies
from tests.support.reports import NOW
from tests.support.scheduling import make_report

pytestmark = pytest.mark.slow

SPARSE_POLICY_CONF = "[sparse]\nhost_subset_size = 2\n"
CPU_RATIO_CONF_8 = f"{SPARSE_POLICY_CONF}\n[dense]\ncpu_allocation_ratio = 8.0\n"
CPU_RATIO_CONF_16 = f"{SPARSE_POLICY_CONF}\n[dense]\ncpu_allocation_ratio = 16.0\n"


class CloudWithPolicy:
    """Two hosts. h1 is in an aggregate of the policy ``dense``."""

    def __init__(self, url, folder, make_app, capsys):
        self.url = url
        self.folder = folder
        self.capsys = capsys
        self.app = make_app(settings_with_policies(url, folder, CPU_RATIO_CONF_8))
        self.app.post_json("/scheduler/v1/compute_nodes", [make_report("h1"), make_report("h2")])
        self.api = AggregateApi(self.app)
        self.aggregate_id = self.api.create_and_get_id("dense hosts")
        self.api.set_metadata(self.aggregate_id, sched_policy="dense")
        self.api.add_host(self.aggregate_id, "h1")

    def rewrite_policies_file(self, text):
        """Change the configuration for the next start."""
        return settings_with_policies(self.url, self.folder, text)

    def run_cli(self, *command):
        file = str(self.folder / "policies.conf")
        code = main([*command, "--config-file", file])
        return code, self.capsys.readouterr().out

    def read_cpu_ratio(self, host="h1"):
        """Read the ratio in the database. A request could apply the changed file."""
        with self.app.app.services.database.read() as connection:
            provider = resource_providers.get_by_uuid(connection, uuid_of(host))
            _, rows = inventories.get_by_provider_uuid(connection, provider.uuid)
        return next(row.allocation_ratio for row in rows if row.resource_class == "VCPU")

    def add_host_to_aggregate_with_policy(self, policy):
        """Write another policy for h1 into the tables, without the checks of the API."""

        def write_rows(connection):
            aggregate = aggregates.create(connection, uuid_of("secret"), "secret", None, NOW)
            aggregates.add_hosts(connection, aggregate.id, ["h1"], NOW)
            aggregates.host_aggregates.change_metadata(
                connection, aggregate.id, {"sched_policy": policy}, NOW
            )

        self.app.app.services.database.write(write_rows)


@pytest.fixture
def cloud(database_url, tmp_path, make_app, capsys):
    return CloudWithPolicy(database_url, tmp_path, make_app, capsys)


@pytest.fixture
def sqlite_cloud(sqlite_url, tmp_path, make_app, capsys):
    return CloudWithPolicy(sqlite_url, tmp_path, make_app, capsys)


def test_policy_apply_updates_inventories(cloud):
    assert (cloud.read_cpu_ratio(), cloud.read_cpu_ratio("h2")) == (8.0, 4.0)
    cloud.rewrite_policies_file(CPU_RATIO_CONF_16)
    assert cloud.run_cli("policy", "apply") == (
        0,
        "1 host is in aggregates with a policy. Inventories changed: 1 provider\n",
    )
    assert (cloud.read_cpu_ratio(), cloud.read_cpu_ratio("h2")) == (16.0, 4.0)
    code, text = cloud.run_cli("policy", "apply", "--format", "json")
    assert (code, json.loads(text)) == (0, {"hosts": 1, "changed": 0})


def test_policy_apply_restores_ratios_of_hosts_without_a_policy(sqlite_cloud):
    sqlite_cloud.rewrite_policies_file(SPARSE_POLICY_CONF)
    assert sqlite_cloud.run_cli("policy", "apply")[0] == 0
    assert sqlite_cloud.read_cpu_ratio() == 4.0


@pytest.mark.parametrize(
    "text",
    [
        "[scheduler]\npolicies = dense\n\n[dense]\ncpu_allocation_ratio = many\n",
        CPU_RATIO_CONF_8.replace("8.0", "8.O"),
    ],
    ids=["listed", "in use"],
)
def test_policy_apply_with_an_invalid_policy_changes_no_ratio(sqlite_cloud, text):
    sqlite_cloud.rewrite_policies_file(text)
    assert sqlite_cloud.run_cli("policy", "apply")[0] == 1
    assert sqlite_cloud.read_cpu_ratio() == 8.0


def test_explain_with_a_changed_policy_file_writes_no_ratios_to_inventories(sqlite_cloud):
    sqlite_cloud.rewrite_policies_file(CPU_RATIO_CONF_16)
    assert sqlite_cloud.run_cli("explain", "--vcpus", "1", "--ram", "1", "--disk", "1")[0] == 0
    assert sqlite_cloud.read_cpu_ratio() == 8.0


def test_config_validate_and_placement_audit_of_a_consistent_cloud_find_nothing(sqlite_cloud):
    assert sqlite_cloud.run_cli("config", "validate", "--database")[0] == 0
    assert sqlite_cloud.run_cli("placement", "audit")[0] == 0
    code, text = sqlite_cloud.run_cli("placement", "audit", "--format", "json")
    assert code == 0
    assert "policies" not in json.loads(text)


def test_unknown_policy_of_an_aggregate_is_reported_by_validate_and_audit(cloud):
    cloud.rewrite_policies_file(SPARSE_POLICY_CONF)
    fault = (
        f"aggregate {cloud.aggregate_id} (dense hosts) names policy 'dense': "
        "there is no policy 'dense'. There are: default, sparse"
    )
    code, text = cloud.run_cli("config", "validate", "--database")
    assert code == 1
    assert f"error: {fault}" in text.splitlines()
    assert cloud.run_cli("config", "validate")[0] == 0
    assert cloud.run_cli("placement", "audit", "--resource_provider", uuid_of("h1"))[0] == 0
    code, text = cloud.run_cli("placement", "audit")
    assert (code, text.splitlines()) == (5, [fault, "no orphaned allocations"])
    code, text = cloud.run_cli("placement", "audit", "--format", "json")
    assert (code, json.loads(text)["policies"]) == (5, [fault])


def test_host_with_two_policies_is_reported_by_validate_and_audit(cloud):
    cloud.add_host_to_aggregate_with_policy("sparse")
    fault = (
        f"host h1 has several policies: 'dense' from aggregate {cloud.aggregate_id} (dense hosts), "
        f"'sparse' from aggregate {cloud.aggregate_id + 1} (secret)"
    )
    code, text = cloud.run_cli("config", "validate", "--database")
    assert code == 1
    assert f"error: {fault}" in text.splitlines()
    assert cloud.run_cli("placement", "audit") == (5, f"{fault}\nno orphaned allocations\n")


def test_orphaned_allocations_are_deleted_despite_policy_errors(sqlite_cloud):
    body = {
        "allocations": {uuid_of("h1"): {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    headers = {"OpenStack-API-Version": "placement 1.38"}
    sqlite_cloud.app.put_json(f"/placement/allocations/{uuid_of('i')}", body, headers=headers)
    # The audit judges consumers only if an instance is recorded.
    recorded = {"host": "h1", "node": "h1", "project_id": "p", "user_id": "u"}
    sqlite_cloud.app.put_json(f"/scheduler/v1/instances/{uuid_of('j')}", recorded)
    sqlite_cloud.rewrite_policies_file(SPARSE_POLICY_CONF)
    code, text = sqlite_cloud.run_cli("placement", "audit", "--delete")
    assert code == 5
    assert text.endswith("orphaned: the allocations of 1 consumer; deleted: 1\n")
    sqlite_cloud.rewrite_policies_file(CPU_RATIO_CONF_8)
    assert sqlite_cloud.run_cli("placement", "audit")[0] == 0
