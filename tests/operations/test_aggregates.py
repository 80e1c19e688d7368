# SPDX-License-Identifier: Apache-2.0
"""Changes of host aggregates, and allocation ratios under scheduling policies."""

from functools import partial

import pytest
from sqlalchemy import select, update

from placement_sched.db.tables import inventories, resource_classes, resource_providers
from placement_sched.errors import Conflict, NotFound, Unavailable
from placement_sched.model.compute_node import RATIOS
from placement_sched.operations import aggregates, reports
from placement_sched.operations.aggregates import RatioUpdater
from placement_sched.scheduler.policies.registry import get_policies
from placement_sched.store.compute import compute_nodes
from tests.support.concurrency import join_threads, run_concurrently
from tests.support.hosts import add_instance, add_node
from tests.support.policies import POLICIES_CONF_TEXT, settings_with_policies
from tests.support.reports import NOW, build_report, node_uuid
from tests.support.statements import record_statements


@pytest.fixture
def aggregate_id(database):
    """The id of an aggregate that is a zone without hosts."""
    return database.write(
        lambda connection: aggregates.create(connection, "uuid", "a", "z", NOW)
    ).id


def add_hosts(database, number, hosts):
    return database.write(lambda connection: aggregates.add_hosts(connection, number, hosts, NOW))


def test_statement_count_of_adding_hosts_is_independent_of_their_number(database, aggregate_id):
    hosts = [f"h{index}" for index in range(30)]
    for host in hosts:
        add_node(database, host)
    with record_statements(database) as few:
        add_hosts(database, aggregate_id, hosts[:2])
    with record_statements(database) as many:
        assert add_hosts(database, aggregate_id, hosts[2:]).hosts == set(hosts)
    assert len(many) <= len(few)


def test_invalid_host_rejects_the_whole_change_of_an_aggregate(database, aggregate_id):
    for host in ("h1", "h2", "busy"):
        add_node(database, host)
    add_instance(database, "busy")
    with pytest.raises(NotFound, match="nope"):
        add_hosts(database, aggregate_id, ["h1", "nope"])
    with pytest.raises(Conflict, match="busy"):
        add_hosts(database, aggregate_id, ["h1", "busy"])
    assert add_hosts(database, aggregate_id, ["h2"]).hosts == {"h2"}


def test_error_lists_five_conflicting_hosts_and_counts_the_others(database, aggregate_id):
    for index in range(8):
        add_node(database, f"h{index}")
        add_instance(database, f"h{index}")
    with pytest.raises(Conflict, match="h0, h1, h2, h3, h4 and 3 more"):
        add_hosts(database, aggregate_id, [f"h{index}" for index in range(8)])


DEFAULT_POLICY_RATIOS = (4.0, 1.0, 1.0)
EVERYTHING_POLICY_RATIOS = (2.0, 1.5, 3.0)


class CloudWithPolicies:
    """Reporting hosts and aggregates under the policies of a configuration."""

    def __init__(self, database, settings):
        self.database = database
        self.settings = settings
        self.policies = get_policies(settings)

    def send_reports(self, *documents):
        parsed = reports.parse_reports(documents, self.settings, NOW)
        self.database.write(
            lambda connection: reports.record_reports(connection, parsed, NOW, self.policies)
        )

    def create_aggregate(self, number, policy=None, *hosts):
        """Create an aggregate and return its id."""

        def write_rows(connection):
            aggregate = aggregates.create(
                connection, node_uuid(900 + number), f"a{number}", None, NOW
            )
            return aggregate.id

        aggregate = self.database.write(write_rows)
        if policy is not None:
            self.set_policy(aggregate, policy)
        if hosts:
            self.add_hosts(aggregate, *hosts)
        return aggregate

    def set_policy(self, number, policy):
        changes = {"sched_policy": policy}
        self._write(aggregates.set_metadata, number, changes)

    def add_hosts(self, number, *hosts):
        self._write(aggregates.add_hosts, number, hosts)

    def remove_host(self, number, host):
        self._write(aggregates.remove_host, number, host)

    def _write(self, work, *arguments):
        self.database.write(lambda connection: work(connection, *arguments, NOW, self.policies))

    def read_ratios(self, number=1):
        """Return the ratios of VCPU, MEMORY_MB and DISK_GB of a host."""
        ratios = self.read_column(number, inventories.c.allocation_ratio)
        return tuple(pytest.approx(ratios[name]) if name in ratios else None for name in RATIOS)

    def read_column(self, number, column):
        query = (
            select(resource_classes.c.name, column)
            .join(inventories, inventories.c.resource_class_id == resource_classes.c.id)
            .join(resource_providers, resource_providers.c.id == inventories.c.resource_provider_id)
            .where(resource_providers.c.uuid == node_uuid(number))
        )
        with self.database.read() as connection:
            return dict(tuple(row) for row in connection.execute(query))

    def read_generation(self, number=1):
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
        ("everything", EVERYTHING_POLICY_RATIOS),
        ("nothing", DEFAULT_POLICY_RATIOS),
        ("default", DEFAULT_POLICY_RATIOS),
        ("High_CPU_Density", (8.0, 1.0, 1.0)),
    ],
)
def test_hosts_of_a_policy_have_the_ratios_of_the_policy(cloud, policy, ratios):
    cloud.send_reports(build_report(1), build_report(2))
    cloud.create_aggregate(1, policy, "cn1")
    assert cloud.read_ratios(1) == ratios
    assert cloud.read_ratios(2) == DEFAULT_POLICY_RATIOS


