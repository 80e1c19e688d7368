# SPDX-License-Identifier: Apache-2.0
"""JSON schemas by version, and the check of texts in commands."""

from operator import itemgetter
from typing import Any

from placement_sched.api.versions import BEFORE_ALL_VERSIONS, Version
from placement_sched.errors import Invalid, shorten
from placement_sched.limits import MAX_VALUE_CHARACTERS
from placement_sched.model.document import Json, build_json_path, find_invalid_text
from placement_sched.schemas.formats import show_value
from placement_sched.schemas.validation import Schema

#: Marks a query parameter that may be repeated. Only documentation: each value is validated alone.
REPEATED = "x-repeated"


def check_texts(document: Any, prefix: str) -> None:
    """Reject texts in the arguments of a command that are not UTF-8.

    Arguments may contain any bytes. Raises :class:`Invalid` with a message that begins with
    ``prefix``.
    """
    if invalid := find_invalid_text(document):
        text, keys = invalid
        path = shorten(build_json_path(keys), MAX_VALUE_CHARACTERS)
        problem = f"{show_value(text)} is not valid UTF-8"
        raise Invalid(f"{prefix}: {problem} (at {path})", fault={"problem": problem, "path": path})


class Schemas:
    """JSON schemas, each with its first version, or a single schema."""

    def __init__(self, *schemas: tuple[Version, Json | None] | Json) -> None:
        versioned_schemas = [
            (BEFORE_ALL_VERSIONS, schema) if isinstance(schema, dict) else schema
            for schema in schemas
        ]
        self.schemas = tuple(
            (since, None if schema is None else Schema(schema))
            for since, schema in sorted(versioned_schemas, key=itemgetter(0), reverse=True)
        )

    def find_schema(self, version: Version) -> Schema | None:
        """Return the schema of ``version``, or None without a schema."""
        return next((schema for since, schema in self.schemas if version >= since), None)
