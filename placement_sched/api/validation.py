# SPDX-License-Identifier: Apache-2.0
"""JSON schemas by version."""

from operator import itemgetter

from placement_sched.api.versions import BEFORE_ALL_VERSIONS, Version
from placement_sched.model.document import Json
from placement_sched.schemas.validation import Schema

#: Marks a query parameter that may be repeated. Only documentation: each value is validated alone.
REPEATED = "x-repeated"


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
