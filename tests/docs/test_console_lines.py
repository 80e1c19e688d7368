# SPDX-License-Identifier: Apache-2.0
"""Each console line of the documentation is run by a test or listed with a reason.

A console line follows ``$`` or ``#`` in a console block. ``test_commands.py`` runs the blocks of
the class ``played``. ``deploy/reader.py`` types other lines for operators on a Debian, with
replacements for some words. Further tests read lines from the page (``lines_that_tests_run``,
``test_typed_lines.py``). ``CANNOT`` lists the remaining lines, each with the reason and a test that
does the same. Lines of README.md, deploy/README.md and the heads of the files in ``deploy`` are
included.

``CANNOT`` has whole lines, so that a change of a page is also a change here. The argument parser
reads every line that calls our program. Blocks outside consoles may contain only the synopsis of a
command, whose options must exist.
"""

import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from placement_sched.cli.completion import all_commands
from placement_sched.cli.main import make_parser
from tests.coexistence import test_leaving
from tests.deploy import reader, test_backup, test_heads, test_image, test_manifests
from tests.docs import test_typed_lines
from tests.house.test_makefile import TARGETS
from tests.support.empty_databases import KINDS
from tests.support.repository import ROOT

pytestmark = pytest.mark.slow

GUIDE = ROOT / "doc" / "source"
A_NOVA = "the nova of make nova-cloud, which tests/nova/cloud starts without make"
HOURS = "minutes to hours, and OpenStack's service beside"
A_BUS = "nova's configuration in /etc; tests/nova/cloud types it with one of its own"
A_SHADOW = "nova's configuration in /etc; tests/nova/shadow types it with one of its own"
COPIED = "a MariaDB of a cloud; a backup of one is loaded the same way"
REGISTRY = "images of a registry, and Docker"
AN_INDEX = "pip's index"
MEASURED = "bench/test_running.py"
LIFE = "nova/cloud/test_life_of_servers.py"
DRAIN = "nova/cloud/test_drain.py"
SHADOW = "nova/shadow/test_with_nova_scheduler.py"
PACKAGED = "house/test_packaging.py"
A_KOLLA = "a cloud of kolla-ansible"
KOLLA = "deploy/test_kolla.py"
_KOLLA = "REGISTRY/placement-api-sched:TAG"
_RECONFIGURE = "kolla-ansible reconfigure --inventory INVENTORY --tags"
_VALIDATE = "docker exec placement_api placement-sched config validate"
_RUN, _DETACHED = "deploy/kolla/run.sh", "--detach --restart unless-stopped"
_REPORT = "docker exec placement_sched_nova_shadow placement-sched nova-shadow report"
_UNIT = "kolla-nova_scheduler-container.service"
_CONTAINERS = "placement_sched_nova_scheduler placement_sched_nova_shadow"
_NOVA = "--config-file /etc/nova/nova.conf --config-file"
_CANDIDATES = ".venv/bin/python bench/candidates.py"
_UNCACHED = f"OS_PLACEMENT__PROVIDERS_IN_MEMORY=false {_CANDIDATES}"
_READS = f"{_CANDIDATES} --only flat,nested,shared,reads"
_SEARCHES = f"{_CANDIDATES} --only flat,nested,shared"
_GROWTH = "--only growth --sizes growth=10000:100000"
_APPLICATION = "placement_sched.wsgi:application"
_CONFIG = "/etc/placement_sched/placement_sched.conf"
_FIGURES = "PROMETHEUS_MULTIPROC_DIR=/run/placement_sched/metrics"
_COPY = "copy@'%'"
_CURL, _REQUEST = "curl -H 'X-Auth-Token: admin'", "req-cba982f6-96ea-439c-9afa-5f017ebf9b1c"
_WHEEL = "dist/placement_sched-VERSION-py3-none-any.whl"
_SERVER = "openstack server create --image cirros --flavor"

