"""What the version document looks like ("List Versions" of the API reference)."""

from placement_sched.api.placement.schemas.parts import TEXT, links, listing, record
from placement_sched.api.schema import Schemas

_VERSION = {"type": "string", "pattern": r"^[0-9]+\.[0-9]+$"}

SHOW_ANSWER = Schemas(
    (
        (1, 0),
        record(
            versions=listing(
                record(
                    id=TEXT,
                    min_version=_VERSION,
                    max_version=_VERSION,
                    status=TEXT,
                    links=links("self"),
                )
            )
        ),
    )
)
