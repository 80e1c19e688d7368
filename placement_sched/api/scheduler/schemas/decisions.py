"""Schemas of decisions."""

from placement_sched.api.scheduler.schemas.parts import NAME, PAGING, UUID, an_object
from placement_sched.api.schema import Schemas
from placement_sched.model.decision import KINDS, NO_VALID_HOST, SELECTED

LIST = Schemas(
    (
        (1, 0),
        an_object(
            {
                "outcome": {"enum": [NO_VALID_HOST, SELECTED]},
                "kind": {"enum": list(KINDS)},
                "policy": NAME,
                "flavor": NAME,
                "project_id": NAME,
                "instance": UUID,
                "host": NAME,
                "request_id": NAME,
                "global_request_id": NAME,
                "since": {"type": "string"},
                **PAGING,
            }
        ),
    )
)
