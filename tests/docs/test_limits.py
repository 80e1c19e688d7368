# SPDX-License-Identifier: Apache-2.0
"""The page of limits has those of ``placement_sched/limits.py``, with the same words and values."""

import re
from collections.abc import Iterator
from pathlib import Path

from placement_sched import limits
from tests.support.repository import ROOT

PAGE = ROOT / "doc/source/limits.rst"
_ROW = re.compile(r"^   \* - (?P<text>.+?)\n     - (?P<value>[\d,]+)$", re.MULTILINE)


def read_limits() -> Iterator[tuple[str, int]]:
    """Yield the comment above each limit, and its value."""
    text = ""
    for line in Path(limits.__file__).read_text().splitlines():
        if line.startswith("#: "):
            text = line.removeprefix("#: ")
        elif name := re.match(r"MAX_\w+", line):
            yield text, int(getattr(limits, name[0]))


def test_page_has_every_limit_with_its_words_and_value():
    rows = [
        (row["text"], int(row["value"].replace(",", ""))) for row in _ROW.finditer(PAGE.read_text())
    ]
    assert rows == list(read_limits())
