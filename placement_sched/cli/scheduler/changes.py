"""The options that say how the cloud of a question differs from what it is."""

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from placement_sched.errors import Invalid
from placement_sched.model import flat_changes
from placement_sched.model.document import Json
from placement_sched.model.flat_changes import FORMS


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
    return flat_changes.change_of(text, "--change")
