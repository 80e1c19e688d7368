"""What the nouns of the compute API share: parts of schemas, reading, times, ids, policy checks."""

from datetime import datetime

from placement_sched.api.call import Call
from placement_sched.api.compute import microversions as mv
from placement_sched.api.validation import Schemas
from placement_sched.errors import Error, Invalid
from placement_sched.model.compute_node import Hypervisor, Service
from placement_sched.model.document import Json
from placement_sched.model.names import read_uuid
from placement_sched.schemas.parts import an_object

_TRUE = frozenset(("1", "t", "true", "on", "y", "yes"))
_FALSE = frozenset(("0", "f", "false", "off", "n", "no"))
#: The largest integer in nova's tables.
LARGEST = 2**31 - 1
#: nova's policy rule for administrators.
ADMINISTRATOR = "context_is_admin"

#: A parameter of a query string, which the handler reads.
TEXT: Json = {"type": "string"}
#: A ``limit`` or ``offset``.
PAGE: Json = {"type": "string", "pattern": r"^[0-9]+$(?!\n)", "maxLength": 255}


def number(least: int) -> Json:
    """Return the schema of a number, or of its digits as text, whose bounds the handler checks."""
    return {**PAGE, "type": ["integer", "string"], "minimum": least, "maximum": LARGEST}


def within(key: str, inner: Json) -> Json:
    """Return the schema of an object with this one key."""
    return an_object({key: inner}, key)


def a_query(properties: Json) -> Schemas:
    """Return the schema of a query string, where unknown parameters are rejected from 2.75 on."""
    return Schemas(
        (mv.OLDEST, {"type": "object", "properties": properties}),
        (mv.CONSISTENT, an_object(properties)),
    )


def read_boolean(text: str) -> bool | None:
    """Return the boolean that nova reads ``text`` as, or None."""
    word = text.strip().lower()
    return word in _TRUE if word in _TRUE | _FALSE else None


def boolean(given: str | bool, otherwise: str) -> bool:
    """Return a boolean, which may be given as text; raises :class:`Invalid` with ``otherwise``."""
    found = given if isinstance(given, bool) else read_boolean(given)
    if found is None:
        raise Invalid(otherwise)
    return found


def bounded(given: str | float, least: int, place: str) -> int:
    """Return a number; raises :class:`Invalid` for one out of bounds: schemas check no text's."""
    if not least <= (number := int(given)) <= LARGEST:
        raise Invalid(f"{number} is not from {least} to {LARGEST}", at=place)
    return number


def in_microseconds(moment: datetime | None) -> str | None:
    """Return a time in the format of aggregates and services."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%f")


def key(call: Call, text: str, no_number: Error) -> int | str:
    """Return the uuid (str) of a service or hypervisor, or before 2.53 its number (int).

    Raises :class:`Invalid` for an invalid uuid, and ``no_number`` for an invalid number. A number
    too large for any row becomes 0, which no row has.
    """
    if call.version.has(mv.UUIDS):
        return uuid(text)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise no_number
    return int(text) if len(text) <= len(str(LARGEST)) and int(text) <= LARGEST else 0


def uuid(text: str) -> str:
    """Return a uuid in its usual form; raises :class:`Invalid` for anything else."""
    found = read_uuid(text)
    if found is None:
        raise Invalid(f"Invalid uuid {text}")
    return found


def bookmark(call: Call, path: str) -> Json:
    """Return the link to what has an address without a version in it."""
    return {"rel": "bookmark", "href": f"{call.url}/{path}"}


def links(call: Call, path: str) -> list[Json]:
    """Return the links of a flavor or server."""
    return [{"rel": "self", "href": f"{call.url}/v2.1/{path}"}, bookmark(call, path)]


def require(call: Call, rule: str, project_id: str | None) -> None:
    """Raise :class:`Forbidden` unless the caller may do ``rule`` to what belongs to a project."""
    call.services.policy.check(rule, call.identity, {"project_id": project_id or ""})


def confined_to(call: Call) -> str | None:
    """Return the project whose private resources the caller sees; None for all projects."""
    return None if call.may(ADMINISTRATOR) else call.identity.project_id


def id_of(call: Call, found: Service | Hypervisor) -> int | str:
    """Return the id of a service or hypervisor: its number, since 2.53 its uuid."""
    return found.uuid if call.version.has(mv.UUIDS) else found.id


def state(call: Call, service: Service) -> str:
    """Return whether the service is up now."""
    down_time = call.settings.DEFAULT.service_down_time
    return "up" if service.is_up(call.now(), down_time) else "down"