def test_host_with_a_policy_keeps_the_policy_ratios_after_its_report(cloud):
    cloud.send_reports(build_report(1))
    cloud.create_aggregate(1, "high_cpu_density", "cn1")
    # The reported ratio is stored, but the policy's ratio applies.
    cloud.send_reports(build_report(1, vcpus=16, cpu_allocation_ratio=5.0), build_report(2))
    assert cloud.read_ratios(1) == (8.0, 1.0, 1.0)
    assert cloud.read_column(1, inventories.c.total)["VCPU"] == 16
    assert cloud.read_ratios(2) == DEFAULT_POLICY_RATIOS


def test_node_that_changes_host_gets_ratios_of_the_new_policy(cloud):
    cloud.send_reports(build_report(1), build_report(2))
    cloud.create_aggregate(1, "high_cpu_density", "cn1")
    cloud.send_reports(build_report(3, host="cn1"))
    assert cloud.read_ratios(3) == (8.0, 1.0, 1.0)
    cloud.send_reports(build_report(3, host="cn2"))
    assert cloud.read_ratios(3) == DEFAULT_POLICY_RATIOS


@pytest.mark.parametrize(
    "report_ratios", [{}, {"cpu_allocation_ratio": 5.0, "disk_allocation_ratio": 1.25}]
)
@pytest.mark.parametrize("departure", ["untag", "remove"])
def test_host_that_leaves_a_policy_gets_default_ratios(cloud, report_ratios, departure):
    cloud.send_reports(build_report(1, **report_ratios))
    default_ratios = cloud.read_ratios()
    number = cloud.create_aggregate(1, "everything", "cn1")
    assert cloud.read_ratios() == EVERYTHING_POLICY_RATIOS
    if departure == "untag":
        cloud.set_policy(number, None)
    else:
        cloud.remove_host(number, "cn1")
    assert cloud.read_ratios() == default_ratios


def test_host_in_another_aggregate_of_the_policy_keeps_its_ratios(cloud):
    cloud.send_reports(build_report(1))
    one = cloud.create_aggregate(1, "everything", "cn1")
    cloud.create_aggregate(2, "everything", "cn1")
    cloud.remove_host(one, "cn1")
    assert cloud.read_ratios() == EVERYTHING_POLICY_RATIOS


def test_changed_policy_of_an_aggregate_changes_ratios(cloud):
    cloud.send_reports(build_report(1))
    number = cloud.create_aggregate(1, "everything", "cn1")
    cloud.set_policy(number, "high_cpu_density")
    assert cloud.read_ratios() == (8.0, 1.0, 1.0)


def test_provider_generation_is_incremented_only_if_a_ratio_changes(cloud):
    cloud.send_reports(build_report(1))
    number = cloud.create_aggregate(1, None, "cn1")
    generation = cloud.read_generation()
    cloud.set_policy(number, "high_cpu_density")
    assert cloud.read_generation() == generation + 1
    cloud.set_policy(number, "high_cpu_density")
    cloud.send_reports(build_report(1))
    assert cloud.read_generation() == generation + 1
    cloud.set_policy(number, "nothing")
    assert cloud.read_generation() == generation + 2


def test_change_of_a_policy_writes_only_ratios(cloud):
    cloud.send_reports(build_report(1, reserved={"VCPU": 2}, local_gb=0))
    cloud.create_aggregate(1, "everything", "cn1")
    assert cloud.read_column(1, inventories.c.reserved) == {"VCPU": 2, "MEMORY_MB": 0}
    assert cloud.read_column(1, inventories.c.total) == {"VCPU": 8, "MEMORY_MB": 16384}
    assert cloud.read_ratios() == (2.0, 1.5, None)


@pytest.mark.all_databases
def test_host_without_provider_can_join_a_policy(cloud):
    cloud.send_reports(build_report(1, inventories=False))
    cloud.create_aggregate(1, "everything", "cn1")
    cloud.send_reports(build_report(1))
    assert cloud.read_ratios() == EVERYTHING_POLICY_RATIOS


