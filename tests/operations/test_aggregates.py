# SPDX-License-Identifier: Apache-2.0
"""Changes of host aggregates, and allocation ratios under scheduling policies."""

from functools import partial

import pytest
from sqlalchemy import select

from placement_sched.db.tables import inventories, resource_classes, resource_providers
from placement_sched.errors import Conflict, NotFound, Unavailable
from placement_sched.model.compute_node import RATIOS
from placement_sched.operations import aggregates, reports
from placement_sched.operations.aggregates import RatioUpdater
from placement_sched.scheduler.policies.registry import policies_for
from placement_sched.store.compute import compute_nodes
from tests.support.concurrency import join_threads, run_concurrently
from tests.support.hosts import add_instance, add_node
from tests.support.policies import DOCUMENT, settings_with_policies
from tests.support.reports import NOW, build_report, node_uuid
from tests.support.statements import record_statements


@pytest.fixture
def zone_id(database):
    """The id of an aggregate that is a zone without hosts."""
    return database.write(
        lambda connection: aggregates.create(connection, "uuid", "a", "z", NOW)
    ).id


def add_hosts(database, number, hosts):
    return database.write(lambda connection: aggregates.add_hosts(connection, number, hosts, NOW))


def test_statement_count_is_independent_of_hosts(database, zone_id):
    hosts = [f"h{index}" for index in range(30)]
    for host in hosts:
        add_node(database, host)
    with record_statements(database) as few:
        add_hosts(database, zone_id, hosts[:2])
    with record_statements(database) as many:
        assert add_hosts(database, zone_id, hosts[2:]).hosts == set(hosts)
    assert len(many) <= len(few)


def test_invalid_host_rejects_the_whole_change_of_an_aggregate(database, zone_id):
    for host in ("h1", "h2", "busy"):
        add_node(database, host)
    add_instance(database, "busy")
    with pytest.raises(NotFound, match="nope"):
        add_hosts(database, zone_id, ["h1", "nope"])
    with pytest.raises(Conflict, match="busy"):
        add_hosts(database, zone_id, ["h1", "busy"])
    assert add_hosts(database, zone_id, ["h2"]).hosts == {"h2"}


def test_error_lists_five_conflicting_hosts_and_counts_the_others(database, zone_id):
    for index in range(8):
        add_node(database, f"h{index}")
        add_instance(database, f"h{index}")
    with pytest.raises(Conflict, match="h0, h1, h2, h3, h4 and 3 more"):
        add_hosts(database, zone_id, [f"h{index}" for index in range(8)])


OWN = (4.0, 1.0, 1.0)
EVERYTHING = (2.0, 1.5, 3.0)


class CloudWithPolicies:
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
    return CloudWithPolicies(database, settings_with_policies(database_url, tmp_path))


@pytest.fixture
def sqlite_cloud(sqlite_database, sqlite_url, tmp_path):
    return CloudWithPolicies(sqlite_database, settings_with_policies(sqlite_url, tmp_path))


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
def test_hosts_of_a_policy_have_the_ratios_of_the_policy(cloud, policy, ratios):
    cloud.report(build_report(1), build_report(2))
    cloud.make(1, policy, "cn1")
    assert cloud.ratios(1) == ratios
    assert cloud.ratios(2) == OWN


def test_host_with_a_policy_keeps_the_policy_ratios_after_its_report(cloud):
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


def test_provider_generation_is_incremented_only_if_a_ratio_changes(cloud):
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


def test_change_of_a_policy_writes_only_ratios(cloud):
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
    for round_ in range(3):
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
    for round_ in range(3):
        first, new = 2 * round_ + 1, 2 * round_ + 2
        cloud.report(build_report(first))
        made = cloud.make(first, None, f"cn{first}")
        run_concurrently(
            partial(cloud.report, build_report(new, host=f"cn{first}")),
            partial(cloud.set_policy, made, "high_cpu_density"),
        )
        assert cloud.ratios(new) == cloud.ratios(first) == (8.0, 1.0, 1.0)


def build_reconfigured_cloud(cloud, url, folder, text):
    """Return the cloud with another configuration, as after a restart."""
    return CloudWithPolicies(cloud.database, settings_with_policies(url, folder, text))


@pytest.mark.parametrize(
    ("text", "ratios"),
    [
        pytest.param(DOCUMENT, EVERYTHING, id="unchanged"),
        pytest.param("[everything]\ncpu_allocation_ratio = 6.0\n", (6.0, 1.0, 1.0), id="others"),
        pytest.param("[everything]\nhost_subset_size = 2\n", OWN, id="none"),
        pytest.param("", OWN, id="policy gone"),
    ],
)
def test_ratio_job_applies_the_current_configuration(cloud, database_url, tmp_path, text, ratios):
    cloud.report(build_report(1), build_report(2))
    cloud.make(1, "everything", "cn1")
    after = build_reconfigured_cloud(cloud, database_url, tmp_path, text)
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