#: Page and line, with the reason why no test types the line and a test of an equal request.
CANNOT = {
    ("adopt", f"placement-sched nova-scheduler {_NOVA} placement_sched.conf"): (A_BUS, LIFE),
    ("adopt", f"placement-sched nova-shadow {_NOVA} placement_sched.conf"): (A_SHADOW, SHADOW),
    ("testing", "make test-only WHAT=nova-functional ONLY=test_routed_networks BESIDE=1"): (
        "minutes: a selection of the same tests is run",
        "nova/functional",
    ),
    ("adopt", "mariadb-dump --single-transaction placement > placement.sql"): (
        COPIED,
        "deploy/test_backup.py",
    ),
    ("adopt", 'mariadb --execute "CREATE DATABASE placement_copy"'): (
        COPIED,
        "deploy/test_backup.py",
    ),
    ("adopt", f"mariadb --execute \"CREATE USER {_COPY} IDENTIFIED BY 'CHANGE-ME'\""): (
        COPIED,
        "deploy/test_backup.py",
    ),
    ("adopt", f'mariadb --execute "GRANT ALL ON placement_copy.* TO {_COPY}"'): (
        COPIED,
        "deploy/test_backup.py",
    ),
    ("adopt", "mariadb placement_copy < placement.sql"): (COPIED, "deploy/test_backup.py"),
    ("adopt", "openstack server show web1 -c flavor -c image -c project_id"): (A_NOVA, LIFE),
    ("adopt", "openstack flavor show m1.large -f yaml -c vcpus -c ram -c disk -c properties"): (
        A_NOVA,
        LIFE,
    ),
    ("adopt", "make nova-cloud"): (A_NOVA, LIFE),
    ("adopt", "openstack compute service list -c Binary -c Host -c State"): (
        A_NOVA,
        "nova/cloud/test_interruptions.py",
    ),
    ("adopt", f"{_SERVER} m1.tiny --nic none --wait one"): (A_NOVA, LIFE),
    ("adopt", "openstack server migrate --wait one"): (A_NOVA, LIFE),
    ("adopt", "openstack server migration confirm one"): (A_NOVA, LIFE),
    ("adopt", f"{_SERVER} m1.giant --nic none giant"): (A_NOVA, LIFE),
    ("adopt", "openstack server show giant -c fault -f value"): (A_NOVA, LIFE),
    ("adopt", 'openstack server event list giant -c "Request ID" -f value'): (A_NOVA, LIFE),
    ("adopt", f"""{_CURL} "$SCHED/scheduler/v1/decisions?request_id={_REQUEST}\""""): (
        f"{A_NOVA}, and its request",
        "api/scheduler/test_decisions.py",
    ),
    ("adopt", "placement-sched explain --url $SCHED --vcpus 1 --ram 1000000 --disk 1"): (
        f'{A_NOVA}; the page "Install" has a request to another server',
        "docs/test_commands.py",
    ),
    ("plan", 'placement-sched host drain cn7 --os-cloud mycloud --execute --reason "new fan"'): (
        A_NOVA,
        DRAIN,
    ),
    ("plan", "placement-sched host undrain cn7 --os-cloud mycloud"): (A_NOVA, DRAIN),
    ("install", "python3 -m venv ~/placement_sched"): (AN_INDEX, PACKAGED),
    ("install", "~/placement_sched/bin/pip install '.[all]'"): (AN_INDEX, PACKAGED),
    ("install", f"pipx run --spec '{_WHEEL}[server]' placement-sched demo --console"): (
        "pipx",
        PACKAGED,
    ),
    ("benchmarks", "make bench"): (HOURS, MEASURED),
    ("benchmarks", "make bench DATABASE=mariadb"): (HOURS, MEASURED),
    ("benchmarks", "make bench QUICK=1"): (HOURS, MEASURED),
    ("benchmarks", 'make bench BENCH_ARGS="--only flat,nested --rounds 15"'): (HOURS, MEASURED),
    ("benchmarks", f"{_READS} --database postgresql --rounds 3 --seconds 6"): (HOURS, MEASURED),
    ("benchmarks", f"{_UNCACHED} --only flat,nested --database mariadb --rounds 1 --seconds 2"): (
        HOURS,
        MEASURED,
    ),
    ("benchmarks", f"{_SEARCHES} --database mariadb,galera --rounds 3 --seconds 6"): (
        HOURS,
        MEASURED,
    ),
    (
        "how_current",
        f'OS_PLACEMENT__PROVIDERS_IN_MEMORY=true make bench BENCH_ARGS="{_GROWTH} --no-peer"',
    ): (HOURS, MEASURED),
    ("console", "placement-sched demo --console"): ("a signal that ends it", "cli/test_demo.py"),
    ("deploy/README", "docker compose up --build --wait"): (REGISTRY, "deploy/test_container.py"),
    ("deploy/README", "curl --cacert tls/cert.pem https://localhost:8443/healthz/ready"): (
        REGISTRY,
        "deploy/test_tls_in_front.py",
    ),
    ("deploy/README", "docker compose down --volumes"): (REGISTRY, "deploy/test_container.py"),
    (
        "recipes",
        f"docker build --file deploy/kolla/Dockerfile --build-arg BASE=BASE-IMAGE --tag {_KOLLA} .",
    ): (REGISTRY, KOLLA),
    ("recipes", f"docker push {_KOLLA}"): (REGISTRY, KOLLA),
    ("recipes", f"{_RECONFIGURE} mariadb,placement"): (A_KOLLA, KOLLA),
    ("recipes", f"{_RECONFIGURE} placement"): (A_KOLLA, KOLLA),
    ("recipes", f"{_VALIDATE} --config-file /etc/placement/placement.conf"): (A_KOLLA, KOLLA),
    ("recipes", f"{_RUN} nova-shadow {_KOLLA} --rm --env KOLLA_BOOTSTRAP="): (A_KOLLA, KOLLA),
    ("recipes", f"{_RUN} nova-shadow {_KOLLA} {_DETACHED}"): (A_KOLLA, KOLLA),
    ("recipes", f"{_RUN} nova-scheduler {_KOLLA} {_DETACHED}"): (A_KOLLA, KOLLA),
    ("recipes", f"{_REPORT} --config-file /etc/placement/placement.conf"): (A_KOLLA, KOLLA),
    ("recipes", f"systemctl disable --now {_UNIT}"): (A_KOLLA, KOLLA),
    ("recipes", f"systemctl enable --now {_UNIT}"): (A_KOLLA, KOLLA),
    ("recipes", f"docker stop {_CONTAINERS}"): (A_KOLLA, KOLLA),
    ("recipes", f"docker rm {_CONTAINERS}"): (A_KOLLA, KOLLA),
    ("README", "python3 -m venv venv"): (AN_INDEX, PACKAGED),
    ("README", ". venv/bin/activate"): ("the environment of the line before", PACKAGED),
    ("README", "pip install '.[all]'"): (AN_INDEX, PACKAGED),
    ("README", "placement-sched demo --console"): ("a signal that ends it", "cli/test_demo.py"),
    ("README", "make test"): ("nothing: it is the run of the tests", ""),
    ("README", "make demo CONSOLE=1"): (
        "pip's index, and a signal that ends it",
        "cli/test_demo.py",
    ),
    ("README", f"placement-sched nova-shadow {_NOVA} placement_sched.conf"): (A_SHADOW, SHADOW),
    ("README", f"placement-sched nova-scheduler {_NOVA} placement_sched.conf"): (A_BUS, LIFE),
    (
        "deploy/move/compare.py",
        "python3 compare.py http://old:8778 https://placement.example.com/placement",
    ): ("nothing: the line of the page has other addresses", "deploy/test_moving.py"),
    (
        "deploy/wsgi/gunicorn.conf.py",
        f"PLACEMENT_SCHED_CONFIG=... gunicorn --config gunicorn.conf.py {_APPLICATION}",
    ): ("nothing: it is started on a free port", "deploy/test_wsgi_examples.py"),
    (
        "deploy/wsgi/uwsgi.ini",
        f"PLACEMENT_SCHED_CONFIG={_CONFIG} {_FIGURES} uwsgi --ini uwsgi.ini",
    ): ("nothing: it is started on a free port", "deploy/test_wsgi_examples.py"),
}
_PROMPT = re.compile(r"^ *[$#] (.+)", re.MULTILINE)
_CONSOLE = re.compile(
    r"^( *).. code-block:: console\n(?! +:class: played)(?:\1 +:.*\n)*\n((?:\1 +.*\n|\n)+)",
    re.MULTILINE,
)
#: A line that begins with a program, after variables that are set for it.
_TYPED = re.compile(
    r"^(?:\w+=\S* )*(?:[\w.~/-]*/)?(?:apt-get|cat|cd|curl|docker|echo|export|git|haproxy|install"
    r"|journalctl|kubectl|ln|make|mariadb|mkdir|nginx|openssl|openstack|pip"
    r"|placement-(?:manage|sched)|podman|printf|promtool|psql|python3?|runuser|sed|sqlite3|sudo"
    r"|systemctl|uwsgi|gunicorn)(?: |$)",
    re.MULTILINE,
)
#: A block of plain text after ``::``, or of a language other than that of a console.
_LITERAL = re.compile(
    r"^(?:(?! *\.\. ).*::| *\.\. code-block:: (?!console|json|yaml|python|ini|sql).*)\n"
    r"(?: +:.*\n)*\n((?: +.*\n|\n)+)",
    re.MULTILINE,
)