@pytest.mark.all_databases
def test_concurrent_report_and_policy_change_keep_the_policy_ratio(cloud):
    for round_ in range(3):
        number = round_ + 1
        cloud.send_reports(build_report(number))
        made = cloud.create_aggregate(number, None, f"cn{number}")
        run_concurrently(
            partial(cloud.send_reports, build_report(number, vcpus=16)),
            partial(cloud.set_policy, made, "high_cpu_density"),
            partial(cloud.send_reports, build_report(number, vcpus=32)),
        )
        assert cloud.read_ratios(number) == (8.0, 1.0, 1.0)


@pytest.mark.all_databases
def test_concurrent_new_node_and_policy_change_keep_the_policy_ratio(cloud):
    for round_ in range(3):
        node, new_node = 2 * round_ + 1, 2 * round_ + 2
        cloud.send_reports(build_report(node))
        made = cloud.create_aggregate(node, None, f"cn{node}")
        run_concurrently(
            partial(cloud.send_reports, build_report(new_node, host=f"cn{node}")),
            partial(cloud.set_policy, made, "high_cpu_density"),
        )
        assert cloud.read_ratios(new_node) == cloud.read_ratios(node) == (8.0, 1.0, 1.0)


def build_reconfigured_cloud(cloud, url, folder, text):
    """Return the cloud with another configuration, as after a restart."""
    return CloudWithPolicies(cloud.database, settings_with_policies(url, folder, text))


@pytest.mark.parametrize(
    ("text", "ratios"),
    [
        pytest.param(POLICIES_CONF_TEXT, EVERYTHING_POLICY_RATIOS, id="unchanged"),
        pytest.param("[everything]\ncpu_allocation_ratio = 6.0\n", (6.0, 1.0, 1.0), id="others"),
        pytest.param("[everything]\nhost_subset_size = 2\n", DEFAULT_POLICY_RATIOS, id="none"),
        pytest.param("", DEFAULT_POLICY_RATIOS, id="policy gone"),
    ],
)
def test_ratio_job_applies_the_current_configuration(cloud, database_url, tmp_path, text, ratios):
    cloud.send_reports(build_report(1), build_report(2))
    cloud.create_aggregate(1, "everything", "cn1")
    new_cloud = build_reconfigured_cloud(cloud, database_url, tmp_path, text)
    progress = []
    expected = int(ratios != EVERYTHING_POLICY_RATIOS)
    done = aggregates.apply(
        cloud.database, new_cloud.policies, lambda: NOW, lambda *numbers: progress.append(numbers)
    )
    assert done == (1, expected)
    assert progress == [(1, 1)]
    assert cloud.read_ratios(1) == ratios
    assert cloud.read_ratios(2) == DEFAULT_POLICY_RATIOS
    assert aggregates.apply(cloud.database, new_cloud.policies, lambda: NOW) == (1, 0)


def test_ratio_job_after_an_interruption_updates_the_remaining_hosts(
    sqlite_cloud, sqlite_url, tmp_path, monkeypatch
):
    hosts = range(1, 6)
    sqlite_cloud.send_reports(*(build_report(number) for number in hosts))
    sqlite_cloud.create_aggregate(1, "everything", *(f"cn{number}" for number in hosts))
    new_cloud = build_reconfigured_cloud(sqlite_cloud, sqlite_url, tmp_path, "[everything]\n")
    monkeypatch.setattr(aggregates, "BATCH_SIZE", 2)

    def interrupt_after_four_hosts(done, _all):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        aggregates.apply(
            sqlite_cloud.database, new_cloud.policies, lambda: NOW, interrupt_after_four_hosts
        )
    assert [sqlite_cloud.read_ratios(number) == DEFAULT_POLICY_RATIOS for number in hosts] == [
        True
    ] * 4 + [False]
    assert aggregates.apply(sqlite_cloud.database, new_cloud.policies, lambda: NOW) == (5, 1)
    assert sqlite_cloud.read_ratios(5) == DEFAULT_POLICY_RATIOS


def count_statements_of_policy_changes(cloud, count):
    hosts = range(count * 100, count * 101)
    documents = [build_report(number) for number in hosts]
    cloud.send_reports(*documents)
    number = cloud.create_aggregate(count, None, *(f"cn{host}" for host in hosts))
    with record_statements(cloud.database) as tagging:
        cloud.set_policy(number, "everything")
    with record_statements(cloud.database) as reporting:
        cloud.send_reports(*documents)
    with record_statements(cloud.database) as applying:
        aggregates.apply(cloud.database, cloud.policies, lambda: NOW)
    return len(tagging), len(reporting), len(applying)


