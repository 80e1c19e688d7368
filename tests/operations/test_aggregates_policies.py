# SPDX-License-Identifier: Apache-2.0
"""Allocation ratios of inventories on hosts under scheduling policies."""

from functools import partial

import pytest
from sqlalchemy import select

from placement_sched.db.tables import inventories, resource_classes, resource_providers
from placement_sched.model.compute_node import RATIOS
from placement_sched.operations import aggregates, reports
from placement_sched.scheduler.policies.registry import policies_for
from tests.support.concurrency import run_concurrently
from tests.support.policies import DOCUMENT, settings_with_policies
from tests.support.reports import NOW, build_report, node_uuid
from tests.support.statements import record_statements

OWN = (4.0, 1.0, 1.0)
EVERYTHING = (2.0, 1.5, 3.0)


class Cloud:
    """Reporting hosts and aggregates under the policies of a configuration."""

    def __init__(self, database, settings):
        self.database = database
        self.settings = settings
        self.policies = policies_for(settings)

    def report(self, *documents):
        found = reports.parse_reports(documents, self.settings, NOW)
        self.database.write(
            lambda connection: reports.record_reports(connection, found, NOW, self.policies)
        )

    def make(self, number, policy=None, *hosts):
        """Create an aggregate and return its id."""

        def write_rows(connection):
            made = aggregates.create(connection, node_uuid(900 + number), f"a{number}", None, NOW)
            return made.id

        made = self.database.write(write_rows)
        if policy is not None:
            self.set_policy(made, policy)
        if hosts:
            self.add(made, *hosts)
        return made

    def set_policy(self, number, policy):
        changes = {"sched_policy": policy}
        self._write(aggregates.set_metadata, number, changes)

    def add(self, number, *hosts):
        self._write(aggregates.add_hosts, number, hosts)

    def remove(self, number, host):
        self._write(aggregates.remove_host, number, host)

    def _write(self, work, *arguments):
        self.database.write(lambda connection: work(connection, *arguments, NOW, self.policies))

    def ratios(self, number=1):
        """Return the ratios of VCPU, MEMORY_MB and DISK_GB of a host."""
        ratios = self.columns(number, inventories.c.allocation_ratio)
        return tuple(pytest.approx(ratios[name]) if name in ratios else None for name in RATIOS)

    def columns(self, number, column):
        query = (
            select(resource_classes.c.name, column)
            .join(inventories, inventories.c.resource_class_id == resource_classes.c.id)
            .join(resource_providers, resource_providers.c.id == inventories.c.resource_provider_id)
            .where(resource_providers.c.uuid == node_uuid(number))
        )
        with self.database.read() as connection:
            return dict(tuple(row) for row in connection.execute(query))

    def generation(self, number=1):
        query = select(resource_providers.c.generation)
        with self.database.read() as connection:
            return connection.scalar(query.where(resource_providers.c.uuid == node_uuid(number)))


@pytest.fixture
def cloud(database, database_url, tmp_path):
    return Cloud(database, settings_with_policies(database_url, tmp_path))


@pytest.fixture
def sqlite_cloud(sqlite_database, sqlite_url, tmp_path):
    return Cloud(sqlite_database, settings_with_policies(sqlite_url, tmp_path))


@pytest.mark.parametrize(
    ("policy", "ratios"),
    [
        ("high_cpu_density", (8.0, 1.0, 1.0)),
        ("low_cpu_density", (1.0, 1.0, 1.0)),
        ("everything", EVERYTHING),
        ("nothing", OWN),
        ("default", OWN),
        ("High_CPU_Density", (8.0, 1.0, 1.0)),
    ],
)
def test_hosts_of_a_policy_have_its_ratios(cloud, policy, ratios):
    cloud.report(build_report(1), build_report(2))
    cloud.make(1, policy, "cn1")
    assert cloud.ratios(1) == ratios
    assert cloud.ratios(2) == OWN


