# SPDX-License-Identifier: Apache-2.0
"""Files and commands on pages of the guide."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

_CODE_BLOCK_PATTERN = re.compile(
    r"^\.\. code-block::.*\n(?P<options>(?:   :.+\n)*)\n"
    r"(?P<content>(?:   .*\n|\n)+)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class PageFile:
    """A file that the page shows."""

    name: str
    content: str


@dataclass(frozen=True)
class PageCommand:
    """A command of a page with its expected output and exit status."""

    line: str
    output: str
    status: int = 0


def parse_files_and_commands(page: str) -> Iterator[PageFile | PageCommand]:
    """Yield the files and commands of a page in order."""
    for block in _CODE_BLOCK_PATTERN.finditer(page + "\n"):
        content = textwrap.dedent(block["content"]).strip() + "\n"
        caption = re.search(r":caption: (\S+)", block["options"])
        if classes := re.search(r":class: played(.*)", block["options"]):
            status = re.search(r"status-(\d+)", classes[1])
            yield from _parse_session(content, int(status[1]) if status else 0)
        elif caption:
            yield PageFile(caption[1], content)


def _parse_session(session: str, status: int) -> Iterator[PageCommand]:
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        line, printed = re.fullmatch(r"((?:.*\\\n)*.*\n)((?s:.*))", part).groups()
        yield PageCommand(line.strip(), printed, status)
