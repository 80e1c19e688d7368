# SPDX-License-Identifier: Apache-2.0
"""Each console line of the documentation is run by a test or listed with a reason.

A console line follows ``$`` or ``#`` in a console block. ``test_commands.py`` runs the blocks of
the class ``played``. ``deploy/page_reader.py`` types other lines for operators on a Debian, with
replacements for some words. Further tests read lines from the page (``list_tested_console_lines``,
``test_typed_lines.py``). ``untyped_lines.txt`` lists the remaining lines, with reasons and with
tests of equal requests. Lines of README.md, deploy/README.md and the heads of the files in
``deploy`` are included.

The list has whole lines, so that a change of a page is also a change there. The argument parser
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

from placement_sched.cli.completion import iterate_commands
from placement_sched.cli.main import make_parser
from tests.deploy import page_reader, test_backup, test_file_headers, test_image, test_manifests
from tests.docs import test_typed_lines
from tests.support.empty_databases import DATABASE_KINDS
from tests.support.repository import MAKE_TARGETS, ROOT

pytestmark = pytest.mark.slow

GUIDE_FOLDER = ROOT / "doc" / "source"


def read_untyped_lines() -> dict[tuple[str, str], str]:
    """Return the test of each page and line in ``untyped_lines.txt``, or "none"."""
    lines, test = {}, ""
    for text in Path(__file__).with_name("untyped_lines.txt").read_text().splitlines():
        if heading := re.match(r"\[(\S+)\] .", text):
            test = heading[1]
        elif text and not text.startswith("#"):
            page, _, line = text.partition(": ")
            lines[page, line] = test
    return lines


#: Page and line, with the test.
UNTYPED_LINES = read_untyped_lines()
_PROMPTED_LINE = re.compile(r"^ *[$#] (.+)", re.MULTILINE)
_CONSOLE_BLOCK = re.compile(
    r"^( *).. code-block:: console\n(?! +:class: played)(?:\1 +:.*\n)*\n((?:\1 +.*\n|\n)+)",
    re.MULTILINE,
)
#: A line that begins with a program, after variables that are set for it.
_COMMAND_LINE = re.compile(
    r"^(?:\w+=\S* )*(?:[\w.~/-]*/)?(?:apt-get|cat|cd|curl|docker|echo|export|git|haproxy|install"
    r"|journalctl|kubectl|ln|make|mariadb|mkdir|nginx|openssl|openstack|pip"
    r"|placement-(?:manage|sched)|podman|printf|promtool|psql|python3?|runuser|sed|sqlite3|sudo"
    r"|systemctl|uwsgi|gunicorn)(?: |$)",
    re.MULTILINE,
)
#: A block of plain text after ``::``, or of a language other than that of a console.
_LITERAL_BLOCK = re.compile(
    r"^(?:(?! *\.\. ).*::| *\.\. code-block:: (?!console|json|yaml|python|ini|sql).*)\n"
    r"(?: +:.*\n)*\n((?: +.*\n|\n)+)",
    re.MULTILINE,
)


def list_console_lines_of_guide() -> list[tuple[str, str]]:
    """Return every line of a ``console`` block of the guide with its page."""
    lines = []
    for path in sorted(GUIDE_FOLDER.glob("*.rst")):
        page = re.sub(r"\\\n\s+", "", path.read_text())
        blocks = _CONSOLE_BLOCK.findall(page)
        lines += [
            (path.stem, line) for _, block in blocks for line in _PROMPTED_LINE.findall(block)
        ]
    return lines


def list_console_lines_of_readmes() -> list[tuple[str, str]]:
    """Return every console line of README.md and deploy/README.md with its page."""
    lines = []
    for page in ("README", "deploy/README"):
        text = re.sub(r"\\\n\s+", "", (ROOT / f"{page}.md").read_text())
        fences = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        typed = [block for language, block in fences if language in {"", "console"}]
        blocks = [block for block in typed if _COMMAND_LINE.search(block)]
        lines += [(page, line) for block in blocks for line in block.splitlines()]
    return lines


def list_lines_outside_console_blocks() -> list[tuple[str, str]]:
    """Return every line outside console blocks that begins with a program, with its page."""
    lines = []
    for path in sorted(GUIDE_FOLDER.rglob("*.rst")):
        blocks = _LITERAL_BLOCK.findall(path.read_text())
        joined = [re.sub(r"\n +(?=[\[|])", " ", textwrap.dedent(block)) for block in blocks]
        lines += [(path.stem, line) for block in joined for line in block.splitlines()]
    return [(page, line) for page, line in lines if _COMMAND_LINE.match(line)]


def list_tested_console_lines() -> dict[str, list[list[str]]]:
    """Return by page the words of the lines that tests run unchanged."""
    taken = [
        ("upgrade", line)
        for kind in DATABASE_KINDS
        for line in test_backup.read_backup_commands(kind)
    ]
    taken += test_typed_lines.list_tested_lines() + test_file_headers.list_tested_lines()
    taken += [("deploy/README", line) for line in test_manifests.read_readme_lines()]
    names = ("build", "run --read-only", "run --publish")
    taken += [
        ("deploy/container/Dockerfile", test_image.read_documented_command(name)) for name in names
    ]
    taken += [
        ("deploy", test_image.read_documented_command(name)) for name in ("build", "run --publish")
    ]
    taken += [
        (line.page, line.text)
        for part in page_reader.HEADINGS_BY_PAGE
        for line in page_reader.list_page_lines(part)
    ]
    taken += [
        ("limits", page_reader.JOURNALCTL_COMMAND),
        ("deploy/nginx/placement-sched.conf", "nginx -t"),
    ]
    lines: dict[str, list[list[str]]] = {}
    for page, line in taken:
        lines.setdefault(page, []).append(split_line_into_words(line))
    return lines


def split_line_into_words(line: str) -> list[str]:
    """Return the words of a line without its comment."""
    return shlex.split(line, comments=True)


TESTED_LINES = list_tested_console_lines()
UNTYPED_LINE_WORDS = [(page, split_line_into_words(line)) for page, line in UNTYPED_LINES]
CONSOLE_LINES = (
    list_console_lines_of_guide()
    + list_console_lines_of_readmes()
    + test_file_headers.list_lines_in_file_headers()
)


def test_each_console_line_is_run_by_a_test_or_listed_as_untyped():
    for page, line in CONSOLE_LINES:
        words = split_line_into_words(line)
        taken, listed = words in TESTED_LINES.get(page, []), UNTYPED_LINE_WORDS.count((page, words))
        assert taken + listed == 1, (page, line, taken, listed)


def test_every_line_listed_as_untyped_is_on_a_page():
    on_pages = [(page, split_line_into_words(line)) for page, line in CONSOLE_LINES]
    assert [line for line in UNTYPED_LINE_WORDS if line not in on_pages] == []


def test_nginx_check_command_is_on_the_deploy_page():
    """The lines above include it for the head of the file."""
    assert split_line_into_words("nginx -t") in TESTED_LINES["deploy"]


def list_placement_sched_calls() -> list[tuple[str, list[str]]]:
    """Return the arguments of each line that calls our program, with its page."""
    calls = []
    for page, line in CONSOLE_LINES:
        typed = split_line_into_words(line)
        for number, word in enumerate(typed):
            before = typed[number - 1] if number else "--"
            if Path(word).name == "placement-sched" and (before == "--" or "=" in before):
                rest = typed[number + 1 :]
                ends = [n for n, each in enumerate(rest) if each in {">", "<", "|", "&&"}]
                calls.append((page, rest[: min(ends, default=len(rest))]))
    return calls


def test_documented_placement_sched_commands_have_valid_arguments():
    for page, arguments in list_placement_sched_calls():
        assert make_parser(arguments).parse_args(arguments).run, (page, arguments)


def test_documented_make_commands_have_existing_targets_and_variables():
    used = set(re.findall(r"\$\((?:if \$\()?([A-Z_]+)", (ROOT / "Makefile").read_text()))
    for line in (line for _, line in UNTYPED_LINES if "make " in line):
        _, target, *settings = [
            word for word in split_line_into_words(line) if not word.startswith("OS_")
        ]
        assert target in MAKE_TARGETS, line
        assert {setting.partition("=")[0] for setting in settings} <= used, line


def test_documented_benchmark_commands_have_valid_options():
    command = [sys.executable, ROOT / "bench/candidates.py", "--help"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    options = set(re.findall(r"--[\w-]+", printed.stdout))
    for line in (line for _, line in UNTYPED_LINES if " --only " in line):
        assert set(re.findall(r"--[a-z][\w-]*", line)) <= options, line


def test_tests_named_in_the_list_of_untyped_lines_exist():
    tests = {*UNTYPED_LINES.values()} - {"none"}
    assert [test for test in tests if not (ROOT / "tests" / test).exists()] == []


def test_command_lines_outside_console_blocks_are_synopses():
    """A synopsis contains a placeholder in capitals or an optional part."""
    commands = dict(iterate_commands(make_parser((), with_all_commands=True)))
    for page, line in list_lines_outside_console_blocks():
        assert re.search(r"\[|\b[A-Z]{3,}\b", line), f"{page}: {line} is no synopsis"
        text = commands[" ".join(line.split()[:3])].format_help()
        assert [option for option in re.findall(r"--[\w-]+", line) if option not in text] == []
