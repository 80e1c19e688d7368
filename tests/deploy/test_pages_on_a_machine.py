# SPDX-License-Identifier: Apache-2.0
"""The how-tos, typed line by line as printed, on two new Debian machines with systemd.

Their cloud has a keystone and an OpenStack placement with data. Its database is adopted, served
over TLS, and given back.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.deploy import cloud, debian
from tests.deploy.cloud import OpenStackCloud
from tests.deploy.debian import Machine
from tests.deploy.page_reader import (
    HEADINGS_BY_PAGE,
    JOURNALCTL_COMMAND,
    PageStep,
    call_for_each_machine,
    list_packages_of_pages,
    list_page_lines,
    read_file_of_page,
    type_page,
)
from tests.differential.comparison import skip_without_peer
from tests.support.repository import ROOT
from tests.support.servers import wait_until

#: The first run installs Debian.
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]

CONFIG_PATH = "/etc/placement_sched/placement_sched.conf"
SERVER_UNITS = "placement-sched.socket placement-sched.service"
DATABASE_PASSWORD = "CHANGE-ME"  # noqa: S105 - that of the pages
SOURCE_FOLDER = "/root/placement_sched"
CURL_PLACEMENT = f"curl --silent --fail --cacert {SOURCE_FOLDER}/placement.example.com.pem https://placement.example.com"
NOVA_CONF_TEXT = """\
[DEFAULT]
transport_url = rabbit://nova:secret@127.0.0.1:1/
host = ctl1
[api_database]
connection = sqlite:////var/lib/placement-sched/nova_api.db
[database]
connection = sqlite:////var/lib/placement-sched/nova_cell0.db
"""
#: The configuration of an OpenStack placement, on MariaDB.
PLACEMENT_CONF_TEXT = f"""\
[placement_database]
connection = mysql+pymysql://placement:{DATABASE_PASSWORD}@192.0.2.11/placement
[api]
auth_strategy = keystone
[keystone_authtoken]
auth_type = password
auth_url = {cloud.KEYSTONE_URL}
username = placement
password = {DATABASE_PASSWORD}
project_name = service
user_domain_name = Default
project_domain_name = Default
"""
PROXY_HEADERS_CONF = "[oslo_middleware]\nenable_proxy_headers_parsing = true\n"
DATABASE_STATEMENTS = (
    "CREATE DATABASE placement CHARACTER SET utf8mb3",
    f"CREATE USER placement@'%' IDENTIFIED BY '{DATABASE_PASSWORD}'",
    "GRANT ALL ON placement.* TO placement@'%'",
)
#: A change of the configuration for a reload.
SHUTDOWN_DELAY_CHANGE = ("shutdown_delay = 5", "shutdown_delay = 6")
OPENSTACK_COMMAND = f"cd {SOURCE_FOLDER}; . ./admin-openrc; client/bin/openstack"


def test_steps_are_listed_for_exactly_the_tested_pages():
    assert set(list_steps(None, None, None)) == set(HEADINGS_BY_PAGE)


def test_page_commands_work_on_new_debian_machines(tmp_path):
    skip_without_peer()
    debian.skip_without_machines()
    debian.prepare_debian(list_packages_of_pages())
    debian.create_source_repository(tmp_path)
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        network = stack.enter_context(cloud.run_cloud(tmp_path / "cloud"))
        keystone = pool.submit(network.start_keystone)

        def copy_disk_to_second_machine(machine: Machine) -> None:
            other = debian.start_copy_of_machine(
                tmp_path, "two", {"OWN-ADDRESS": "192.0.2.12"}, "one"
            )
            machine.others.append(stack.enter_context(other))
            network.connect_machine(machine.others[0].leader, "192.0.2.12")
            machine.others[0].run(f"cd {SOURCE_FOLDER}")

        machine = stack.enter_context(
            debian.start_machine(tmp_path, "one", {"OWN-ADDRESS": "192.0.2.11"})
        )
        network.connect_machine(machine.leader, "192.0.2.11")
        for page, steps in list_steps(network, keystone, copy_disk_to_second_machine).items():
            type_page(machine, page, steps)


def wait_for_postgresql(machine: Machine) -> None:
    """Wait for PostgreSQL, which may start after apt-get has ended."""
    assert wait_until(lambda: machine.run_line("pg_isready")[0] == 0, 120)


def configure_keystone(machine: Machine) -> None:
    """Set keystone's address in the configuration."""
    machine.edit(CONFIG_PATH, ("https://keystone.example.com/v3", cloud.KEYSTONE_URL))


