"""Pieces that the schemas of several nouns' answers share."""

from placement_sched.api.schema import Json

#: The names of resource classes, traits and consumer types.
NAME = "^[A-Z0-9_]+$"
#: Thirty-six hexadecimal digits and hyphens are taken for a uuid where it is a key.
UUID_KEY = "^[0-9a-fA-F-]{36}$"

INTEGER: Json = {"type": "integer"}
TEXT: Json = {"type": "string"}
UPPER_CASE: Json = {"type": "string", "pattern": NAME}
UUID: Json = {"type": "string", "format": "uuid"}
UUID_OR_NULL: Json = {"anyOf": [UUID, {"type": "null"}]}


def record(**properties: Json) -> Json:
    """Return the schema of an object that has exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def listing(items: Json) -> Json:
    """Return the schema of a list of such things, none of them twice."""
    return {"type": "array", "items": items, "uniqueItems": True}


def keyed(pattern: str, value: Json) -> Json:
    """Return the schema of an object of such values by keys of this pattern."""
    return {
        "type": "object",
        "patternProperties": {pattern: value},
        "additionalProperties": False,
    }


def links(*relations: str) -> Json:
    """Return the schema of the links of an answer, one for each of these relations."""
    link = record(rel={"enum": list(relations)}, href=TEXT)
    return {**listing(link), "minItems": len(relations), "maxItems": len(relations)}


#: Amounts by resource class.
AMOUNTS = keyed(NAME, INTEGER)