def guide_lines() -> list[tuple[str, str]]:
    """Return every line of a ``console`` block of the guide with its page."""
    lines = []
    for path in sorted(GUIDE.glob("*.rst")):
        page = re.sub(r"\\\n\s+", "", path.read_text())
        blocks = _CONSOLE.findall(page)
        lines += [(path.stem, line) for _, block in blocks for line in _PROMPT.findall(block)]
    return lines


def readme_lines() -> list[tuple[str, str]]:
    """Return every console line of README.md and deploy/README.md with its page."""
    lines = []
    for page in ("README", "deploy/README"):
        text = re.sub(r"\\\n\s+", "", (ROOT / f"{page}.md").read_text())
        fences = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        typed = [block for language, block in fences if language in {"", "console"}]
        blocks = [block for block in typed if _TYPED.search(block)]
        lines += [(page, line) for block in blocks for line in block.splitlines()]
    return lines


def lines_outside_console_blocks() -> list[tuple[str, str]]:
    """Return every line outside console blocks that begins with a program, with its page."""
    lines = []
    for path in sorted(GUIDE.rglob("*.rst")):
        blocks = _LITERAL.findall(path.read_text())
        joined = [re.sub(r"\n +(?=[\[|])", " ", textwrap.dedent(block)) for block in blocks]
        lines += [(path.stem, line) for block in joined for line in block.splitlines()]
    return [(page, line) for page, line in lines if _TYPED.match(line)]


