"""The texts that may stand in a fleet file, each as the requests write it that may give it."""

import re
from typing import Any

from placement_sched.errors import Forbidden
from placement_sched.model import naming
from placement_sched.model.allocation import canonical
from placement_sched.model.image_change import SETTABLE, check_settable
from placement_sched.model.shape import Misfit, Shape, mapping_of, name, number, text, uuid

_NEVER = re.compile("[\x00\ud800-\udfff]")
_SYMBOL = re.compile(r"[A-Z0-9_]{1,255}")


#: As large as the FLOAT columns of the placement schema take on MySQL.
MAX_RATIO = 3.40282e38
_from_zero = number(0.0, MAX_RATIO)


def prose(longest: int = 65535, shortest: int = 0) -> Shape[str]:
    """Return the shape of texts; a whole number is the text of its digits."""

    def read(value: Any) -> str:
        if type(value) is int:
            value = str(value)
        if not isinstance(value, str):
            raise Misfit(f"{value!r} is not a text; quotes make it one")
        if not shortest <= len(value) <= longest:
            raise Misfit(f"it has {len(value)} characters, not {shortest} to {longest}")
        if _NEVER.search(value):
            raise Misfit("it has characters that no database keeps")
        return value

    return read


word = prose(255)
named = prose(255, shortest=1)
#: A provider's name, which one that is there may lose.
provider_name = prose(200)


def matching(pattern: str, what: str) -> Shape[str]:
    """Return the shape of texts of 1 to 255 characters that match; ``what`` tells of those."""
    compiled = re.compile(pattern)

    def read(value: Any) -> str:
        found = named(value)
        if not compiled.search(found):
            raise Misfit(f"{found!r} is not {what}")
        return found

    return read


def label(value: Any) -> str:
    """Return a name that people give: printable, no blank at either end."""
    return _label(named(value))


def label_or_empty(value: Any) -> str:
    """Return a name that people give, or none."""
    return _label(word(value))


def _label(found: str) -> str:
    if not naming.is_printable_name(found):
        raise Misfit(f"{found!r} is not printable, or begins or ends with a blank")
    return found


def printable(value: Any) -> str:
    """Return what is told of a thing, on one line."""
    found = prose()(value)
    if not naming.is_printable(found):
        raise Misfit("it has characters that are not printable")
    return found


_on_one_line = text()
_reported = name()
_recorded = text(shortest=1)


def phrase(value: Any) -> str:
    """Return a text without control characters."""
    return _on_one_line(word(value))


def plain_name(value: Any) -> str:
    """Return the name of a host or a node, as reports give it."""
    return _reported(named(value))


def recorded_name(value: Any) -> str:
    """Return a name of an instance, or of what it is on or of, as records give it."""
    return _recorded(named(value))


_LIKE_UUID = re.compile("[0-9a-fA-F-]{36}")


def consumer(value: Any) -> str:
    """Return a consumer's uuid as it is kept: what requests for allocations take for one."""
    found = named(value)
    try:
        return uuid(found)
    except Misfit:
        # As POST /placement/allocations takes it.
        if not _LIKE_UUID.fullmatch(found):
            raise
    return canonical(found)


def factor(value: Any) -> float:
    """Return what a flavor multiplies bandwidth by, which is above 0."""
    found = _from_zero(value)
    if not found:
        raise Misfit("0 is not above 0")
    return found


key = matching(naming.KEY, "a key: letters, digits, :_.- and, but at its ends, spaces make one")
flavor_id = matching(
    naming.FLAVOR_ID, "an id: letters, digits, _.- and, but at its ends, spaces make one"
)
member_host = matching(naming.HOST, "the name of a host: letters, digits and _.- make one")


def zone(value: Any) -> str:
    """Return the name of an availability zone."""
    found = named(value)
    if not naming.is_zone(found):
        raise Misfit(f"{found!r} is no name of a zone: it is printable, without a colon")
    return found


def property_name(value: Any) -> str:
    """Return the name of an image's property, which none of an image's attributes has."""
    found = label(value)
    try:
        check_settable(found)
    except Forbidden as refused:
        raise Misfit(refused.detail) from None
    if found in SETTABLE or found == "id":
        raise Misfit(f"{found!r} is an attribute of every image, not a property")
    return found


def symbol(value: Any) -> str:
    """Return the name of a trait or a resource class."""
    if not isinstance(value, str) or not _SYMBOL.fullmatch(value):
        raise Misfit(f"{value!r} is no name: upper case letters, digits and _ make one")
    return value


_image_id = matching(naming.UUID, "a uuid")
_of_any_length = prose(2**31)


def properties(value: Any) -> dict[str, str]:
    """Return an image's properties; those that name another image have its id."""
    found = mapping_of(property_name, _of_any_length)(value)
    for one in ("kernel_id", "ramdisk_id"):
        if one in found:
            try:
                _image_id(found[one])
            except Misfit as misfit:
                raise misfit.under(one) from None
    return found
