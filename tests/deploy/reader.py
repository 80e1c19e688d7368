# SPDX-License-Identifier: Apache-2.0
"""A reader of the guide who types each line of it as printed, on machines of their own.

What differs from what is printed stands in ``WRITTEN`` here and in what a machine has for it, and
nowhere else; what the prose of a page has its reader do between two lines, such as to edit a file,
is done by the test.
"""

import doctest
import re
import textwrap
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.deploy.debian import REPOSITORY, Machine
from tests.support.repository import ROOT
from tests.support.servers import wait_until

#: What the reader writes for a word that the pages have in its place, and for a question of
#: MariaDB's client, which a terminal would have to answer.
WRITTEN = {
    "ADDRESS-OF-THE-REPOSITORY": REPOSITORY,
    "--password placement <": "--password=CHANGE-ME placement <",
}
#: What is typed as root is typed here, and by page what any user types: lines that begin so.
OF_ANY_USER = {
    "deploy": ("python3 -m venv client", "client/bin/", ". ./", "export ", "curl "),
    "adopt#database": ("cp ", "placement-sched config", "placement-sched db"),
    "adopt#placement": (
        *(". ./", "export ", "for endpoint", "OS_TOKEN=", "mariadb "),
        *("placement-sched db", "placement-sched fleet"),
    ),
}
#: The pages, in the order in which they are read, and the heading from which on. Of a page with a
#: section after "#" only the section of that heading is read.
PAGES = {
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
#: A line of the page "Limits and errors" for such a machine, which has others that it cannot run.
OF_LIMITS = "journalctl --unit placement-sched --lines 20"
_CHECK = doctest.OutputChecker()
_LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_BLOCK = re.compile(r"^( *).. code-block:: console\n(?: +:.*\n)*\n((?:\1 +.*\n|\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Line:
    """A line that a page has its reader type, and what it shows to be printed."""

    page: str
    text: str
    printed: str
    of_root: bool


def list_lines(page: str) -> list[Line]:
    """Return the lines of a page, or of its section, that are typed on the machine."""
    name, _, section = page.partition("#")
    heading = re.compile(f"^{re.escape(PAGES[page])}\n", re.MULTILINE)
    _, text = heading.split((ROOT / f"doc/source/{name}.rst").read_text(), maxsplit=1)
    if section:
        text = re.split(rf"^.+\n[={text[0]}]+$", text, flags=re.MULTILINE)[0]
    user = OF_ANY_USER.get(page, ())
    return [line for line in _read_lines(name, text) if line.of_root or line.text.startswith(user)]


def _read_lines(page: str, text: str) -> Iterator[Line]:
    for _, block in _BLOCK.findall(text):
        for part in re.split(r"^(?=[$#] )", textwrap.dedent(block), flags=re.MULTILINE):
            if found := re.fullmatch(r"([$#]) ((?:.*\\\n)*.*\n)((?s:.*))", part):
                prompt, line, printed = found.groups()
                text = re.sub(r"\\\n\s+", "", line).strip()
                yield Line(page, text, printed.strip(), prompt == "#")


@dataclass(frozen=True)
class Step:
    """What the prose says of a line that begins so.

    It is what is done ``before`` it and ``after``, what is ``typed`` to its question, and on which
    machine it is typed: on the first one, on another one, or on each.
    """

    line: str
    before: Callable[[Machine], None] = lambda _machine: None
    typed: str = ""
    after: Callable[[Machine], None] = lambda _machine: None
    on: str = "first"

    def machines(self, first: Machine) -> list[Machine]:
        """Return where it is typed."""
        return {"first": [first], "other": first.others, "each": [first, *first.others]}[self.on]


def read(machine: Machine, page: str, steps: Sequence[Step]) -> None:
    """Type the lines of a page; each succeeds, and prints what the page shows.

    ``steps`` come in the order of their lines, and each of them is the step of some line.
    """
    left = deque(steps)
    for line in list_lines(page):
        step = left.popleft() if left and line.text.startswith(left[0].line) else Step("")
        machines = step.machines(machine)
        for here in machines:
            step.before(here)
        run_on_all(lambda here, line=line, typed=step.typed: _type(here, line, typed), machines)
        for here in machines:
            step.after(here)
    assert not left, left[0].line


def run_on_all(do: Callable[[Machine], None], machines: Sequence[Machine]) -> None:
    """Do the same on several machines, side by side."""
    with ThreadPoolExecutor() as beside:
        for done in [beside.submit(do, one) for one in machines]:
            done.result()


def _type(machine: Machine, line: Line, typed: str) -> None:
    text = line.text
    for word, written in {**WRITTEN, **machine.written}.items():
        text = text.replace(word, written)
    printed: list[str] = []

    def is_done() -> bool:
        status, said = machine.type(text, typed=typed)
        printed.append(said)
        fits = not line.printed or _CHECK.check_output(f"{line.printed}\n", f"{said}\n", _LIKE)
        return status == 0 and fits

    # What asks a service that was just started is asked again.
    again = text.startswith("curl ")
    assert wait_until(is_done, 60) if again else is_done(), f"{line.page}: {text}\n{printed[-1]}"


def read_file(page: str, name: str) -> str:
    """Return a file that a page shows."""
    text = Path(ROOT / f"doc/source/{page}.rst").read_text()
    shown = re.search(rf":caption: {re.escape(name)}\n\n((?:   .*\n|\n)+)", text)
    return textwrap.dedent(shown[1])