def lines_that_tests_run() -> dict[str, list[list[str]]]:
    """Return by page the words of the lines that tests run unchanged."""
    taken = [("upgrade", line) for kind in KINDS for line in test_backup.read_commands(kind)]
    names = ("psql", "mariadb", "sqlite3")
    taken += [("adopt", test_leaving.documented_command(name)) for name in names]
    taken += test_typed_lines.list_tested_lines() + test_heads.typed_lines()
    taken += [("deploy/README", line) for line in test_manifests.readme_lines()]
    names = ("build", "run --read-only", "run --publish")
    taken += [("deploy/container/Dockerfile", test_image.read_line(name)) for name in names]
    taken += [("deploy", test_image.read_line(name)) for name in ("build", "run --publish")]
    taken += [(line.page, line.text) for part in reader.PAGES for line in reader.list_lines(part)]
    taken += [("limits", reader.OF_LIMITS), ("deploy/nginx/placement-sched.conf", "nginx -t")]
    lines: dict[str, list[list[str]]] = {}
    for page, line in taken:
        lines.setdefault(page, []).append(split_line(line))
    return lines


def split_line(line: str) -> list[str]:
    """Return the words of a line without its comment."""
    return shlex.split(line, comments=True)


TAKEN = lines_that_tests_run()
LISTED = [(page, split_line(line)) for page, line in CANNOT]
LINES = guide_lines() + readme_lines() + test_heads.lines_in_file_headers()


