"""The options that say how the cloud of a question differs from what it is."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from placement_sched.cli.scheduler.request_options import PathStep, keys_in
from placement_sched.errors import Invalid
from placement_sched.model import flat_request
from placement_sched.model.document import Json
from placement_sched.model.flat_request import FORMS
from placement_sched.model.names import suggested
from placement_sched.operations.fleet.yaml_file import YamlFile

#: What a file of changes may have.
_KEYS = ("changes", "flavors", "overrides")


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


@dataclass(frozen=True, slots=True)
class GivenFile:
    """What was read from a file of changes; ``node`` is the same with the lines of its parts."""

    name: str
    document: Json = field(default_factory=dict)
    node: yaml.Node | None = None

    def listed(self, key: str) -> list[Any]:
        """Return the list of this key; raises :class:`Invalid` for what is not one."""
        found = self.document.get(key) or []
        if not isinstance(found, list):
            what = f"{key}: expected a list, not {shown_in_short(found)}"
            raise Invalid(f"{self.place([key])}: {what}")
        return found

    @property
    def overrides(self) -> Json:
        """Return the options that change with the cloud; raises :class:`Invalid`."""
        found = self.document.get("overrides") or {}
        if not isinstance(found, dict):
            what = f"expected GROUP.OPTION: VALUE, not {shown_in_short(found)}"
            raise Invalid(f"{self.place(['overrides'])}: overrides: {what}")
        return {str(key): value for key, value in found.items()}

    def place(self, steps: Sequence[PathStep], key: str | None = None) -> str:
        """Return file and line of the value at these steps, or of a ``key`` in that value."""
        # A list alone stands for the changes.
        bare = isinstance(self.node, yaml.SequenceNode)
        node, line = self.node, 0 if self.node is None else self.node.start_mark.line
        for step in [*(steps[1:] if bare else steps), *([] if key is None else [key])]:
            if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
                node = node.value[step]
                line = node.start_mark.line
            elif isinstance(node, yaml.MappingNode):
                pairs = {name.value: (name, value) for name, value in node.value}
                if step not in pairs:
                    break
                name, node = pairs[step]
                line = name.start_mark.line
        return f"{_called(self.name)}:{line + 1}"


#: No file.
NO_FILE = GivenFile("")


@dataclass(frozen=True, slots=True)
class GivenChanges:
    """Changes from a file and from ``--change``; ``before`` are those of the request's own file."""

    file: GivenFile
    texts: Sequence[str]
    before: Sequence[Any] = ()

    def all(self) -> list[Any]:
        """Return the changes in order; raises :class:`Invalid` for what is not one."""
        return [*self.before, *self.file.listed("changes"), *map(change_of, self.texts)]

    def place_of(self, steps: Sequence[PathStep], key: str | None = None) -> str | None:
        """Return file and line, or option, of what stands there, with the keys within a change."""
        if len(steps) < 2 or not isinstance(steps[1], int):
            return None
        position = steps[1] - len(self.before)
        from_file = len(self.file.listed("changes"))
        within = keys_in(steps[2:])
        if position < 0:
            return None
        if position < from_file:
            place = self.file.place(["changes", position, *steps[2:]], key)
            return f"{place}: {within}" if within else place
        text = self.texts[position - from_file]
        in_json = text.lstrip().startswith("{")
        return f"--change {text}: {within}" if in_json and within else f"--change {text}"


def with_changes(body: Json, arguments: argparse.Namespace) -> Json:
    """Return a body with the changes that the options name; raises :class:`Invalid`.

    The arguments remember where each came from, for errors about it.
    """
    file = NO_FILE if arguments.changes is None else read_file(arguments.changes)
    before = body.get("changes") or []
    given = GivenChanges(file, arguments.change, before if isinstance(before, list) else ())
    arguments.given_changes = given
    changes = given.all()
    overrides = {**file.overrides, **(body.get("overrides") or {})}
    return {
        **body,
        **({"overrides": overrides} if overrides else {}),
        **({"changes": changes} if changes else {}),
    }


def read_file(name: str) -> GivenFile:
    """Return the JSON or YAML object of a file; a list alone is taken as its ``changes``."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        read = YamlFile(text, _called(name))
    except OSError as failure:
        raise Invalid(f"{name}: {failure.strerror}") from None
    except UnicodeDecodeError as wrong:
        raise Invalid(f"{name}: neither YAML nor JSON: {wrong}") from None
    document, node = read.data, read.root
    if isinstance(document, list):
        return GivenFile(name, {"changes": document}, node)
    if not isinstance(document, dict):
        raise Invalid(f"{name}: expected a list of changes, or an object with changes")
    file = GivenFile(name, {str(key): value for key, value in document.items()}, node)
    for key in file.document:
        if key not in _KEYS:
            what = f"unknown key {key!r}{suggested('key', key, _KEYS)}"
            raise Invalid(f"{file.place([], key)}: {what}")
    return file


def _called(name: str) -> str:
    return "standard input" if name == "-" else name


def change_of(text: str) -> Json:
    """Return the change that a text says, in short or as JSON."""
    return flat_request.change_of(text, "--change")


def shown_in_short(value: object) -> str:
    """Return a value as a message shows it."""
    return "keys with values" if isinstance(value, dict) else repr(value)
