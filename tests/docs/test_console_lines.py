"""Each line that a reader is to type is run by a test, or stands here with the reason why not.

A line of the guide is one after ``$`` or ``#`` of a console block: other blocks have none, but for
the synopsis of a command, whose options are looked up. ``test_commands.py`` plays all ``commands``
blocks. Of ``console`` blocks, those of the pages for operators are typed as printed on an empty
Debian (``deploy/reader.py``, with what is written for a word of a page), others by tests that take
them from the page (``taken_from_the_page``, ``test_typed_lines.py``). The rest cannot be typed
here as they stand (``CANNOT``), with what asks for the same. README.md's blocks of ``sh`` are
played by ``house/test_readme.py``, and so is the screen "Write a filter"; the rest of its lines,
and those of deploy/README.md, are counted likewise.
"""

import re
import shlex
import textwrap

import pytest

from placement_sched.cli.completion import all_commands
from placement_sched.cli.main import make_parser
from tests.coexistence import test_leaving
from tests.deploy import reader, test_backup
from tests.docs import test_typed_lines
from tests.empty_databases import KINDS
from tests.house import test_readme
from tests.house.tree import ROOT

GUIDE = ROOT / "doc" / "source"
A_NOVA = "a nova with its databases and bus, for minutes"
A_CLUSTER = "a cluster of Kubernetes"
HOURS = "minutes to hours, and OpenStack's service beside"
A_BUS = "a RabbitMQ and a nova's databases at the addresses of the page"

#: Page, the line's beginning, what it needs that this machine has not, and what is run instead.
CANNOT = {
    ("deploy", "docker build"): ("a registry", "deploy/test_image.py"),
    ("nova_scheduler", "placement-sched nova-scheduler"): (A_BUS, "nova/test_service.py"),
    ("nova_shadow", "placement-sched nova-shadow"): (A_BUS, "nova/shadow"),
    ("nova_tests", "make nova-functional"): (A_NOVA, "nova/functional"),
    ("try_with_nova", "make nova-cloud"): (A_NOVA, "nova/cloud"),
    ("try_with_nova", "openstack "): (A_NOVA, "nova/cloud/test_life_of_servers.py"),
    ("try_with_nova", "curl "): (A_NOVA, "nova/cloud"),
    ("try_with_nova", "placement-sched explain"): (A_NOVA, "docs/test_commands.py"),
    ("install", "python3 -m venv"): ("pip's index", "deploy/test_pages_on_a_machine.py"),
    ("install", "~/placement_sched/bin/pip"): ("pip's index", "deploy/test_pages_on_a_machine.py"),
    ("console", "placement-sched demo"): ("nothing: it ends with Ctrl-C", "cli/test_demo.py"),
    ("benchmarks", "make bench"): (HOURS, "bench/test_running.py"),
    ("benchmarks", ".venv/bin/python bench/candidates.py"): (HOURS, "bench/test_running.py"),
    ("large_clouds", "OS_PLACEMENT__PROVIDERS_IN_MEMORY=true make bench"): (
        HOURS,
        "bench/test_running.py",
    ),
    ("large_clouds", "OS_PLACEMENT__PROVIDERS_IN_MEMORY=true .venv/bin/python"): (
        "a PostgreSQL with a cloud of 1 000 000 hosts",
        "",
    ),
    ("deploy/README", "kubectl "): (A_CLUSTER, "deploy/test_manifests.py"),
    ("README", "python3 -m venv"): ("pip's index", "deploy/test_pages_on_a_machine.py"),
    ("README", ".venv/bin/pip"): ("pip's index", "deploy/test_pages_on_a_machine.py"),
    ("README", "journalctl "): ("the journal of a systemd", "deploy/test_pages_on_a_machine.py"),
    ("README", "make test"): ("nothing: it is the run of the tests", ""),
    ("README", "make demo"): ("nothing: it ends with Ctrl-C", "cli/test_demo.py"),
    ("README", "make nova-cloud"): (A_NOVA, "nova/cloud"),
    ("README", ".venv/bin/placement-sched nova-shadow"): (A_BUS, "nova/shadow"),
    ("README", ".venv/bin/placement-sched nova-scheduler"): (A_BUS, "nova/test_service.py"),
    ("README", ".venv/bin/placement-sched serve\n"): (
        "nothing: house/test_readme.py starts it on a free port",
        "house/test_readme.py",
    ),
}
_PROMPT = re.compile(r"^ *[$#] (.+)", re.MULTILINE)
#: A line that begins with a program, after what is set for it alone.
_TYPED = re.compile(
    r"^(?:\w+=\S* )*(?:[\w.~/-]*/)?(?:apt-get|cd|curl|docker|echo|export|git|journalctl|kubectl"
    r"|make|mariadb|openssl|openstack|pip|placement-(?:manage|sched)|podman|printf|psql|python3?|sqlite3"
    r"|sudo|systemctl|uwsgi|gunicorn)(?: |$)",
    re.MULTILINE,
)
#: A block of plain text: after ``::``, or of a language that is none of a console.
_LITERAL = re.compile(
    r"^(?:(?! *\.\. ).*::| *\.\. code-block:: (?!console|json|yaml|python|ini|sql).*)\n"
    r"(?: +:.*\n)*\n((?: +.*\n|\n)+)",
    re.MULTILINE,
)


