"""The options that say how the cloud of a question differs from what it is."""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import orjson
import yaml

from placement_sched.errors import Invalid
from placement_sched.model.document import Json

#: The short forms of changes.
FORMS = (
    "drain=HOST,... | remove=HOST,... | add=HOST or HOST*COUNT (like HOST) | "
    "inventory=HOST:CLASS=TOTAL | aggregate=NAME:+HOST,-HOST,KEY=VALUE"
)
_COUNTED = re.compile(r"(?P<like>.+?)(?:\*(?P<count>[0-9]{1,6}))?")
_INVENTORY = re.compile(r"(?P<host>[^:]+):(?P<name>[A-Z0-9_]+)=(?P<total>[0-9]{1,10})")


def add_change_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that change the cloud for this question."""
    group = parser.add_argument_group("what if the cloud were another (nothing is changed)")
    group.add_argument(
        "--change",
        action="append",
        default=[],
        metavar="CHANGE",
        help=f"ask as if this had been done: {FORMS}; or one change as JSON; repeatable",
    )
    group.add_argument(
        "--changes",
        metavar="FILE",
        help="ask as if the changes of this YAML or JSON file had been made, before those of "
        "--change; - is stdin",
    )


def changes_of(arguments: argparse.Namespace) -> list[Any]:
    """Return the changes that the options name; raises :class:`Invalid` for what is not one."""
    from_file = {} if arguments.changes is None else read_file(arguments.changes)
    return [*changes_in(from_file, arguments.changes), *map(change_of, arguments.change)]


def changes_in(document: Json, name: str) -> list[Any]:
    """Return the changes of what was read from the file of this name."""
    changes = document.get("changes") or []
    if not isinstance(changes, list):
        raise Invalid(f"{name}: expected a list of changes (at $.changes)")
    return changes


def read_file(name: str) -> Json:
    """Return the JSON or YAML object of a file; a list alone is taken as its ``changes``."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        document = yaml.safe_load(text)
    except OSError as failure:
        raise Invalid(f"{name}: {failure.strerror}") from None
    except (ValueError, yaml.YAMLError) as wrong:
        reason = " ".join(str(wrong).split())
        raise Invalid(f"{name}: neither YAML nor JSON: {reason}") from None
    if isinstance(document, list):
        return {"changes": document}
    if not isinstance(document, dict):
        raise Invalid(f"{name}: expected a list of changes, or an object with changes")
    return {str(key): value for key, value in document.items()}


def change_of(text: str) -> Json:
    """Return the change that a text says, in short or as JSON."""
    if text.lstrip().startswith("{"):
        try:
            found: Json = orjson.loads(text)
        except ValueError as wrong:
            raise Invalid(f"--change {text}: not JSON: {wrong}") from None
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
            return {"aggregate": _aggregate(text, rest)}
    raise Invalid(f"--change {text}: expected {FORMS}, or JSON")


def _aggregate(text: str, rest: str) -> Json:
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
            raise Invalid(f"--change {text}: {part!r} is none of +HOST, -HOST and KEY=VALUE")
    return {"name": name, "add_hosts": hosts["+"], "remove_hosts": hosts["-"], "metadata": tags}