def test_reporting_host_of_a_policy_has_its_ratios(cloud):
    cloud.report(build_report(1))
    cloud.make(1, "high_cpu_density", "cn1")
    # The reported ratio is stored, but the policy's ratio applies.
    cloud.report(build_report(1, vcpus=16, cpu_allocation_ratio=5.0), build_report(2))
    assert cloud.ratios(1) == (8.0, 1.0, 1.0)
    assert cloud.columns(1, inventories.c.total)["VCPU"] == 16
    assert cloud.ratios(2) == OWN


def test_node_that_changes_host_gets_ratios_of_the_new_policy(cloud):
    cloud.report(build_report(1), build_report(2))
    cloud.make(1, "high_cpu_density", "cn1")
    cloud.report(build_report(3, host="cn1"))
    assert cloud.ratios(3) == (8.0, 1.0, 1.0)
    cloud.report(build_report(3, host="cn2"))
    assert cloud.ratios(3) == OWN


@pytest.mark.parametrize("own", [{}, {"cpu_allocation_ratio": 5.0, "disk_allocation_ratio": 1.25}])
@pytest.mark.parametrize("leave", ["untag", "remove"])
def test_host_that_leaves_a_policy_gets_default_ratios(cloud, own, leave):
    cloud.report(build_report(1, **own))
    theirs = cloud.ratios()
    number = cloud.make(1, "everything", "cn1")
    assert cloud.ratios() == EVERYTHING
    if leave == "untag":
        cloud.set_policy(number, None)
    else:
        cloud.remove(number, "cn1")
    assert cloud.ratios() == theirs


def test_host_in_another_aggregate_of_the_policy_keeps_its_ratios(cloud):
    cloud.report(build_report(1))
    one = cloud.make(1, "everything", "cn1")
    cloud.make(2, "everything", "cn1")
    cloud.remove(one, "cn1")
    assert cloud.ratios() == EVERYTHING


def test_changed_policy_of_an_aggregate_changes_ratios(cloud):
    cloud.report(build_report(1))
    number = cloud.make(1, "everything", "cn1")
    cloud.set_policy(number, "high_cpu_density")
    assert cloud.ratios() == (8.0, 1.0, 1.0)


def test_generation_rises_only_if_a_ratio_changes(cloud):
    cloud.report(build_report(1))
    number = cloud.make(1, None, "cn1")
    before = cloud.generation()
    cloud.set_policy(number, "high_cpu_density")
    assert cloud.generation() == before + 1
    cloud.set_policy(number, "high_cpu_density")
    cloud.report(build_report(1))
    assert cloud.generation() == before + 1
    cloud.set_policy(number, "nothing")
    assert cloud.generation() == before + 2


def test_policy_change_writes_only_ratios(cloud):
    cloud.report(build_report(1, reserved={"VCPU": 2}, local_gb=0))
    cloud.make(1, "everything", "cn1")
    assert cloud.columns(1, inventories.c.reserved) == {"VCPU": 2, "MEMORY_MB": 0}
    assert cloud.columns(1, inventories.c.total) == {"VCPU": 8, "MEMORY_MB": 16384}
    assert cloud.ratios() == (2.0, 1.5, None)


@pytest.mark.all_databases
def test_host_without_provider_can_join_a_policy(cloud):
    cloud.report(build_report(1, inventories=False))
    cloud.make(1, "everything", "cn1")
    cloud.report(build_report(1))
    assert cloud.ratios() == EVERYTHING


@pytest.mark.all_databases
def test_concurrent_report_and_policy_change_keep_the_policy_ratio(cloud):
    for round_ in range(8):
        number = round_ + 1
        cloud.report(build_report(number))
        made = cloud.make(number, None, f"cn{number}")
        run_concurrently(
            partial(cloud.report, build_report(number, vcpus=16)),
            partial(cloud.set_policy, made, "high_cpu_density"),
            partial(cloud.report, build_report(number, vcpus=32)),
        )
        assert cloud.ratios(number) == (8.0, 1.0, 1.0)