def test_statement_count_of_policies_is_independent_of_hosts(sqlite_cloud):
    few = count_statements_of_policy_changes(sqlite_cloud, 2)
    assert count_statements_of_policy_changes(sqlite_cloud, 40) == few


def test_reports_take_no_additional_statements_if_no_policy_is_configured(
    sqlite_database, sqlite_settings
):
    cloud_without_policies, cloud = (
        CloudWithPolicies(sqlite_database, sqlite_settings),
        CloudWithPolicies(sqlite_database, sqlite_settings),
    )
    cloud_without_policies.policies = None
    cloud_without_policies.send_reports(build_report(1))
    with record_statements(sqlite_database) as before:
        cloud_without_policies.send_reports(build_report(1, vcpus=9))
    with record_statements(sqlite_database) as after:
        cloud.send_reports(build_report(1, vcpus=10))
    assert before == after


class CloudWithRatioUpdater:
    """A host under the policy ``everything``, and a server with changing settings."""

    def __init__(self, cloud, url, folder):
        self.cloud = cloud
        self._url, self._folder = url, folder
        self.settings = cloud.settings
        self.ratio_updater = RatioUpdater(cloud.database, lambda: self.settings, lambda: NOW)
        cloud.send_reports(build_report(1))
        cloud.create_aggregate(1, "everything", "cn1")

    def configure(self, text):
        self.settings = settings_with_policies(self._url, self._folder, text)

    def update_ratios(self):
        """Run the check that precedes a request, and wait for its background thread."""
        self.ratio_updater()
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
    configured_cloud.update_ratios()
    assert configured_cloud.cloud.read_ratios() == EVERYTHING_POLICY_RATIOS
    configured_cloud.configure("[everything]\ncpu_allocation_ratio = 6.0\n")
    configured_cloud.update_ratios()
    assert configured_cloud.cloud.read_ratios() == (6.0, 1.0, 1.0)
    configured_cloud.configure("")
    configured_cloud.update_ratios()
    assert configured_cloud.cloud.read_ratios() == DEFAULT_POLICY_RATIOS


def test_ratio_job_preserves_node_columns_of_a_host_inserted_by_sql(sqlite_configured_cloud):
    add_node(sqlite_configured_cloud.cloud.database, "cn2")
    sqlite_configured_cloud.cloud.create_aggregate(2, "everything", "cn2")
    sqlite_configured_cloud.configure("")
    sqlite_configured_cloud.ratio_updater()
    with sqlite_configured_cloud.cloud.database.read() as connection:
        nodes = compute_nodes.search(connection)
    assert {(node.host, node.vcpus, node.supported_hv_specs) for node in nodes} == {
        ("cn1", 8, ()),
        ("cn2", 8, ()),
    }


def test_ratios_of_changed_policies_are_applied_at_the_start(sqlite_configured_cloud):
    sqlite_configured_cloud.configure("")
    sqlite_configured_cloud.ratio_updater()
    assert sqlite_configured_cloud.cloud.read_ratios() == DEFAULT_POLICY_RATIOS


def test_ratios_of_unchanged_policies_are_applied_only_once(sqlite_configured_cloud):
    sqlite_configured_cloud.update_ratios()
    cloud = sqlite_configured_cloud.cloud
    changed = update(inventories).values(allocation_ratio=7.0)
    cloud.database.write(lambda connection: connection.execute(changed))
    sqlite_configured_cloud.update_ratios()
    assert cloud.read_ratios() == (7.0, 7.0, 7.0)


def test_ratios_are_applied_later_if_the_database_is_unavailable_at_the_start(
    sqlite_configured_cloud, monkeypatch
):
    sqlite_configured_cloud.configure("")

    def raise_unavailable(*_):
        raise Unavailable("the database does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(aggregates, "apply", raise_unavailable)
        with pytest.raises(Unavailable):
            sqlite_configured_cloud.ratio_updater()
    sqlite_configured_cloud.ratio_updater()
    assert sqlite_configured_cloud.cloud.read_ratios() == DEFAULT_POLICY_RATIOS


def test_failed_application_of_ratios_is_retried_with_the_next_request(
    sqlite_configured_cloud, monkeypatch, caplog
):
    sqlite_configured_cloud.update_ratios()
    sqlite_configured_cloud.configure("")

    def raise_unavailable(*_):
        raise Unavailable("the database does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(aggregates, "apply", raise_unavailable)
        sqlite_configured_cloud.update_ratios()
    assert "which will be retried: the database does not answer" in caplog.text
    assert sqlite_configured_cloud.cloud.read_ratios() == EVERYTHING_POLICY_RATIOS
    sqlite_configured_cloud.update_ratios()
    assert sqlite_configured_cloud.cloud.read_ratios() == DEFAULT_POLICY_RATIOS
