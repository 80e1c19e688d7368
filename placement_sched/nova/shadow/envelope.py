"""Reads a message off nova's exchange: which call it is, and what it asks for.

oslo.messaging sends ``{"oslo.version": "2.0", "oslo.message": "<JSON>"}``; inside are the method,
its arguments, and the context as ``_context_<name>``. What cannot be read is said without any of
its content: a request spec may hold the passwords of a cell's database and message bus.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from placement_sched.errors import Invalid
from placement_sched.model.document import Json
from placement_sched.model.names import read_uuid
from placement_sched.model.request_ids import NO_REQUEST, RequestIds

SELECT_DESTINATIONS = "select_destinations"
#: The major version of the envelope that is understood.
_ENVELOPE = "2"
#: The major version of nova's scheduler API.
_API = "4"
_LONGEST = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class NovaCall:
    """A call of ``select_destinations``, as conductor sent it.

    ``spec`` is the RequestSpec as a primitive. ``instances`` are None where the caller names none.
    """

    spec: Json
    instances: tuple[str, ...] | None = None
    alternates: bool = False
    ids: RequestIds = NO_REQUEST


def read_call(body: object) -> NovaCall | None:
    """Return the call that a message holds; None for any other message of nova-scheduler's topic.

    ``body`` is a mapping, or its JSON. Raises :class:`Invalid` for what cannot be read.
    """
    message = _inside(body)
    method = message.get("method")
    if not isinstance(method, str):
        raise Invalid("the message names no method")
    if method != SELECT_DESTINATIONS:
        return None
    version = str(message.get("version", "1.0"))
    if version.partition(".")[0] != _API:
        shown = version if len(version) < 10 else "another"
        raise Invalid(f"the call is of version {shown} of nova's scheduler API, not {_API}.x")
    arguments = message.get("args")
    if not isinstance(arguments, dict):
        raise Invalid("the call has no arguments")
    spec = arguments.get("spec_obj")
    if not isinstance(spec, dict):
        raise Invalid("the call has no RequestSpec (spec_obj)")
    return NovaCall(
        spec=spec,
        instances=_uuids(arguments.get("instance_uuids")),
        alternates=bool(arguments.get("return_objects") and arguments.get("return_alternates")),
        ids=RequestIds(
            _text(message, "_context_request_id"), _text(message, "_context_global_request_id")
        ),
    )


def _inside(body: object) -> Mapping[str, Any]:
    """Return the message inside the envelope; as it is where there is no envelope."""
    outer = _mapping(body)
    if "oslo.message" not in outer:
        return outer
    version = str(outer.get("oslo.version", ""))
    if version.partition(".")[0] != _ENVELOPE:
        shown = version if len(version) < 10 else "another"
        raise Invalid(f"the envelope is of version {shown}, not {_ENVELOPE}.x")
    return _mapping(outer["oslo.message"])


def _mapping(value: object) -> Mapping[str, Any]:
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        try:
            value = orjson.loads(value)
        except ValueError:
            raise Invalid("the message is not JSON") from None
    if not isinstance(value, dict):
        raise Invalid("the message is not a JSON object")
    return value


def _uuids(value: object) -> tuple[str, ...] | None:
    if not value:
        return None
    if not isinstance(value, list):
        raise Invalid("instance_uuids is not a list")
    found = [read_uuid(one) if isinstance(one, str) else None for one in value]
    if None in found:
        raise Invalid("instance_uuids has what is not a uuid")
    return tuple(one for one in found if one is not None)


def _text(message: Mapping[str, Any], name: str) -> str | None:
    value = message.get(name)
    return value[:_LONGEST] if isinstance(value, str) and value else None
