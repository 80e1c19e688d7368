# SPDX-License-Identifier: Apache-2.0
"""The how-tos, typed line by line as printed, on two empty Debians with a running systemd.

They are in a cloud with a keystone and an OpenStack placement that holds data: its database is
taken over, served by TLS, and given back.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.deploy import cloud, debian
from tests.deploy.cloud import Cloud
from tests.deploy.debian import Machine
from tests.deploy.reader import OF_LIMITS, PAGES, Step, list_lines, read, read_file, run_on_all
from tests.differential.duel import needs_peer
from tests.support.repository import ROOT
from tests.support.servers import wait_until

#: It installs Debian before, where that was not done yet.
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]

CONFIG = "/etc/placement_sched/placement_sched.conf"
UNITS = "placement-sched.socket placement-sched.service"
PASSWORD = "CHANGE-ME"  # noqa: S105 - that of the pages
SOURCE = "/root/placement_sched"
ASKED = f"curl --silent --fail --cacert {SOURCE}/placement.example.com.pem https://placement.example.com"
NOVA = """\
[DEFAULT]
transport_url = rabbit://nova:secret@127.0.0.1:1/
host = ctl1
[api_database]
connection = sqlite:////var/lib/placement-sched/nova_api.db
[database]
connection = sqlite:////var/lib/placement-sched/nova_cell0.db
"""
#: The configuration of an OpenStack placement, on MariaDB.
PLACEMENT_CONF = f"""\
[placement_database]
connection = mysql+pymysql://placement:{PASSWORD}@192.0.2.11/placement
[api]
auth_strategy = keystone
[keystone_authtoken]
auth_type = password
auth_url = {cloud.KEYSTONE}
username = placement
password = {PASSWORD}
project_name = service
user_domain_name = Default
project_domain_name = Default
"""
PROXIED = "[oslo_middleware]\nenable_proxy_headers_parsing = true\n"
PREPARED = (
    "CREATE DATABASE placement CHARACTER SET utf8mb3",
    f"CREATE USER placement@'%' IDENTIFIED BY '{PASSWORD}'",
    "GRANT ALL ON placement.* TO placement@'%'",
)
#: What is changed in the configuration for a reload.
CHANGED = ("shutdown_delay = 5", "shutdown_delay = 6")
OPENSTACK = f"cd {SOURCE}; . ./admin-openrc; client/bin/openstack"


def test_each_page_has_steps():
    assert set(list_steps(None, None, None)) == set(PAGES)


def test_page_commands_work_on_new_debian_machines(tmp_path):
    needs_peer()
    debian.require_machines()
    debian.prepare(list_packages())
    debian.create_repository(tmp_path)
    with ExitStack() as stack, ThreadPoolExecutor() as beside:
        around = stack.enter_context(cloud.cloud(tmp_path / "cloud"))
        keystone = beside.submit(around.start_keystone)

        def copy_the_disk(machine: Machine) -> None:
            other = debian.start_copy(tmp_path, "two", {"OWN-ADDRESS": "192.0.2.12"}, "one")
            machine.others.append(stack.enter_context(other))
            around.connect(machine.others[0].leader, "192.0.2.12")
            machine.others[0].run(f"cd {SOURCE}")

        one = stack.enter_context(
            debian.start_machine(tmp_path, "one", {"OWN-ADDRESS": "192.0.2.11"})
        )
        around.connect(one.leader, "192.0.2.11")
        for page, steps in list_steps(around, keystone, copy_the_disk).items():
            read(one, page, steps)


def list_packages() -> list[str]:
    """What the pages install."""
    texts = [line.text for page in PAGES for line in list_lines(page)]
    named = (text.removeprefix("apt-get install ") for text in texts if "apt-get" in text)
    return sorted({one for several in named for one in several.split()})


def wait_for_postgresql(machine: Machine) -> None:
    """Wait as long as a reader takes to type: apt-get is done before PostgreSQL has started."""
    assert wait_until(lambda: machine.type("pg_isready")[0] == 0, 120)


def configure_keystone(machine: Machine) -> None:
    """Edit the configuration as the page says: the address of keystone."""
    machine.edit(CONFIG, ("https://keystone.example.com/v3", cloud.KEYSTONE))


def configure_noauth2(machine: Machine) -> None:
    """Have the configuration of the source, edited as the page says of ``noauth2``."""
    machine.write(CONFIG, (ROOT / "deploy/placement_sched.conf").read_text())
    machine.edit(CONFIG, ("auth_strategy = keystone", "auth_strategy = noauth2"))


def try_without_keystone(machine: Machine) -> None:
    def restart(one: Machine) -> None:
        configure_noauth2(one)
        one.run("systemctl restart placement-sched")

    run_on_all(restart, [machine, *machine.others])
    machine.open_shell()
    machine.write(f"{SOURCE}/clouds.yaml", read_file("deploy", "clouds.yaml"))


def trust_proxy_headers(machine: Machine) -> None:
    """Edit the configuration as the page says: the proxy's headers are believed."""
    machine.write(CONFIG, f"{machine.read(CONFIG)}{PROXIED}")


