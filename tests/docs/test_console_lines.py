"""Each line that a reader is to type is run by a test, or stands here with the reason why not.

A line of the guide is one after ``$`` or ``#`` of a console block. ``test_commands.py`` plays all
``commands`` blocks; of ``console`` blocks tests take some lines from the page and run them with
other folders and addresses. The others are listed: a test asks for the same in other words
(``TRIED``), or no test runs it (``LEFT``). README.md's blocks of ``sh`` are played by
``house/test_readme.py``, and so is the screen "Write a filter"; the rest of its lines are listed.
"""

import re
import shlex

import pytest

from tests.coexistence import test_leaving
from tests.deploy import test_backup, test_page
from tests.empty_databases import KINDS
from tests.house import test_readme
from tests.house.tree import ROOT

GUIDE = ROOT / "doc" / "source"
ROOT_OF_A_MACHINE = "root of a machine with systemd, or Debian's registry"
A_CLOUD = "a keystone, or a catalogue, of a cloud"
A_NOVA = "minutes, and a nova with its databases and bus"

#: Page, the line's beginning, and the test which asks for the same in other words.
TRIED = {
    ("commands", "placement-sched completion"): "cli/test_completion.py",
    ("deploy", "runuser -l postgres"): "deploy/test_page.py",
    ("deploy", "mariadb --execute"): "deploy/test_page.py",
    ("deploy", "systemd-sysusers"): "deploy/test_page.py",
    ("deploy", "haproxy -c"): "deploy/test_page.py",
    ("deploy", "nginx -t"): "deploy/test_page.py",
    ("deploy", "curl "): "deploy/test_page.py",
    ("deploy", "client/bin/openstack "): "deploy/test_tls_in_front.py",
    ("move_placement", "python3 deploy/move/compare.py"): "deploy/test_moving.py",
    ("move_placement", "placement-sched db version"): "cli/test_db.py",
    ("nova_scheduler", "placement-sched nova-scheduler"): "nova/test_service.py",
    ("nova_shadow", "placement-sched nova-shadow"): "nova/shadow",
    ("nova_shadow", "placement-sched nova shadow report"): "cli/test_nova_shadow.py",
    ("policies", "oslopolicy-"): "api/test_rules.py",
    ("try_with_nova", "openstack server create"): "nova/cloud/test_life_of_servers.py",
    ("try_with_nova", "openstack server migrat"): "nova/cloud/test_life_of_servers.py",
    ("try_with_nova", "placement-sched explain"): "docs/test_commands.py",
    ("upgrade", "python3 -m venv"): "deploy/test_page.py",
    ("upgrade", "/opt/placement_sched-NEW/bin/pip"): "deploy/test_page.py",
    ("upgrade", "/opt/placement_sched-NEW/bin/placement-sched status"): "cli/test_status.py",
    ("upgrade", "/opt/placement_sched-NEW/bin/placement-sched db sync"): (
        "deploy/test_rolling_upgrade.py"
    ),
    ("wsgi_servers", "gunicorn "): "deploy/test_wsgi_examples.py",
    ("README", ".venv/bin/placement-sched config validate"): "cli/test_config.py",
    ("README", ".venv/bin/placement-sched db version"): "cli/test_db.py",
    ("README", ".venv/bin/placement-sched db adopt"): "cli/test_db.py",
    ("README", ".venv/bin/placement-sched serve"): "cli/test_serve.py",
    ("README", ".venv/bin/placement-sched adopt nova"): "cli/nova/test_adopt.py",
    ("README", ".venv/bin/placement-sched nova-shadow"): "nova/shadow",
    ("README", ".venv/bin/placement-sched nova shadow report"): "cli/test_nova_shadow.py",
    ("README", ".venv/bin/placement-sched nova-scheduler"): "nova/test_service.py",
    ("README", "curl http://127.0.0.1:8778/healthz/ready"): "deploy/test_page.py",
    ("README", "make demo"): "cli/test_demo.py",
}
#: Page, the line's beginning, and what it needs that a test has not.
LEFT = {
    ("deploy", "apt-get install"): ROOT_OF_A_MACHINE,
    ("deploy", "git clone ADDRESS"): "an address of the repository",
    ("deploy", "cd "): "nothing: the tests start there",
    ("deploy", "systemctl "): ROOT_OF_A_MACHINE,
    ("deploy", "openstack service create"): A_CLOUD,
    ("deploy", "openstack endpoint create"): A_CLOUD,
    ("deploy", "python3 -m venv client"): "the newest client of a registry",
    ("deploy", "client/bin/pip install"): "the newest client of a registry",
    ("deploy", "docker build"): "docker",
    ("move_placement", "install -m 640 -g"): ROOT_OF_A_MACHINE,
    ("move_placement", "export OS_TOKEN"): A_CLOUD,
    ("move_placement", "systemctl stop"): ROOT_OF_A_MACHINE,
    ("nova_scheduler", "install -m 644 deploy/systemd/"): ROOT_OF_A_MACHINE,
    ("nova_scheduler", "systemctl "): ROOT_OF_A_MACHINE,
    ("nova_tests", "make nova-functional"): A_NOVA,
    ("try_with_nova", "make nova-cloud"): A_NOVA,
    ("try_with_nova", "openstack compute service list"): A_NOVA,
    ("try_with_nova", "openstack server show"): A_NOVA,
    ("try_with_nova", "openstack server event list"): A_NOVA,
    ("try_with_nova", "curl "): A_NOVA,
    ("upgrade", "systemctl "): ROOT_OF_A_MACHINE,
    ("wsgi_servers", "apt-get install"): ROOT_OF_A_MACHINE,
    ("wsgi_servers", "a2en"): ROOT_OF_A_MACHINE,
    ("wsgi_servers", "install "): ROOT_OF_A_MACHINE,
    ("wsgi_servers", "apache2ctl "): ROOT_OF_A_MACHINE,
    ("wsgi_servers", "systemctl "): ROOT_OF_A_MACHINE,
    ("README", "journalctl "): ROOT_OF_A_MACHINE,
    ("README", "make test"): "it is the run of the tests",
    ("README", "make nova-cloud"): A_NOVA,
}
_PROMPT = re.compile(r"^ *[$#] (.+)", re.MULTILINE)


