# SPDX-License-Identifier: Apache-2.0
"""A reader who types each line of the guide as printed, on new machines.

``REPLACEMENTS`` and ``Machine.replacements`` have all differences from the printed lines. If the
prose of a page describes an action between two lines, such as an edit, the test does it.
"""

import doctest
import re
import textwrap
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.deploy.debian import REPOSITORY_PATH, Machine
from tests.support.repository import ROOT
from tests.support.servers import wait_until

#: Replacements for placeholders of the pages, and for a prompt of MariaDB's client that needs a
#: terminal.
PAGE_TEXT_REPLACEMENTS = {
    "ADDRESS-OF-THE-REPOSITORY": REPOSITORY_PATH,
    "--password placement <": "--password=CHANGE-ME placement <",
}
#: Printed lines about the SQLite database of a page, and about the database of a machine.
PAGE_OUTPUT_REPLACEMENTS = {
    "database placement.db\nsqlite:///placement.db:": "database placement on ...:"
}
#: Lines of users other than root that are typed here, by page and by their beginning.
USER_LINES_BY_PAGE = {
    "deploy": ("python3 -m venv client", "client/bin/", ". ./", "export ", "curl "),
    "adopt#database": ("cp ", "placement-sched config", "placement-sched db"),
    "adopt#placement": (
        *(". ./", "export ", "for endpoint", "OS_TOKEN=", "mariadb "),
        *("placement-sched db", "placement-sched fleet"),
    ),
}
#: Pages in the order of reading, with the heading before the first line. With a section after "#"
#: only the section of that heading is read.
HEADINGS_BY_PAGE = {
    "deploy": "With systemd",
    "commands": "",
    "metrics": "Watch with systemd",
    "adopt#scheduler": "4. Replace nova-scheduler",
    "adopt#shadow": "Start the shadow",
    "upgrade": "Order of an upgrade",
    "adopt#database": "Adopt the database",
    "adopt#placement": "3. Replace placement",
    "recipes#mod_wsgi": "mod_wsgi",
    "galera": "HAProxy",
}
#: The only line of the page "Limits and errors" that runs on such a machine.
JOURNALCTL_COMMAND = "journalctl --unit placement-sched --lines 20"
_OUTPUT_CHECKER = doctest.OutputChecker()
_COMPARISON_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_CONSOLE_BLOCK = re.compile(
    r"^( *).. code-block:: console\n(?: +:.*\n)*\n((?:\1 +.*\n|\n)+)", re.MULTILINE
)


@dataclass(frozen=True)
class PageLine:
    """A line that a page shows after a prompt, and its printed output."""

    page: str
    text: str
    output: str
    of_root: bool


def list_page_lines(page: str) -> list[PageLine]:
    """Return the lines of a page, or of its section, that are typed on a machine."""
    name, _, section = page.partition("#")
    heading = re.compile(f"^{re.escape(HEADINGS_BY_PAGE[page])}\n", re.MULTILINE)
    _, text = heading.split((ROOT / f"doc/source/{name}.rst").read_text(), maxsplit=1)
    if section:
        text = re.split(rf"^.+\n[={text[0]}]+$", text, flags=re.MULTILINE)[0]
    user = USER_LINES_BY_PAGE.get(page, ())
    return [
        line for line in _parse_page_lines(name, text) if line.of_root or line.text.startswith(user)
    ]


def _parse_page_lines(page: str, text: str) -> Iterator[PageLine]:
    for _, block in _CONSOLE_BLOCK.findall(text):
        for part in re.split(r"^(?=[$#] )", textwrap.dedent(block), flags=re.MULTILINE):
            if match := re.fullmatch(r"([$#]) ((?:.*\\\n)*.*\n)((?s:.*))", part):
                prompt, line, printed = match.groups()
                text = re.sub(r"\\\n\s+", "", line).strip()
                yield PageLine(page, text, printed.strip(), prompt == "#")


@dataclass(frozen=True)
class PageStep:
    """Actions that the prose describes for a line with this beginning.

    ``before`` and ``after`` are done before and after the line, and ``typed`` answers its prompt.
    The line is typed on the ``first`` machine, on the ``other`` machine or on ``each``.
    """

    line: str
    before: Callable[[Machine], None] = lambda _machine: None
    typed: str = ""
    after: Callable[[Machine], None] = lambda _machine: None
    on: str = "first"

    def list_machines(self, first: Machine) -> list[Machine]:
        return {"first": [first], "other": first.others, "each": [first, *first.others]}[self.on]


def type_page(machine: Machine, page: str, steps: Sequence[PageStep]) -> None:
    """Type the lines of a page, which must succeed and print the output that the page shows.

    ``steps`` are in the order of their lines. A step without a line is an error.
    """
    steps_left = deque(steps)
    for line in list_page_lines(page):
        is_next = bool(steps_left) and line.text.startswith(steps_left[0].line)
        step = steps_left.popleft() if is_next else PageStep("")
        machines = step.list_machines(machine)
        for here in machines:
            step.before(here)
        call_for_each_machine(
            lambda here, line=line, typed=step.typed: _type_line(here, line, typed), machines
        )
        for here in machines:
            step.after(here)
    assert not steps_left, steps_left[0].line


def call_for_each_machine(do: Callable[[Machine], None], machines: Sequence[Machine]) -> None:
    """Call a function for several machines at the same time."""
    with ThreadPoolExecutor() as pool:
        for job in [pool.submit(do, machine) for machine in machines]:
            job.result()


def _type_line(machine: Machine, line: PageLine, typed: str) -> None:
    text = line.text
    for word, written in {**PAGE_TEXT_REPLACEMENTS, **machine.replacements}.items():
        text = text.replace(word, written)
    documented = line.output
    for word, written in PAGE_OUTPUT_REPLACEMENTS.items():
        documented = documented.replace(word, written)
    printed: list[str] = []

    def prints_documented_output() -> bool:
        status, output = machine.run_line(text, typed=typed)
        printed.append(output)
        fits = not documented or _OUTPUT_CHECKER.check_output(
            f"{documented}\n", f"{output}\n", _COMPARISON_FLAGS
        )
        return status == 0 and fits

    # A request to a service that was just started is repeated.
    is_request = text.startswith("curl ")
    is_typed = (
        wait_until(prints_documented_output, 60) if is_request else prints_documented_output()
    )
    assert is_typed, f"{line.page}: {text}\n{printed[-1]}"


def read_file_of_page(page: str, name: str) -> str:
    text = Path(ROOT / f"doc/source/{page}.rst").read_text()
    shown = re.search(rf":caption: {re.escape(name)}\n\n((?:   .*\n|\n)+)", text)
    return textwrap.dedent(shown[1])


def list_packages_of_pages() -> list[str]:
    """Return the Debian packages that the pages install."""
    texts = [line.text for page in HEADINGS_BY_PAGE for line in list_page_lines(page)]
    names = (text.removeprefix("apt-get install ") for text in texts if "apt-get" in text)
    return sorted({name for several in names for name in several.split()})
