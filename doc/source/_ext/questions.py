# SPDX-License-Identifier: Apache-2.0
"""``asks``: the allocation candidates query of flavors and images, as the code makes it now.

Each line has extra specs as ``key=value`` and, after ``|``, image properties. The parameters shown
are those that differ from the query of a flavor without extra specs.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

from docutils.statemachine import StringList
from generated import Generated, table
from sphinx.application import Sphinx

from placement_sched.config.conf import create_conf
from placement_sched.config.settings import Settings
from placement_sched.errors import Invalid
from placement_sched.model.request_spec import RequestSpec, parse_request_spec
from placement_sched.scheduler.plugins import read_settings
from placement_sched.scheduler.resource_request import build_query

FLAVOR = {"name": "m1.medium", "vcpus": 4, "memory_mb": 4096, "root_gb": 40}


class Asks(Generated):
    """A table of extra specs, image properties and the query that they make."""

    has_content = True
    content: StringList

    def lines(self) -> Iterator[str]:
        """Yield a table."""
        settings = read_settings((), create_conf())
        plain = set(parameters_of("", settings)[0])
        rows = (self._row(line, plain, settings) for line in self.content if line.strip())
        yield from table(("Extra specs", "Image properties", "Query"), rows)

    def _row(
        self, line: str, plain: set[tuple[str, str]], settings: Settings
    ) -> tuple[str, str, str]:
        by_flavor, _, by_image = line.partition("|")
        try:
            parameters, ignored = parameters_of(line, settings)
            added = [f"{name}={value}" for name, value in parameters if (name, value) not in plain]
            shown = _listed(added) + "; ".join(map(_plain, ignored))
        except Invalid as rejected:
            shown = f"400: {_plain(rejected.detail)}"
        return _listed(by_flavor.split()), _listed(by_image.split()), shown


def _plain(text: str) -> str:
    """Return a text with what means something in reStructuredText escaped."""
    return text.replace("*", r"\*").replace("_", r"\_")


def _listed(texts: list[str]) -> str:
    return " ".join(f"``{text}``" for text in texts)


def spec_of(line: str) -> RequestSpec:
    """Return the request for a flavor and an image as a line gives them."""
    extra_specs, properties = (
        dict(part.split("=", 1) for part in half.split()) for half in (*line.split("|"), "")[:2]
    )
    flavor = {**FLAVOR, "extra_specs": extra_specs}
    return parse_request_spec({"flavor": flavor, "image": {"properties": properties}})


def parameters_of(line: str, settings: Settings) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the parameters of the query that a line makes, and the details of ignored values."""
    query, ignored = build_query(spec_of(line), settings)
    return parse_qsl(query.as_querystring()), [value.detail for value in ignored]


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directive known to Sphinx."""
    app.add_directive("asks", Asks)
    return {"parallel_read_safe": True}
