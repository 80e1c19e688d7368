"""How addresses name services and hypervisors: by number, and since 2.53 by uuid."""

from placement_sched.api.call import Call
from placement_sched.api.compute.microversions import UUIDS
from placement_sched.api.compute.schemas.parts import LARGEST
from placement_sched.errors import Error, Invalid
from placement_sched.model import shape


def key(call: Call, text: str, no_number: Error) -> int | str:
    """Return the uuid (str) that ``text`` is, or before 2.53 the number (int).

    Raises :class:`Invalid` for what is no uuid, and ``no_number`` for what is no number.
    """
    return uuid(text) if call.version.has(UUIDS) else _number(text, no_number)


def uuid(text: str) -> str:
    """Return a uuid in its usual form; raises :class:`Invalid` for what is none."""
    try:
        return shape.read(shape.uuid, text)
    except Invalid:
        raise Invalid(f"Invalid uuid {text}") from None


def _number(text: str, otherwise: Error) -> int:
    """Return a number; one that no row can have becomes one that no row has."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise otherwise
    return int(text) if len(text) <= len(str(LARGEST)) and int(text) <= LARGEST else 0
