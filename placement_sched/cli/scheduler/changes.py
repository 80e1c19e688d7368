# SPDX-License-Identifier: Apache-2.0
"""Options for simulated changes of the cloud."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from placement_sched.cli.terminal import read_text
from placement_sched.errors import Invalid
from placement_sched.model import flat_request
from placement_sched.model.document import Json, PathStep, join_keys
from placement_sched.model.flat_request import FORMS
from placement_sched.model.names import suggest_name
from placement_sched.operations.fleet.yaml_file import YamlFile
from placement_sched.schemas.formats import show_value

#: Valid keys of a file of changes.
_KEYS = ("changes", "flavors", "overrides")


def add_change_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of simulated changes."""
    group = parser.add_argument_group("simulated changes (the cloud is not changed)")
    group.add_argument(
        "--change",
        action="append",
        default=[],
        metavar="CHANGE",
        help=f"simulate this change: {FORMS}; or a change as JSON; repeatable",
    )
    group.add_argument(
        "--changes",
        metavar="FILE",
        help="simulate the changes of this YAML or JSON file, before the changes of --change; "
        "- is stdin",
    )


@dataclass(frozen=True, slots=True)
class ChangesFile:
    """The content of a file of changes.

    ``file`` has the line numbers.
    """

    name: str
    document: Json = field(default_factory=dict)
    file: YamlFile | None = None

    def listed(self, key: str) -> list[Any]:
        """Return the list at a key of the file.

        Raises :class:`Invalid` for another type.
        """
        value = self.document.get(key) or []
        if not isinstance(value, list):
            raise Invalid(f"{self.place([key])}: {key}: {show_value(value)} is not a list")
        return value

    @property
    def overrides(self) -> Json:
        """Return the option overrides.

        Raises :class:`Invalid` for another type.
        """
        value = self.document.get("overrides") or {}
        if not isinstance(value, dict):
            problem = f"expected GROUP.OPTION: VALUE, not {show_value(value)}"
            raise Invalid(f"{self.place(['overrides'])}: overrides: {problem}")
        return {str(name): option for name, option in value.items()}

    def place(self, steps: Sequence[PathStep], key: str | None = None) -> str:
        """Return file and line of the value at a path, or of the value's key.

        ``steps`` are the keys and indexes of the path.
        """
        keys = [*steps, *([] if key is None else [key])]
        # A file with only a list contains the changes.
        if self.file is not None and isinstance(self.file.data, list):
            keys = keys[1:]
        mark = None if self.file is None else self.file.find_mark(keys, at_key=True)
        line = 0 if mark is None else mark.line
        return f"{_file_label(self.name)}:{line + 1}"


NO_FILE = ChangesFile("")


@dataclass(frozen=True, slots=True)
class RequestedChanges:
    """Changes from the request file (``before``), from a file and from ``--change``."""

    file: ChangesFile
    texts: Sequence[str]
    before: Sequence[Any] = ()

    def all(self) -> list[Any]:
        """Return the changes in order.

        Raises :class:`Invalid` for invalid changes.
        """
        return [*self.before, *self.file.listed("changes"), *map(change_of, self.texts)]

    def place_of(self, steps: Sequence[PathStep], key: str | None = None) -> str | None:
        """Return the source of a value: file and line, or ``--change``.

        ``steps`` is the JSON path of the value in the request body. The part of the path within the
        change is appended to the source. Returns None for other values, such as the changes in
        ``before``.
        """
        if len(steps) < 2 or not isinstance(steps[1], int):
            return None
        position = steps[1] - len(self.before)
        from_file = len(self.file.listed("changes"))
        within = join_keys(steps[2:])
        if position < 0:
            return None
        if position < from_file:
            place = self.file.place(["changes", position, *steps[2:]], key)
            return f"{place}: {within}" if within else place
        text = self.texts[position - from_file]
        in_json = text.lstrip().startswith("{")
        return f"--change {text}: {within}" if in_json and within else f"--change {text}"


def with_changes(body: Json, arguments: argparse.Namespace) -> Json:
    """Add the changes and overrides of the options to a request body.

    Raises :class:`Invalid`. The sources of the changes are stored in the arguments, for error
    messages.
    """
    file = NO_FILE if arguments.changes is None else read_file(arguments.changes)
    request_changes = body.get("changes") or []
    sources = RequestedChanges(
        file, arguments.change, request_changes if isinstance(request_changes, list) else ()
    )
    arguments.given_changes = sources
    changes = sources.all()
    overrides = {
        **file.overrides,
        **(body.get("overrides") or {}),
        **flat_request.overrides(arguments.override, "--override"),
    }
    return {
        **body,
        **({"overrides": overrides} if overrides else {}),
        **({"changes": changes} if changes else {}),
    }


def read_file(name: str) -> ChangesFile:
    """Read a JSON or YAML object from a file of changes.

    A list in place of an object is the value of ``changes``.
    """
    parsed = YamlFile(read_text(name), _file_label(name))
    document = parsed.data
    if isinstance(document, list):
        return ChangesFile(name, {"changes": document}, parsed)
    if not isinstance(document, dict):
        raise Invalid(f"{name}: expected a list of changes, or an object with changes")
    file = ChangesFile(name, {str(key): value for key, value in document.items()}, parsed)
    for key in file.document:
        if key not in _KEYS:
            problem = f"unknown key {key!r}{suggest_name('key', key, _KEYS)}"
            raise Invalid(f"{file.place([], key)}: {problem}")
    return file


def _file_label(name: str) -> str:
    return "standard input" if name == "-" else name


def change_of(text: str) -> Json:
    """Parse a change in the short form or in JSON."""
    return flat_request.change_of(text, "--change")