def check_stopped(machine: Machine) -> None:
    """See that neither socket nor service is active."""
    status, said = machine.type(f"systemctl is-active {UNITS}")
    assert (status, said) == (3, "inactive\ninactive\n")


def check_stopped_for_now(machine: Machine) -> None:
    check_stopped(machine)
    machine.run(f"systemctl start {UNITS}")


def check_started(machine: Machine) -> None:
    """See that the journal has the line of a server that started, as the guide says."""
    assert "placement-sched serves " in machine.run(OF_LIMITS)


def check_stacks_logged(machine: Machine) -> None:
    """See that the server and its workers wrote the stacks of their threads, and go on."""
    journal = "journalctl --unit placement-sched --grep 'Current thread' --output cat"
    assert wait_until(lambda: len(machine.type(journal)[1].splitlines()) > 1, 30)
    assert machine.run("systemctl is-active placement-sched") == "active\n"


def read_main_pid(machine: Machine) -> str:
    return machine.run("systemctl show --value --property MainPID placement-sched").strip()


class ReloadedServer:
    """A server whose configuration was changed, and whose process goes on."""

    def change(self, machine: Machine) -> None:
        """Change an option of the configuration."""
        self._process = read_main_pid(machine)
        machine.edit(CONFIG, CHANGED)

    def check_reload(self, machine: Machine) -> None:
        """See that the same process has read the change, and change it back."""

        def is_logged() -> bool:
            return "[api] shutdown_delay" in machine.run(OF_LIMITS)

        assert wait_until(is_logged, 60), machine.run(OF_LIMITS)
        assert read_main_pid(machine) == self._process
        answered_here = "curl --silent --fail http://192.0.2.11:8778/healthz/ready"
        assert '"ready"' in machine.run(answered_here)
        machine.edit(CONFIG, CHANGED[::-1])


def add_database_nodes(machine: Machine) -> None:
    """Have nodes by their names, one of which is up, and HAProxy in Apache's place."""
    for one in (machine, *machine.others):
        one.run("echo 192.0.2.11 db1 >> /etc/hosts; echo 192.0.2.12 db2 db3 >> /etc/hosts")
    machine.run("""mariadb --execute "CREATE USER haproxy@'%'" """)
    machine.run("systemctl disable --now apache2 && systemctl enable --now haproxy")
    machine.run(f"systemctl start {UNITS}")


def check_node_answers(machine: Machine) -> None:
    """See that the database answers at the address of HAProxy."""
    account = f"user='placement', password='{PASSWORD}', host='127.0.0.1', port=3307"
    asked = f'/opt/placement_sched/bin/python -c "import pymysql; pymysql.connect({account})"'
    assert wait_until(lambda: machine.type(asked)[0] == 0, 60), machine.type(asked)[1]


def check_haproxy_serves_both(machine: Machine) -> None:
    """See that HAProxy does both: it has a node, and the servers as before."""
    check_node_answers(machine)
    check_answer(machine)


def check_answer(machine: Machine) -> None:
    """Ask by TLS for what the server says of itself."""
    assert wait_until(lambda: '"ready"' in machine.type(f"{ASKED}/healthz/ready")[1], 60)


