"""Changes of the cloud in short, as the options of a command and the lines of a form have them."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from placement_sched.errors import Invalid
from placement_sched.model.document import Json, decoded

#: The short forms of changes.
FORMS = (
    "drain=HOST,... | remove=HOST,... | add=HOST or HOST*COUNT (like HOST) | "
    "inventory=HOST:CLASS=TOTAL | aggregate=NAME:+HOST,-HOST,KEY=VALUE"
)
#: Of numbers, those that cannot be are refused where they are, as a JSON document's are.
_COUNTED = re.compile(r"(?P<like>.+?)(?:\*(?P<count>-?[0-9]{1,30}))?")
_INVENTORY = re.compile(r"(?P<host>[^:]+):(?P<name>[A-Z0-9_]+)=(?P<total>-?[0-9]{1,30})")
#: What has a meaning in a short form: names there may not have it.
_MARKS = re.compile(r"[,*\s]")


def change_of(text: str, called: str) -> Json:
    """Return the change that a text says, in short or as JSON; ``called`` is its name in errors.

    Raises :class:`Invalid` for a text that says none.
    """
    if text.lstrip().startswith("{"):
        try:
            found: Json = decoded(text)
        except ValueError as wrong:
            raise Invalid(f"{called} {text}: not JSON: {wrong}") from None
        return found
    kind, _, rest = text.partition("=")
    match kind:
        case "drain" | "remove" if rest:
            return {kind: rest.split(",")}
        case "add" if parts := _COUNTED.fullmatch(rest):
            return {"add": {"like": parts["like"], "count": int(parts["count"] or 1)}}
        case "inventory" if parts := _INVENTORY.fullmatch(rest):
            total = {"total": int(parts["total"])}
            return {"inventory": {"host": parts["host"], "resource_class": parts["name"], **total}}
        case "aggregate" if ":" in rest:
            return {"aggregate": _aggregate(text, rest, called)}
    raise Invalid(f"{called} {text}: expected {FORMS}, or JSON")


def _aggregate(text: str, rest: str, called: str) -> Json:
    name, _, parts = rest.partition(":")
    hosts: dict[str, list[str]] = {"+": [], "-": []}
    tags: dict[str, str | None] = {}
    for part in parts.split(","):
        if part[:1] in hosts and len(part) > 1:
            hosts[part[0]].append(part[1:])
        elif "=" in part:
            key, _, value = part.partition("=")
            tags[key] = value or None
        else:
            raise Invalid(f"{called} {text}: {part!r} is none of +HOST, -HOST and KEY=VALUE")
    return {"name": name, "add_hosts": hosts["+"], "remove_hosts": hosts["-"], "metadata": tags}


def in_short(kind: str, hosts: Iterable[str]) -> str:
    """Return the text of a change of hosts (``drain``, ``remove``), as :func:`change_of` reads it.

    It is JSON where a name would be read as something else.
    """
    names = list(hosts)
    if any(_MARKS.search(name) for name in names):
        return _as_json({kind: names})
    return f"{kind}={','.join(names)}"


def added_in_short(like: str, count: str) -> str:
    """Return the text of a change that adds so many hosts like one."""
    if _MARKS.search(like) and count.isdecimal():
        return _as_json({"add": {"like": like, "count": int(count)}})
    return f"add={like}*{count}"


def _as_json(change: Mapping[str, Any]) -> str:
    return orjson.dumps(change).decode()
