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
    table = PAGE.read_text().split("\nFurther kinds\n")[0]
    return {
        kind: frozenset(re.findall(r"``(\w+)``", values)) for kind, values in _ROW.findall(table)
    }


def find_undocumented_values(entry: Json) -> set[str]:
    """Return the undocumented keys of a rejection in JSON, and of its parts."""
    documented = read_documented_values()[entry["kind"]]
    parts = [find_undocumented_values(part) for part in entry.get("parts", ())]
    return (entry.keys() - documented - _OTHER_KEYS).union(*parts)