@pytest.mark.all_databases
def test_concurrent_new_node_and_policy_change_keep_the_policy_ratio(cloud):
    for round_ in range(8):
        first, new = 2 * round_ + 1, 2 * round_ + 2
        cloud.report(build_report(first))
        made = cloud.make(first, None, f"cn{first}")
        run_concurrently(
            partial(cloud.report, build_report(new, host=f"cn{first}")),
            partial(cloud.set_policy, made, "high_cpu_density"),
        )
        assert cloud.ratios(new) == cloud.ratios(first) == (8.0, 1.0, 1.0)


def reconfigured_cloud(cloud, url, folder, text):
    """Return the cloud with another configuration, as after a restart."""
    return Cloud(cloud.database, settings_with_policies(url, folder, text))


@pytest.mark.parametrize(
    ("text", "ratios"),
    [
        pytest.param(DOCUMENT, EVERYTHING, id="unchanged"),
        pytest.param("[everything]\ncpu_allocation_ratio = 6.0\n", (6.0, 1.0, 1.0), id="others"),
        pytest.param("[everything]\nhost_subset_size = 2\n", OWN, id="none"),
        pytest.param("", OWN, id="policy gone"),
    ],
)
def test_job_applies_the_current_configuration(cloud, database_url, tmp_path, text, ratios):
    cloud.report(build_report(1), build_report(2))
    cloud.make(1, "everything", "cn1")
    after = reconfigured_cloud(cloud, database_url, tmp_path, text)
    progress = []
    expected = int(ratios != EVERYTHING)
    done = aggregates.apply(
        cloud.database, after.policies, lambda: NOW, lambda *numbers: progress.append(numbers)
    )
    assert done == (1, expected)
    assert progress == [(1, 1)]
    assert cloud.ratios(1) == ratios
    assert cloud.ratios(2) == OWN
    assert aggregates.apply(cloud.database, after.policies, lambda: NOW) == (1, 0)


def test_interrupted_job_continues(sqlite_cloud, sqlite_url, tmp_path, monkeypatch):
    hosts = range(1, 6)
    sqlite_cloud.report(*(build_report(number) for number in hosts))
    sqlite_cloud.make(1, "everything", *(f"cn{number}" for number in hosts))
    after = reconfigured_cloud(sqlite_cloud, sqlite_url, tmp_path, "[everything]\n")
    monkeypatch.setattr(aggregates, "BATCH_SIZE", 2)

    def stop(done, _all):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        aggregates.apply(sqlite_cloud.database, after.policies, lambda: NOW, stop)
    assert [sqlite_cloud.ratios(number) == OWN for number in hosts] == [True] * 4 + [False]
    assert aggregates.apply(sqlite_cloud.database, after.policies, lambda: NOW) == (5, 1)
    assert sqlite_cloud.ratios(5) == OWN


def count_statements(cloud, count):
    hosts = range(count * 100, count * 101)
    documents = [build_report(number) for number in hosts]
    cloud.report(*documents)
    number = cloud.make(count, None, *(f"cn{host}" for host in hosts))
    with record_statements(cloud.database) as tagging:
        cloud.set_policy(number, "everything")
    with record_statements(cloud.database) as reporting:
        cloud.report(*documents)
    with record_statements(cloud.database) as applying:
        aggregates.apply(cloud.database, cloud.policies, lambda: NOW)
    return len(tagging), len(reporting), len(applying)


def test_statement_count_is_independent_of_hosts(sqlite_cloud):
    few = count_statements(sqlite_cloud, 2)
    assert count_statements(sqlite_cloud, 40) == few


def test_reports_without_policies_take_no_more_statements(sqlite_database, sqlite_settings):
    plain, policed_ = (
        Cloud(sqlite_database, sqlite_settings),
        Cloud(sqlite_database, sqlite_settings),
    )
    plain.policies = None
    plain.report(build_report(1))
    with record_statements(sqlite_database) as before:
        plain.report(build_report(1, vcpus=9))
    with record_statements(sqlite_database) as after:
        policed_.report(build_report(1, vcpus=10))
    assert before == after