def test_ratio_job_after_an_interruption_updates_the_remaining_hosts(
    sqlite_cloud, sqlite_url, tmp_path, monkeypatch
):
    hosts = range(1, 6)
    sqlite_cloud.report(*(build_report(number) for number in hosts))
    sqlite_cloud.make(1, "everything", *(f"cn{number}" for number in hosts))
    after = build_reconfigured_cloud(sqlite_cloud, sqlite_url, tmp_path, "[everything]\n")
    monkeypatch.setattr(aggregates, "BATCH_SIZE", 2)

    def interrupt_after_four(done, _all):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        aggregates.apply(sqlite_cloud.database, after.policies, lambda: NOW, interrupt_after_four)
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


def test_statement_count_of_policies_is_independent_of_hosts(sqlite_cloud):
    few = count_statements(sqlite_cloud, 2)
    assert count_statements(sqlite_cloud, 40) == few


def test_reports_take_no_additional_statements_if_no_policy_is_configured(
    sqlite_database, sqlite_settings
):
    plain, policed_ = (
        CloudWithPolicies(sqlite_database, sqlite_settings),
        CloudWithPolicies(sqlite_database, sqlite_settings),
    )
    plain.policies = None
    plain.report(build_report(1))
    with record_statements(sqlite_database) as before:
        plain.report(build_report(1, vcpus=9))
    with record_statements(sqlite_database) as after:
        policed_.report(build_report(1, vcpus=10))
    assert before == after


class CloudWithRatioUpdater:
    """A host under the policy ``everything``, and a server with changing settings."""

    def __init__(self, cloud, url, folder):
        self.cloud = cloud
        self._url, self._folder = url, folder
        self.settings = cloud.settings
        self.upkeep = RatioUpdater(cloud.database, lambda: self.settings, lambda: NOW)
        cloud.report(build_report(1))
        cloud.make(1, "everything", "cn1")

    def configure(self, text):
        self.settings = settings_with_policies(self._url, self._folder, text)

    def request(self):
        """Run the check that precedes a request, and wait for its background thread."""
        self.upkeep()
        join_threads("policy ratios")


@pytest.fixture
def configured_cloud(database, database_url, tmp_path):
    return CloudWithRatioUpdater(
        CloudWithPolicies(database, settings_with_policies(database_url, tmp_path)),
        database_url,
        tmp_path,
    )


@pytest.fixture
def sqlite_configured_cloud(sqlite_database, sqlite_url, tmp_path):
    return CloudWithRatioUpdater(
        CloudWithPolicies(sqlite_database, settings_with_policies(sqlite_url, tmp_path)),
        sqlite_url,
        tmp_path,
    )


def test_request_after_a_configuration_change_updates_ratios_of_inventories(configured_cloud):
    configured_cloud.request()
    assert configured_cloud.cloud.ratios() == EVERYTHING
    configured_cloud.configure("[everything]\ncpu_allocation_ratio = 6.0\n")
    configured_cloud.request()
    assert configured_cloud.cloud.ratios() == (6.0, 1.0, 1.0)
    configured_cloud.configure("")
    configured_cloud.request()
    assert configured_cloud.cloud.ratios() == OWN


def test_ratio_job_preserves_node_columns_of_a_host_inserted_by_sql(sqlite_configured_cloud):
    add_node(sqlite_configured_cloud.cloud.database, "cn2")
    sqlite_configured_cloud.cloud.make(2, "everything", "cn2")
    sqlite_configured_cloud.configure("")
    sqlite_configured_cloud.upkeep()
    with sqlite_configured_cloud.cloud.database.read() as connection:
        nodes = compute_nodes.search(connection)
    assert {(node.host, node.vcpus, node.supported_hv_specs) for node in nodes} == {
        ("cn1", 8, ()),
        ("cn2", 8, ()),
    }


def test_ratios_of_the_configuration_are_applied_at_the_start(sqlite_configured_cloud):
    sqlite_configured_cloud.configure("")
    sqlite_configured_cloud.upkeep()
    assert sqlite_configured_cloud.cloud.ratios() == OWN


def test_unchanged_configuration_is_applied_only_once(sqlite_configured_cloud, monkeypatch):
    sqlite_configured_cloud.request()
    monkeypatch.setattr(aggregates, "apply", None)
    sqlite_configured_cloud.request()


def test_ratios_are_applied_later_if_the_database_is_unavailable_at_the_start(
    sqlite_configured_cloud, monkeypatch
):
    sqlite_configured_cloud.configure("")

    def raise_unavailable(*_):
        raise Unavailable("the database does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(aggregates, "apply", raise_unavailable)
        with pytest.raises(Unavailable):
            sqlite_configured_cloud.upkeep()
    sqlite_configured_cloud.upkeep()
    assert sqlite_configured_cloud.cloud.ratios() == OWN


def test_failed_application_of_ratios_is_retried_with_the_next_request(
    sqlite_configured_cloud, monkeypatch, caplog
):
    sqlite_configured_cloud.request()
    sqlite_configured_cloud.configure("")

    def raise_unavailable(*_):
        raise Unavailable("the database does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(aggregates, "apply", raise_unavailable)
        sqlite_configured_cloud.request()
    assert "which will be retried: the database does not answer" in caplog.text
    assert sqlite_configured_cloud.cloud.ratios() == EVERYTHING
    sqlite_configured_cloud.request()
    assert sqlite_configured_cloud.cloud.ratios() == OWN