def check_other_server_answers(machine: Machine) -> None:
    """See that the proxy has an answer to each of many questions without this machine's server."""
    check_answer(machine)
    machine.run(f"systemctl stop {UNITS}")
    many = f"for i in $(seq 20); do {ASKED}/healthz/ready || exit 1; done"
    assert machine.run(many).count('"ready"') == 20
    machine.run(f"systemctl start {UNITS}")


def install_nova(machine: Machine) -> None:
    """Have what nova's packages bring: its group, and its configuration."""
    machine.run("groupadd nova && install -d -m 750 -g nova /etc/nova")
    machine.run("install -m 640 -g nova /dev/null /etc/nova/nova.conf")
    machine.write("/etc/nova/nova.conf", NOVA)


def check_stays_up(unit: str, said: str) -> Callable[[Machine], None]:
    """See that a service without a message bus waits for it, and runs."""

    def check(machine: Machine) -> None:
        def is_waiting() -> bool:
            return said in machine.run(f"journalctl --unit {unit}")

        assert wait_until(is_waiting, 60), machine.run(f"journalctl --unit {unit}")
        assert machine.run(f"systemctl is-active {unit}") == "active\n"

    return check


def check_release(release: str) -> Callable[[Machine], None]:
    """See which release the restarted server is of.

    The proxy has an answer from the other machine while this one's server starts, so its process
    is looked at until it has loaded its modules.
    """

    def check(machine: Machine) -> None:
        def is_of_release() -> bool:
            maps = machine.run(f"cat /proc/{read_main_pid(machine)}/maps")
            return f"placement_sched-{release}/" in maps

        assert wait_until(is_of_release, 60), machine.run(OF_LIMITS)
        check_answer(machine)

    return check


def read_catalogue(machine: Machine) -> set[str]:
    """Return where the catalogue has placement."""
    listed = "client/bin/openstack endpoint list --service placement -f value -c URL"
    return set(machine.run(listed).split())


class MovedPlacement:
    """An OpenStack placement with data, and what it answers before, there, and back."""

    def __init__(self, around: Cloud) -> None:
        self._cloud = around
        self._before: dict[str, object] = {}

    def start_placement(self, machine: Machine) -> None:
        """Have a cloud with a placement on a database of its own, in whose place ours is put."""
        for statement in PREPARED:
            machine.run(f'mariadb --execute "{statement}"')
        self._process = self._cloud.start_placement(PLACEMENT_CONF)
        self._token = machine.run(f"{OPENSTACK} token issue -f value -c id").strip()
        machine.open_shell()
        self._cloud.fill_placement(self._token, providers=24, consumers=31)
        self._before = self._cloud.read_placement(self._token)
        self._cloud.point_to(cloud.PLACEMENT)
        for one in (machine, *machine.others):
            one.run("install -d /etc/placement")
            one.write("/etc/placement/placement.conf", PLACEMENT_CONF)
            one.write(f"{SOURCE}/placement.conf", PLACEMENT_CONF)

    def check_after_move(self, machine: Machine) -> None:
        """See that what clients write after the move is written by our service."""
        assert read_catalogue(machine) == {"https://placement.example.com/placement"}
        assert self._before == self._cloud.read_placement(self._token)
        self._stop_openstack_placement()
        machine.run("client/bin/openstack resource provider create written-by-ours")

    def check_after_return(self, machine: Machine) -> None:
        """See that OpenStack placement, started again, has all that was written meanwhile."""
        self._process = self._cloud.start_placement(PLACEMENT_CONF)
        assert read_catalogue(machine) == {cloud.PLACEMENT}
        (compare,) = (
            line.text for line in list_lines("adopt#placement") if "compare.py" in line.text
        )
        assert "25 resource providers, 31 consumers: both answer the same" in machine.run(compare)
        named = machine.run("client/bin/openstack resource provider list -f value -c name")
        assert "written-by-ours" in named
        assert len(named.split()) == 25

    def check_after_removal(self, machine: Machine) -> None:
        """See that it answers as before when all of ours is dropped, and after an upgrade."""
        self._stop_openstack_placement()
        self._process = self._cloud.start_placement(PLACEMENT_CONF)
        after = self._cloud.read_placement(self._token)
        (new,) = (
            name
            for name, known in after.items()
            if isinstance(known, dict) and known.get("name") == "written-by-ours"
        )
        assert self._before == {k: v for k, v in after.items() if not k.startswith(new)}
        tables = machine.run('mariadb --skip-column-names --execute "SHOW TABLES" placement')
        assert "allocations" in tables
        assert "sched" not in tables

    def _stop_openstack_placement(self) -> None:
        cloud.stop_process(self._process)


