"""Schemas of instances."""

from placement_sched.api.scheduler.schemas.flavors_images import FLAVOR, IMAGE
from placement_sched.api.scheduler.schemas.parts import (
    NAME,
    NULLABLE_NAME,
    NULLABLE_TEXT,
    NULLABLE_UUID,
    PAGING,
    an_object,
    or_id,
    or_null,
)
from placement_sched.api.schema import Schemas

LIST = Schemas(((1, 0), an_object({"host": NAME, "node": NAME, "project_id": NAME, **PAGING})))

PUT = Schemas(
    (
        (1, 0),
        an_object(
            {
                "host": NULLABLE_NAME,
                "node": NULLABLE_NAME,
                "project_id": NULLABLE_NAME,
                "user_id": NULLABLE_NAME,
                "display_name": NULLABLE_NAME,
                "vm_state": NULLABLE_TEXT,
                "task_state": NULLABLE_TEXT,
                "flavor": or_null(or_id(FLAVOR)),
                "image": or_null(or_id(IMAGE)),
                "server_group": NULLABLE_UUID,
            }
        ),
    )
)
