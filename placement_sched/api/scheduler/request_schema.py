# SPDX-License-Identifier: Apache-2.0
"""Schemas of scheduler requests."""

from placement_sched.api.validation import Schemas
from placement_sched.limits import (
    MAX_CHANGED_HOSTS,
    MAX_OPTION_CHARACTERS,
    MAX_OPTION_ENTRIES,
    MAX_REQUESTS,
)
from placement_sched.model.document import Json
from placement_sched.scheduler.claim import ClaimMode
from placement_sched.schemas import parts
from placement_sched.schemas.request_spec import REQUEST_SPEC

#: Claim modes by the value of "claim". "add" retains existing allocations of the instances.
CLAIM_MODES = {True: ClaimMode.NEW, False: ClaimMode.NONE, "add": ClaimMode.FOR_MOVE}
_SELECT_PROPERTIES: Json = {
    "request_spec": REQUEST_SPEC,
    "return_alternates": parts.BOOLEAN,
    "claim": {"enum": list(CLAIM_MODES)},
}
#: An option value in JSON. The settings check the type of the option.
_VALUE: Json = {
    "type": ["string", "number", "boolean", "array"],
    "maxLength": MAX_OPTION_CHARACTERS,
    "items": {"type": ["string", "number", "boolean"], "maxLength": 1024},
    "maxItems": MAX_OPTION_ENTRIES,
}
OVERRIDES: Json = parts.make_nullable({"type": "object", "additionalProperties": _VALUE})
_EXPLAIN_PROPERTIES: Json = {
    **_SELECT_PROPERTIES,
    "overrides": OVERRIDES,
    "hosts": parts.make_nullable(parts.build_list_schema(parts.NAME, maxItems=MAX_CHANGED_HOSTS)),
    "max_rejected": parts.AMOUNT,
    "policy": parts.make_nullable(parts.NAME),
    "changes": parts.CHANGES,
    "keep": parts.BOOLEAN,
}
_ENTRY = parts.build_object_schema({"request_spec": REQUEST_SPEC}, "request_spec")
_REQUESTS = parts.build_list_schema(_ENTRY, minItems=1, maxItems=MAX_REQUESTS)
SELECT = Schemas(
    {
        **parts.build_object_schema({**_SELECT_PROPERTIES, "requests": _REQUESTS}),
        "if": {"not": {"required": ["requests"]}},
        "then": {"required": ["request_spec"]},
    }
)
EXPLAIN = Schemas(parts.build_object_schema(_EXPLAIN_PROPERTIES, "request_spec"))