def of_the_guide() -> list[tuple[str, str]]:
    """Every line of a ``console`` block of the guide, with its page."""
    found = []
    for path in sorted(GUIDE.glob("*.rst")):
        page = re.sub(r"\\\n\s+", "", path.read_text())
        blocks = re.findall(r"^ *.. code-block:: console\n\n((?: +.*\n|\n)+)", page, re.MULTILINE)
        found += [(path.stem, line) for block in blocks for line in _PROMPT.findall(block)]
    return found


def of_the_readme() -> list[tuple[str, str]]:
    """Every line of README.md that is typed and that no other test takes from there."""
    played = test_readme.commands_of("Write a filter")
    starts = (".venv/", "make ", "curl ", "journalctl ", "PYTHONPATH=", "sudo ", "placement-sched")
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", test_readme.README, re.DOTALL | re.MULTILINE)
    lines = [line for language, text in fences if not language for line in text.splitlines()]
    return [("README", one) for one in lines if one.startswith(starts) and one not in played]


def taken_from_the_page() -> dict[str, list[list[str]]]:
    """By page, the lines that tests run as they stand there, in words."""
    backups = [shlex.split(line) for kind in KINDS for line in test_backup.commands(kind)]
    leaving = [shlex.split(test_leaving.line_of(name)) for name in ("psql", "mariadb", "sqlite3")]
    linked = [one for one in test_page.commands(test_page.UPGRADE) if one[0] == "ln"]
    return {
        "deploy": test_page.of_a_machine() + test_page.of_a_proxy(),
        "move_placement": leaving,
        "upgrade": backups + linked,
    }


LINES = of_the_guide() + of_the_readme()


@pytest.mark.parametrize(("page", "line"), LINES)
def test_line_is_run_by_a_test_or_listed_once(page, line):
    taken = shlex.split(line) in taken_from_the_page().get(page, [])
    listed = [key for key in (*TRIED, *LEFT) if key[0] == page and line.startswith(key[1])]
    assert taken + len(listed) == 1, (line, taken, listed)


def test_nothing_is_listed_that_no_page_has():
    unused = [
        key
        for key in (*TRIED, *LEFT)
        if not any(key[0] == page and line.startswith(key[1]) for page, line in LINES)
    ]
    assert unused == []


@pytest.mark.parametrize("test", sorted(set(TRIED.values())))
def test_tests_that_are_named_are_there(test):
    assert (ROOT / "tests" / test).exists()