@pytest.mark.parametrize(("page", "line"), LINES)
def test_console_line_is_run_by_a_test_or_listed_once(page, line):
    taken, listed = split_line(line) in TAKEN.get(page, []), LISTED.count((page, split_line(line)))
    assert taken + listed == 1, (line, taken, listed)


def test_every_listed_line_is_on_a_page():
    on_pages = [(page, split_line(line)) for page, line in LINES]
    assert [line for line in LISTED if line not in on_pages] == []


def test_command_of_the_nginx_file_is_on_the_page():
    """The lines above include it for the head of the file."""
    assert split_line("nginx -t") in TAKEN["deploy"]


def program_lines() -> list[tuple[str, list[str]]]:
    """Return the arguments of each line that calls our program, with its page."""
    calls = []
    for page, line in LINES:
        typed = split_line(line)
        for number, word in enumerate(typed):
            before = typed[number - 1] if number else "--"
            if Path(word).name == "placement-sched" and (before == "--" or "=" in before):
                rest = typed[number + 1 :]
                ends = [n for n, each in enumerate(rest) if each in {">", "<", "|", "&&"}]
                calls.append((page, rest[: min(ends, default=len(rest))]))
    return calls


@pytest.mark.parametrize(("page", "arguments"), program_lines())
def test_program_line_has_valid_arguments(page, arguments):
    assert make_parser(arguments).parse_args(arguments).run, page


@pytest.mark.parametrize("line", [line for _, line in CANNOT if "make " in line])
def test_make_line_has_an_existing_target_and_variables(line):
    _, target, *settings = [word for word in split_line(line) if not word.startswith("OS_")]
    assert target in TARGETS
    used = set(re.findall(r"\$\((?:if \$\()?([A-Z_]+)", (ROOT / "Makefile").read_text()))
    assert {setting.partition("=")[0] for setting in settings} <= used


@pytest.fixture(scope="module")
def benchmark_options() -> set[str]:
    command = [sys.executable, ROOT / "bench/candidates.py", "--help"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return set(re.findall(r"--[\w-]+", printed.stdout))


@pytest.mark.parametrize("line", [line for _, line in CANNOT if " --only " in line])
def test_benchmark_line_has_valid_options(benchmark_options, line):
    assert set(re.findall(r"--[a-z][\w-]*", line)) <= benchmark_options


@pytest.mark.parametrize("test", sorted({test for _, test in CANNOT.values() if test}))
def test_named_tests_exist(test):
    assert (ROOT / "tests" / test).exists()


@pytest.mark.parametrize(("page", "line"), lines_outside_console_blocks())
def test_other_blocks_contain_only_synopses(page, line):
    """A synopsis contains a placeholder in capitals or an optional part."""
    assert re.search(r"\[|\b[A-Z]{3,}\b", line), f"{page}: {line} is no synopsis"
    commands = dict(all_commands(make_parser((), whole=True)))
    text = commands[" ".join(line.split()[:3])].format_help()
    assert [option for option in re.findall(r"--[\w-]+", line) if option not in text] == []