def configure_noauth2(machine: Machine) -> None:
    """Write the configuration of the source, with ``noauth2``."""
    machine.write(CONFIG_PATH, (ROOT / "deploy/placement_sched.conf").read_text())
    machine.edit(CONFIG_PATH, ("auth_strategy = keystone", "auth_strategy = noauth2"))


def configure_machines_without_keystone(machine: Machine) -> None:
    def configure_and_restart(each: Machine) -> None:
        configure_noauth2(each)
        each.run("systemctl restart placement-sched")

    call_for_each_machine(configure_and_restart, [machine, *machine.others])
    machine.open_new_shell()
    machine.write(f"{SOURCE_FOLDER}/clouds.yaml", read_file_of_page("deploy", "clouds.yaml"))


def trust_proxy_headers(machine: Machine) -> None:
    """Enable the headers of the proxy in the configuration."""
    machine.write(CONFIG_PATH, f"{machine.read(CONFIG_PATH)}{PROXY_HEADERS_CONF}")


def check_service_is_stopped(machine: Machine) -> None:
    """Check that neither socket nor service is active."""
    status, output = machine.run_line(f"systemctl is-active {SERVER_UNITS}")
    assert (status, output) == (3, "inactive\ninactive\n")


def check_service_is_stopped_and_start_it(machine: Machine) -> None:
    check_service_is_stopped(machine)
    machine.run(f"systemctl start {SERVER_UNITS}")


def check_start_is_logged(machine: Machine) -> None:
    """Check that the journal has the line of a started server."""
    assert "placement-sched serves " in machine.run(JOURNALCTL_COMMAND)


def check_thread_stacks_logged(machine: Machine) -> None:
    """Check that server and workers log the stacks of their threads, and continue."""
    journal = "journalctl --unit placement-sched --grep 'Current thread' --output cat"
    assert wait_until(lambda: len(machine.run_line(journal)[1].splitlines()) > 1, 30)
    assert machine.run("systemctl is-active placement-sched") == "active\n"


def read_main_pid(machine: Machine) -> str:
    return machine.run("systemctl show --value --property MainPID placement-sched").strip()


class ConfigurationReloadSteps:
    """A server with a changed configuration, whose process continues."""

    def change_configuration(self, machine: Machine) -> None:
        self._process = read_main_pid(machine)
        machine.edit(CONFIG_PATH, SHUTDOWN_DELAY_CHANGE)

    def check_reload(self, machine: Machine) -> None:
        """Check that the same process has read the change, and revert the change."""

        def is_logged() -> bool:
            return "[api] shutdown_delay" in machine.run(JOURNALCTL_COMMAND)

        assert wait_until(is_logged, 60), machine.run(JOURNALCTL_COMMAND)
        assert read_main_pid(machine) == self._process
        get_readiness = "curl --silent --fail http://192.0.2.11:8778/healthz/ready"
        assert '"ready"' in machine.run(get_readiness)
        machine.edit(CONFIG_PATH, SHUTDOWN_DELAY_CHANGE[::-1])


def configure_database_nodes_and_haproxy(machine: Machine) -> None:
    """Name three nodes, two of them down, and replace Apache with HAProxy."""
    for each in (machine, *machine.others):
        each.run("echo 192.0.2.11 db1 >> /etc/hosts; echo 192.0.2.12 db2 db3 >> /etc/hosts")
    machine.run("""mariadb --execute "CREATE USER haproxy@'%'" """)
    machine.run("systemctl disable --now apache2 && systemctl enable --now haproxy")
    machine.run(f"systemctl start {SERVER_UNITS}")


def check_database_node_responds(machine: Machine) -> None:
    """Check that the database answers on the address of HAProxy."""
    account = f"user='placement', password='{DATABASE_PASSWORD}', host='127.0.0.1', port=3307"
    line = f'/opt/placement_sched/bin/python -c "import pymysql; pymysql.connect({account})"'
    assert wait_until(lambda: machine.run_line(line)[0] == 0, 60), machine.run_line(line)[1]


def check_haproxy_serves_database_and_api(machine: Machine) -> None:
    """Check that HAProxy serves the database and the API."""
    check_database_node_responds(machine)
    check_api_is_ready(machine)


def check_api_is_ready(machine: Machine) -> None:
    """Check that the API answers over TLS."""
    assert wait_until(
        lambda: '"ready"' in machine.run_line(f"{CURL_PLACEMENT}/healthz/ready")[1], 60
    )


