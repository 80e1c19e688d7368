# SPDX-License-Identifier: Apache-2.0
"""Compute API for operators, with schemas and formats for its routes."""

from datetime import datetime

from placement_sched.api.compute import microversions as mv
from placement_sched.api.routing import ApiCall
from placement_sched.api.validation import Schemas
from placement_sched.errors import Error, Invalid
from placement_sched.model.compute_node import Hypervisor, Service
from placement_sched.model.document import Json
from placement_sched.model.names import read_uuid
from placement_sched.schemas.parts import build_object_schema

#: The largest integer in nova's tables.
LARGEST = 2**31 - 1
#: nova's policy rule for administrators.
ADMINISTRATOR = "context_is_admin"

#: The schema of a query parameter that the handler parses.
TEXT: Json = {"type": "string"}
#: The schema of a ``limit`` or ``offset``.
PAGE: Json = {"type": "string", "pattern": r"^[0-9]+$(?!\n)", "maxLength": 255}


def build_number_schema(minimum: int) -> Json:
    """Build the schema of an integer or its digits, whose range is unchecked."""
    return {**PAGE, "type": ["integer", "string"], "minimum": minimum, "maximum": LARGEST}


def wrap_schema(key: str, inner: Json) -> Json:
    """Build the schema of an object with a single key."""
    return build_object_schema({key: inner}, key)


def build_query_schema(properties: Json) -> Schemas:
    """Build the schema of a query, which is strict since 2.75."""
    return Schemas(
        (mv.OLDEST, {"type": "object", "properties": properties}),
        (mv.CONSISTENT, build_object_schema(properties)),
    )


def parse_bounded(value: str | float, minimum: int, json_path: str) -> int:
    """Parse a number up to :data:`LARGEST`, or raise :class:`Invalid`."""
    if not minimum <= (number := int(value)) <= LARGEST:
        raise Invalid(f"{number} is not from {minimum} to {LARGEST}", json_path=json_path)
    return number


def format_time_in_microseconds(moment: datetime | None) -> str | None:
    """Format a time as aggregates and services show it."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%f")


def parse_key(call: ApiCall, text: str, no_number: Error) -> int | str:
    """Parse the uuid of a service or hypervisor, or before 2.53 its id.

    Raises :class:`Invalid` for an invalid uuid, and ``no_number`` for an invalid id. An id that is
    too large for the column becomes 0, the id of no row.
    """
    if call.version.has(mv.UUIDS):
        return parse_uuid(text)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise no_number
    return int(text) if len(text) <= len(str(LARGEST)) and int(text) <= LARGEST else 0


def parse_uuid(text: str) -> str:
    """Return a uuid in canonical form, or raise :class:`Invalid`."""
    canonical = read_uuid(text)
    if canonical is None:
        raise Invalid(f"Invalid uuid {text}")
    return canonical


def build_bookmark_link(call: ApiCall, path: str) -> Json:
    """Build the ``bookmark`` link, which does not contain the API version."""
    return {"rel": "bookmark", "href": f"{call.url}/{path}"}


def build_links(call: ApiCall, path: str) -> list[Json]:
    """Build the links of a flavor or server."""
    return [{"rel": "self", "href": f"{call.url}/v2.1/{path}"}, build_bookmark_link(call, path)]


def require(call: ApiCall, rule: str, project_id: str | None) -> None:
    """Raise :class:`Forbidden` unless ``rule`` is allowed in the project."""
    call.services.policy.check(rule, call.identity, {"project_id": project_id or ""})


def get_visible_project(call: ApiCall) -> str | None:
    """Return the caller's project, or None if the caller sees all projects."""
    return None if call.is_allowed(ADMINISTRATOR) else call.identity.project_id


def get_id(call: ApiCall, record: Service | Hypervisor) -> int | str:
    """Return the id of a service or hypervisor, which is its uuid since 2.53."""
    return record.uuid if call.version.has(mv.UUIDS) else record.id


def get_state(call: ApiCall, service: Service) -> str:
    """Return the state of a service, ``up`` or ``down``."""
    down_time = call.settings.DEFAULT.service_down_time
    return "up" if service.is_up(call.read_clock(), down_time) else "down"