def list_steps(
    around: Cloud, keystone: Future[None], copy_the_disk: Callable[[Machine], None]
) -> dict[str, Sequence[Step]]:
    """Return what the prose of each page has its reader do, in the order of the lines."""

    def write_credentials(machine: Machine) -> None:
        keystone.result(timeout=300)
        machine.write(f"{SOURCE}/admin-openrc", cloud.ADMIN)

    moved, reloaded = MovedPlacement(around), ReloadedServer()
    both = f"{PASSWORD}\n{PASSWORD}\n"
    return {
        "deploy": [
            Step("install -m 644 deploy/systemd/placement-sched.service", after=copy_the_disk),
            Step('runuser -l postgres -c "createuser', before=wait_for_postgresql, typed=both),
            Step(". ./admin-openrc", before=write_credentials),
            Step("sed -i", on="each"),
            Step("runuser -u placement-sched", before=configure_keystone, on="each"),
            Step("systemctl daemon-reload", on="each"),
            Step("systemctl enable --now", on="each"),
            Step("curl ", after=check_started, on="each"),
            Step(
                "systemctl reload placement-sched",
                before=reloaded.change,
                after=reloaded.check_reload,
            ),
            Step("systemctl kill -s SIGUSR2", after=check_stacks_logged),
            Step("systemctl stop placement-sched", after=check_stopped_for_now),
            Step("systemctl reload haproxy", after=check_other_server_answers),
            Step("systemctl reload nginx", after=check_other_server_answers),
            Step("client/bin/openstack --os-cloud", before=try_without_keystone),
            Step("systemctl stop", after=check_stopped, on="other"),
            Step("systemctl start", on="other"),
        ],
        "commands": [],
        "metrics": [],
        "adopt#scheduler": [
            Step("install ", before=install_nova),
            Step(
                "systemctl enable",
                after=check_stays_up("placement-sched-nova-scheduler", "does not answer"),
            ),
        ],
        "adopt#shadow": [
            Step(
                "systemctl enable",
                after=check_stays_up("placement-sched-nova-shadow", "requests are not evaluated"),
            )
        ],
        "upgrade": [
            Step("systemctl restart placement-sched", after=check_release("NEW")),
            Step("systemctl stop placement-sched.socket", after=check_stopped, on="each"),
        ],
        "adopt#database": [Step("cp placement.conf", before=moved.start_placement)],
        "adopt#placement": [
            Step("install ", after=trust_proxy_headers, on="each"),
            Step("systemctl daemon-reload", on="each"),
            Step("systemctl enable", on="each"),
            Step("systemctl restart", on="each"),
            Step("curl ", on="each"),
            Step("for endpoint", after=moved.check_after_move),
            Step("for endpoint", after=moved.check_after_return),
            Step("systemctl stop", after=check_stopped, on="each"),
            Step("placement-sched db version", after=moved.check_after_removal),
        ],
        "recipes#mod_wsgi": [
            Step("apt-get install apache2", before=configure_noauth2),
            Step("systemctl restart apache2", after=check_answer),
        ],
        "galera": [
            Step("sed ", before=add_database_nodes),
            Step("systemctl reload haproxy", after=check_haproxy_serves_both),
            Step("apt-get install haproxy", on="other"),
            Step("install ", on="other"),
            Step("haproxy -c", on="other"),
            Step("systemctl reload haproxy", after=check_node_answers, on="other"),
        ],
    }