def check_proxy_responds_while_the_local_server_is_stopped(machine: Machine) -> None:
    """Check that the proxy answers 20 requests while this machine's server is stopped."""
    check_api_is_ready(machine)
    machine.run(f"systemctl stop {SERVER_UNITS}")
    line = f"for i in $(seq 20); do {CURL_PLACEMENT}/healthz/ready || exit 1; done"
    assert machine.run(line).count('"ready"') == 20
    machine.run(f"systemctl start {SERVER_UNITS}")


def install_nova(machine: Machine) -> None:
    """Create the group and the configuration of nova's packages."""
    machine.run("groupadd nova && install -d -m 750 -g nova /etc/nova")
    machine.run("install -m 640 -g nova /dev/null /etc/nova/nova.conf")
    machine.write("/etc/nova/nova.conf", NOVA_CONF_TEXT)


def check_service_waits_for_bus(unit: str, message: str) -> Callable[[Machine], None]:
    """Check that a service without a message bus logs that it waits, and runs."""

    def check_unit_waits(machine: Machine) -> None:
        def is_waiting() -> bool:
            return message in machine.run(f"journalctl --unit {unit}")

        assert wait_until(is_waiting, 60), machine.run(f"journalctl --unit {unit}")
        assert machine.run(f"systemctl is-active {unit}") == "active\n"

    return check_unit_waits


def check_release_of_server(release: str) -> Callable[[Machine], None]:
    """Check the release of the restarted server.

    The other machine answers while this machine's server starts. Therefore the modules of the
    process are read until they are of the release.
    """

    def check_release(machine: Machine) -> None:
        def has_modules_of_release() -> bool:
            maps = machine.run(f"cat /proc/{read_main_pid(machine)}/maps")
            return f"placement_sched-{release}/" in maps

        assert wait_until(has_modules_of_release, 60), machine.run(JOURNALCTL_COMMAND)
        check_api_is_ready(machine)

    return check_release


def read_catalogue(machine: Machine) -> set[str]:
    """Return the URLs of placement in the catalogue."""
    line = "client/bin/openstack endpoint list --service placement -f value -c URL"
    return set(machine.run(line).split())


class PlacementMoveSteps:
    """An OpenStack placement with data before the move, after it and after the return."""

    def __init__(self, network: OpenStackCloud) -> None:
        self._cloud = network
        self._before: dict[str, object] = {}

    def start_placement(self, machine: Machine) -> None:
        """Start an OpenStack placement on its own database, with data."""
        for statement in DATABASE_STATEMENTS:
            machine.run(f'mariadb --execute "{statement}"')
        self._process = self._cloud.start_placement(PLACEMENT_CONF_TEXT)
        self._token = machine.run(f"{OPENSTACK_COMMAND} token issue -f value -c id").strip()
        machine.open_new_shell()
        self._cloud.fill_placement(self._token, providers=24, consumers=31)
        self._before = self._cloud.read_placement(self._token)
        self._cloud.set_placement_url(cloud.PLACEMENT_URL)
        for each in (machine, *machine.others):
            each.run("install -d /etc/placement")
            each.write("/etc/placement/placement.conf", PLACEMENT_CONF_TEXT)
            each.write(f"{SOURCE_FOLDER}/placement.conf", PLACEMENT_CONF_TEXT)

    def check_after_move(self, machine: Machine) -> None:
        """Check that this service has the data and receives the writes after the move."""
        assert read_catalogue(machine) == {"https://placement.example.com/placement"}
        assert self._before == self._cloud.read_placement(self._token)
        self._stop_openstack_placement()
        machine.run("client/bin/openstack resource provider create written-by-ours")

    def check_after_return(self, machine: Machine) -> None:
        """Check that OpenStack placement has all data after the return."""
        self._process = self._cloud.start_placement(PLACEMENT_CONF_TEXT)
        assert read_catalogue(machine) == {cloud.PLACEMENT_URL}
        (compare,) = (
            line.text for line in list_page_lines("adopt#placement") if "compare.py" in line.text
        )
        assert "25 resource providers, 31 consumers: both answer the same" in machine.run(compare)
        names = machine.run("client/bin/openstack resource provider list -f value -c name")
        assert "written-by-ours" in names
        assert len(names.split()) == 25

    def check_placement_data_without_our_tables(self, machine: Machine) -> None:
        """Check OpenStack placement's data and tables without our tables, after an upgrade."""
        self._stop_openstack_placement()
        self._process = self._cloud.start_placement(PLACEMENT_CONF_TEXT)
        after = self._cloud.read_placement(self._token)
        (new_provider,) = (
            name
            for name, value in after.items()
            if isinstance(value, dict) and value.get("name") == "written-by-ours"
        )
        assert self._before == {k: v for k, v in after.items() if not k.startswith(new_provider)}
        tables = machine.run('mariadb --skip-column-names --execute "SHOW TABLES" placement')
        assert "allocations" in tables
        assert "sched" not in tables

    def _stop_openstack_placement(self) -> None:
        cloud.stop_process(self._process)


