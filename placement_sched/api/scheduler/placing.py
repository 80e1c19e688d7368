"""The JSON bodies of select_destinations and explain, for the routes and the command line."""

from typing import Any

from placement_sched.api.scheduler.request_spec import REQUEST_SPEC
from placement_sched.api.schema import Schemas
from placement_sched.limits import MAX_CHANGED_HOSTS, MAX_OPTION_CHARACTERS, MAX_OPTION_ENTRIES
from placement_sched.model.document import Json, with_whole_numbers
from placement_sched.model.explanation import View
from placement_sched.model.request_ids import NO_REQUEST, RequestIds
from placement_sched.scheduler.claim import Claiming
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.simulation import changes_from
from placement_sched.schemas.changes import CHANGES
from placement_sched.schemas.parts import AMOUNT, BOOLEAN, NAME, a_list, an_object, or_null

#: Whether to claim, and how; "add" leaves the instances what they hold.
_CLAIMS = {True: Claiming.NEW, False: Claiming.NONE, "add": Claiming.ADDED}
_PLACING: Json = {
    "request_spec": REQUEST_SPEC,
    "return_alternates": BOOLEAN,
    "claim": {"enum": list(_CLAIMS)},
}
#: An option's value in JSON; the settings check whether it is of the option's type.
_VALUE: Json = {
    "type": ["string", "number", "boolean", "array"],
    "maxLength": MAX_OPTION_CHARACTERS,
    "items": {"type": ["string", "number", "boolean"], "maxLength": 1024},
    "maxItems": MAX_OPTION_ENTRIES,
}
OVERRIDES: Json = or_null({"type": "object", "additionalProperties": _VALUE})
_EXPLAINING: Json = {
    **_PLACING,
    "overrides": OVERRIDES,
    "hosts": or_null(a_list(NAME, maxItems=MAX_CHANGED_HOSTS)),
    "max_rejected": AMOUNT,
    "policy": or_null(NAME),
    "changes": CHANGES,
    "keep": BOOLEAN,
}
SELECT = Schemas(an_object(_PLACING, "request_spec"))
EXPLAIN = Schemas(an_object(_EXPLAINING, "request_spec"))


def select(scheduler: Scheduler, body: Json, ids: RequestIds = NO_REQUEST) -> Json:
    """Return the hosts chosen for the request spec, allocated as ``claim`` says."""
    body = with_whole_numbers(body)
    return scheduler.select_destinations(
        body["request_spec"],
        alternates=body.get("return_alternates", False),
        claiming=_CLAIMS[body.get("claim", True)],
        ids=ids,
    )


def explain(scheduler: Scheduler, body: Json, ids: RequestIds = NO_REQUEST) -> Json:
    """Return the funnel of a request and the hosts it would get; nothing is claimed.

    With ``keep`` it is recorded as the decision of a request of these ids.
    """
    body = with_whole_numbers(body)
    hosts = body.get("hosts")
    asked: dict[str, Any] = {
        "overrides": body.get("overrides") or {},
        "view": View(
            hosts=None if hosts is None else tuple(hosts),
            max_rejected=body.get("max_rejected", View().max_rejected),
        ),
        "alternates": body.get("return_alternates", False),
        "policy": body.get("policy"),
    }
    changes = body.get("changes") or ()
    if body.get("keep"):
        return scheduler.explain_and_keep(body["request_spec"], **asked, changes=changes, ids=ids)
    return scheduler.explain(body["request_spec"], **asked, changes=changes_from(changes))