def of_the_guide() -> list[tuple[str, str]]:
    """Every line of a ``console`` block of the guide, with its page."""
    found = []
    for path in sorted(GUIDE.glob("*.rst")):
        page = re.sub(r"\\\n\s+", "", path.read_text())
        blocks = re.findall(r"^ *.. code-block:: console\n\n((?: +.*\n|\n)+)", page, re.MULTILINE)
        found += [(path.stem, line) for block in blocks for line in _PROMPT.findall(block)]
    return found


def of_the_readmes() -> list[tuple[str, str]]:
    """Every line of README.md and deploy/README.md that no other test takes from there."""
    played = test_readme.commands_of("Write a filter")
    found = []
    for page in ("README", "deploy/README"):
        text = re.sub(r"\\\n\s+", "", (ROOT / f"{page}.md").read_text())
        fences = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        blocks = [block for language, block in fences if not language and _TYPED.search(block)]
        found += [(page, line) for block in blocks for line in block.splitlines()]
    return [(page, line) for page, line in found if line not in played]


def elsewhere() -> list[tuple[str, str]]:
    """Every line of the guide that begins with a program and is in no console block."""
    found = []
    for path in sorted(GUIDE.rglob("*.rst")):
        blocks = _LITERAL.findall(path.read_text())
        joined = [re.sub(r"\n +(?=[\[|])", " ", textwrap.dedent(block)) for block in blocks]
        found += [(path.stem, line) for one in joined for line in one.splitlines()]
    return [(page, line) for page, line in found if _TYPED.match(line)]


def taken_from_the_page() -> dict[str, list[list[str]]]:
    """By page, the lines that tests run as they stand there, in words."""
    taken = [("upgrade", line) for kind in KINDS for line in test_backup.commands(kind)]
    names = ("psql", "mariadb", "sqlite3")
    taken += [("move_placement", test_leaving.line_of(name)) for name in names]
    taken += test_typed_lines.typed()
    taken += [(page, line.text) for page in reader.PAGES for line in reader.lines_of(page)]
    found: dict[str, list[list[str]]] = {}
    for page, line in taken:
        found.setdefault(page, []).append(shlex.split(line))
    return found


TAKEN = taken_from_the_page()
LINES = of_the_guide() + of_the_readmes()


@pytest.mark.parametrize(("page", "line"), LINES)
def test_line_is_run_by_a_test_or_listed_once(page, line):
    taken = shlex.split(line) in TAKEN.get(page, [])
    listed = [key for key in CANNOT if key[0] == page and f"{line}\n".startswith(key[1])]
    assert taken + len(listed) == 1, (line, taken, listed)


def test_nothing_is_listed_that_no_page_has():
    unused = [
        key
        for key in CANNOT
        if not any(key[0] == page and f"{line}\n".startswith(key[1]) for page, line in LINES)
    ]
    assert unused == []


@pytest.mark.parametrize("test", sorted({test for _, test in CANNOT.values() if test}))
def test_tests_that_are_named_are_there(test):
    assert (ROOT / "tests" / test).exists()


@pytest.mark.parametrize(("page", "line"), elsewhere())
def test_other_blocks_have_synopses_alone(page, line):
    """A synopsis has what is to be replaced, or may be left out."""
    assert re.search(r"\[|\b[A-Z]{3,}\b", line), f"{page}: {line} is no synopsis"
    commands = dict(all_commands(make_parser((), whole=True)))
    known = commands[" ".join(line.split()[:3])].format_help()
    assert [one for one in re.findall(r"--[\w-]+", line) if one not in known] == []
