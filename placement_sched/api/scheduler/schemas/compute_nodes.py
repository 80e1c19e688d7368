"""Schemas of compute nodes.

What may stand in a report, ``placement_sched.model.node_report`` decides, for every door through
which reports come in.
"""

from placement_sched.api.scheduler.schemas.parts import NAME, PAGING, a_list, an_object
from placement_sched.api.schema import Schemas

LIST = Schemas(((1, 0), an_object({"host": NAME, "hypervisor_hostname": NAME, **PAGING})))

PUT = Schemas(((1, 0), {"type": "object"}))
POST = Schemas(((1, 0), a_list({"type": "object"})))