def list_steps(
    network: OpenStackCloud,
    keystone: Future[None],
    copy_disk_to_second_machine: Callable[[Machine], None],
) -> dict[str, Sequence[PageStep]]:
    """Return the actions that the prose of each page describes, in the order of the lines."""

    def write_credentials(machine: Machine) -> None:
        keystone.result(timeout=300)
        machine.write(f"{SOURCE_FOLDER}/admin-openrc", cloud.ADMIN_OPENRC)

    moved, reloaded = PlacementMoveSteps(network), ConfigurationReloadSteps()
    password_twice = f"{DATABASE_PASSWORD}\n{DATABASE_PASSWORD}\n"
    return {
        "deploy": [
            PageStep(
                "install -m 644 deploy/systemd/placement-sched.service",
                after=copy_disk_to_second_machine,
            ),
            PageStep(
                'runuser -l postgres -c "createuser',
                before=wait_for_postgresql,
                typed=password_twice,
            ),
            PageStep(". ./admin-openrc", before=write_credentials),
            PageStep("sed -i", on="each"),
            PageStep("runuser -u placement-sched", before=configure_keystone, on="each"),
            PageStep("systemctl daemon-reload", on="each"),
            PageStep("systemctl enable --now", on="each"),
            PageStep("curl ", after=check_start_is_logged, on="each"),
            PageStep(
                "systemctl reload placement-sched",
                before=reloaded.change_configuration,
                after=reloaded.check_reload,
            ),
            PageStep("systemctl kill -s SIGUSR2", after=check_thread_stacks_logged),
            PageStep("systemctl stop placement-sched", after=check_service_is_stopped_and_start_it),
            PageStep(
                "systemctl reload haproxy",
                after=check_proxy_responds_while_the_local_server_is_stopped,
            ),
            PageStep(
                "systemctl reload nginx",
                after=check_proxy_responds_while_the_local_server_is_stopped,
            ),
            PageStep("client/bin/openstack --os-cloud", before=configure_machines_without_keystone),
            PageStep("systemctl stop", after=check_service_is_stopped, on="other"),
            PageStep("systemctl start", on="other"),
        ],
        "commands": [],
        "metrics": [],
        "adopt#scheduler": [
            PageStep("install ", before=install_nova),
            PageStep(
                "systemctl enable",
                after=check_service_waits_for_bus(
                    "placement-sched-nova-scheduler", "Connection failed: "
                ),
            ),
        ],
        "adopt#shadow": [
            PageStep(
                "systemctl enable",
                after=check_service_waits_for_bus(
                    "placement-sched-nova-shadow", "requests are not evaluated"
                ),
            )
        ],
        "upgrade": [
            PageStep("systemctl restart placement-sched", after=check_release_of_server("NEW")),
            PageStep(
                "systemctl stop placement-sched.socket", after=check_service_is_stopped, on="each"
            ),
        ],
        "adopt#database": [PageStep("cp placement.conf", before=moved.start_placement)],
        "adopt#placement": [
            PageStep("install ", after=trust_proxy_headers, on="each"),
            PageStep("systemctl daemon-reload", on="each"),
            PageStep("systemctl enable", on="each"),
            PageStep("systemctl restart", on="each"),
            PageStep("curl ", on="each"),
            PageStep("for endpoint", after=moved.check_after_move),
            PageStep("for endpoint", after=moved.check_after_return),
            PageStep("systemctl stop", after=check_service_is_stopped, on="each"),
            PageStep(
                "placement-sched db version", after=moved.check_placement_data_without_our_tables
            ),
        ],
        "recipes#mod_wsgi": [
            PageStep("apt-get install apache2", before=configure_noauth2),
            PageStep("systemctl restart apache2", after=check_api_is_ready),
        ],
        "galera": [
            PageStep("sed ", before=configure_database_nodes_and_haproxy),
            PageStep("systemctl reload haproxy", after=check_haproxy_serves_database_and_api),
            PageStep("apt-get install haproxy", on="other"),
            PageStep("install ", on="other"),
            PageStep("haproxy -c", on="other"),
            PageStep("systemctl reload haproxy", after=check_database_node_responds, on="other"),
        ],
    }
