"""Schema of ``POST /select_destinations``."""

from placement_sched.api.scheduler.schemas.parts import BOOLEAN, Json, an_object
from placement_sched.api.scheduler.schemas.request_spec import REQUEST_SPEC
from placement_sched.api.schema import Schemas

#: What a request to place and a request to explain have in common.
PLACING: Json = {"request_spec": REQUEST_SPEC, "return_alternates": BOOLEAN, "claim": BOOLEAN}

POST = Schemas(((1, 0), an_object(PLACING, "request_spec")))
