"""Pieces of which the schemas of the compute API are made."""

from typing import Any

from placement_sched.api.schema import Schemas

Json = dict[str, Any]

#: The most that a number of nova's tables may be.
LARGEST = 2**31 - 1

NAME: Json = {"type": "string", "minLength": 1, "maxLength": 255, "format": "printable-name"}

#: How many of a list are asked for, or left out at its beginning.
PAGE: Json = {"type": "string", "pattern": r"^[0-9]+$(?!\n)", "maxLength": 255}


def an_object(properties: Json, **more: Any) -> Json:
    """Return the schema of an object with these keys and no others."""
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def wrapped(key: str, inner: Json, since: tuple[int, int] = (2, 1)) -> Schemas:
    """Return the schema of an object with this one key, in force from a version on."""
    return Schemas((since, an_object({key: inner}, required=[key])))


def number(least: int) -> Json:
    """Return the schema of a number, or of its digits as text, which the reader has to bound."""
    return {
        "type": ["integer", "string"],
        "pattern": r"^[0-9]+$(?!\n)",
        "maxLength": 255,
        "minimum": least,
        "maximum": LARGEST,
    }
