# SPDX-License-Identifier: Apache-2.0
"""The kinds of rejections that the API reference documents."""

import re
from functools import cache
from pathlib import Path

from placement_sched.model.document import Json

PAGE = Path(__file__).parents[2] / "api-ref" / "source" / "scheduler" / "rejections.rst"
#: A row of the table: kind, stages and values.
_ROW = re.compile(
    r"""^   \* - ``(\w+)``
     - .+
((?:     - |       ).+
(?:       .+
)*)""",
    re.MULTILINE,
)
#: Keys of entries that are no values of a kind.
_OTHER_KEYS = {"kind", "reason", "host", "node", "group"}


@cache
def read_documented_values() -> dict[str, frozenset[str]]:
    """Return the documented values of each kind, in the order of the page."""
    return _read_table("Kinds", "Causes")


@cache
def read_documented_causes() -> dict[str, frozenset[str]]:
    """Return the documented values of each cause, in the order of the page."""
    return _read_table("Causes", "Further kinds")


@cache
def read_further_kinds() -> tuple[str, ...]:
    """Return the kinds of entries that are no rejections."""
    section = PAGE.read_text().split("\nFurther kinds\n")[1]
    return tuple(re.findall(r"^   \* - ``(\w+)``$", section, re.MULTILINE))


def _read_table(title: str, next_title: str) -> dict[str, frozenset[str]]:
    section = PAGE.read_text().split(f"\n{next_title}\n")[0].split(f"\n{title}\n")[1]
    rows = _ROW.findall(section)
    return {name: frozenset(re.findall(r"``(\w+)``", values)) for name, values in rows}


def find_undocumented_values(entry: Json) -> set[str]:
    """Return the undocumented keys of a rejection in JSON, and of its parts."""
    documented = read_documented_values()[entry["kind"]]
    if "cause" in entry:
        documented |= read_documented_causes()[entry["cause"]]
    parts = [find_undocumented_values(part) for part in entry.get("parts", ())]
    return (entry.keys() - documented - _OTHER_KEYS).union(*parts)
