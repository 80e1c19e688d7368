# SPDX-License-Identifier: Apache-2.0
"""Options for a request and for simulated changes of the cloud.

Errors of a request name the options, not the JSON paths.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from placement_sched.cli.arguments import WrongArguments, rejected_arguments
from placement_sched.cli.output import read_text
from placement_sched.errors import Error, Invalid, NotFound
from placement_sched.limits import MAX_INSTANCES
from placement_sched.model import short_forms
from placement_sched.model.document import (
    Json,
    PathStep,
    decode,
    find_name,
    join_keys,
    split_json_path,
)
from placement_sched.model.names import suggest_name
from placement_sched.model.short_forms import FORMS, build_request_spec, parse_hints, parse_pairs
from placement_sched.schemas.formats import show_value
from placement_sched.schemas.validation import describe_fault
from placement_sched.schemas.yaml_file import YamlFile

#: Returns the option, or file and line, of a value. None if there is neither. The arguments are the
#: steps to the value and an unknown key in it.
FindPlace = Callable[[Sequence[PathStep], str | None], str | None]
_NUMBER = {"metavar": "N", "type": int}
_PAIRS = {"metavar": "KEY=VALUE", "action": "append", "default": []}
_HOSTS = {"metavar": "HOST", "action": "append", "default": []}
_AVX2 = "extra spec of the flavor, such as trait:HW_CPU_X86_AVX2=required (repeatable)"
_HINT = "scheduler hint, such as sched_policy=NAME (repeatable, also with the same key)"
_FORCE = "consider only this host, without the host filters (repeatable)"
#: Options that replace a request file: the value of a request, the option, its help and settings.
_FLAGS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("flavor", "--flavor", "id or name of a stored flavor", {"metavar": "FLAVOR"}),
    ("vcpus", "--vcpus", "virtual CPUs of the flavor", _NUMBER),
    ("ram", "--ram", "memory of the flavor in MiB", _NUMBER | {"metavar": "MIB"}),
    ("disk", "--disk", "root disk of the flavor in GiB", _NUMBER | {"metavar": "GIB"}),
    ("extra_specs", "--property", _AVX2, _PAIRS),
    ("image", "--image", "id or name of a stored image", {"metavar": "IMAGE"}),
    ("image_properties", "--image-property", "property of the image (repeatable)", _PAIRS),
    ("count", "--count", "number of instances (default: 1)", _NUMBER),
    ("zone", "--zone", "availability zone", {}),
    ("project", "--project", "id of the requesting project", {"metavar": "ID"}),
    ("hints", "--hint", _HINT, _PAIRS),
    ("force_hosts", "--force-host", _FORCE, _HOSTS),
    ("ignore_hosts", "--ignore-host", "exclude this host (repeatable)", _HOSTS),
)
#: Option of each value of a request.
_OPTION_OF = {value: option for value, option, *_ in _FLAGS}
#: Option of each part of a request, by JSON path. The longest matching path counts.
_OPTIONS = {
    **{keys: _OPTION_OF[value] for keys, value in short_forms.FORM_FIELD_BY_PATH.items()},
    "hosts": "--host",
    "overrides": "--override",
    "policy": "--policy",
}
_HOST_KEYS = ("force_hosts", "force_nodes", "ignore_hosts")
#: Valid keys of a file of changes.
_CHANGES_KEYS = ("changes", "flavors", "overrides")


@contextmanager
def replace_json_paths(find_place: FindPlace) -> Iterator[None]:
    """Replace the JSON path in errors by the source of the value."""
    try:
        yield
    except Error as failure:
        failure.detail = replace_json_path(failure, find_place)
        failure.args = (failure.detail,)
        raise


def replace_json_path(failure: Error, find_place: FindPlace) -> str:
    """Replace the JSON path in an error by its source, if it has a source."""
    fault = failure.fault
    if fault is None:
        return failure.detail
    is_unknown_key = fault.get("keyword") == "additionalProperties" and fault["expected"]
    key = fault["expected"][0] if is_unknown_key else None
    place = find_place(split_json_path(fault["path"]), key)
    reason, end = describe_fault(fault), fault.get("rest", "")
    return f"{reason} (at {fault['path']}){end}" if place is None else f"{place}: {reason}{end}"


def add_request_arguments(
    parser: argparse.ArgumentParser, *, several_flavors: bool = False
) -> None:
    """Add the arguments of a request, perhaps with ``several_flavors``."""
    parser.add_argument(
        "request",
        metavar="FLAVOR|REQUEST.json",
        nargs="?",
        help="id or name of a stored flavor, as --flavor, or a file (an existing file, a name that "
        "ends in .json, - for stdin): body of POST select_destinations, or only its request_spec",
    )
    flags = parser.add_argument_group("instead of a file")
    for value, option, text, settings in _FLAGS:
        is_repeatable = value == "flavor" and several_flavors
        more: dict[str, Any] = {"action": "append"} if is_repeatable else {}
        suffix = " (repeatable)" * is_repeatable
        flags.add_argument(option, dest=value, help=f"{text}{suffix}", **settings, **more)


def move_flavor_argument(arguments: argparse.Namespace) -> None:
    """Use the first argument as ``--flavor`` if it names no file."""
    word, flavor = arguments.request, arguments.flavor
    if word is None or word == "-" or word.endswith(".json") or Path(word).exists():
        return
    if isinstance(flavor, str):
        raise WrongArguments(f"FLAVOR {word} and --flavor {flavor} exclude each other")
    arguments.request, arguments.has_flavor_word = None, True
    arguments.flavor = word if flavor is None else [word, *flavor]


def build_request_body(arguments: argparse.Namespace, *, may_be_several: bool = False) -> Json:
    """Build the body of a selection, or raise :class:`Invalid`."""
    move_flavor_argument(arguments)
    flags = list_request_options(arguments)
    if arguments.request is None and not flags:
        raise WrongArguments(
            "no request: add a FLAVOR, a REQUEST.json, or --vcpus, --ram and --disk"
        )
    if arguments.request is not None and flags:
        raise WrongArguments(f"{flags[0]} cannot be combined with a request file")
    if arguments.request is None:
        values = {value: getattr(arguments, value) for value in _OPTION_OF}
        with rejected_arguments():
            for value in ("extra_specs", "image_properties"):
                values[value] = parse_pairs(values[value], _OPTION_OF[value])
            values["hints"] = parse_hints(values["hints"], _OPTION_OF["hints"])
            is_word = getattr(arguments, "has_flavor_word", False)
            labels = {**_OPTION_OF, "flavor": "FLAVOR"} if is_word else _OPTION_OF
            return {"request_spec": build_request_spec(values, labels)}
    try:
        document: Any = decode(read_text(arguments.request))
    except ValueError as error:
        raise Invalid(f"{arguments.request}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise Invalid(f"{arguments.request}: expected a JSON object")
    if "requests" in document:
        if not may_be_several:
            raise Invalid(
                f"{arguments.request}: only the command select accepts 'requests': use "
                "'request_spec' with a single request"
            )
        return document
    return document if "request_spec" in document else {"request_spec": document}


def list_request_options(arguments: argparse.Namespace) -> list[str]:
    """List the options on the command line that describe a request."""
    values = {option: getattr(arguments, value) for value, option in _OPTION_OF.items()}
    return [option for option, value in values.items() if value not in (None, [])]


def with_instances(body: Json) -> Json:
    """Add generated instance uuids to ``body`` if it has no uuids."""
    entries = body.get("requests")
    if isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries):
        body = {**body, "requests": [with_instances(entry) for entry in entries]}
    spec = body.get("request_spec")
    if not isinstance(spec, dict) or spec.get("instance_uuids"):
        return body
    count = spec.get("num_instances", 1)
    if not isinstance(count, int) or not 0 < count <= MAX_INSTANCES:
        return body  # the schema of the request reports it
    uuids = [str(uuid4()) for _ in range(count)]
    return {**body, "request_spec": {**spec, "instance_uuids": uuids}}


def add_override(parser: argparse.ArgumentParser, summary: str) -> None:
    """Add ``--override``, with a help text that begins with ``summary``."""
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="GROUP.OPTION=VALUE",
        help=f"{summary}, lists as JSON: "
        'filter_scheduler.enabled_filters=["ComputeFilter"] (repeatable)',
    )


def with_option_names(arguments: argparse.Namespace) -> AbstractContextManager[None]:
    """Name the option in errors, or the JSON path of a request file."""
    names = _OPTIONS
    if getattr(arguments, "compare", None) is not None:  # not an option of ``select``
        names = {**names, "policy": "--compare"}

    def find_place(steps: Sequence[PathStep], key: str | None) -> str | None:
        changes = getattr(arguments, "given_changes", None)  # only of commands with changes
        if changes is not None and (place := changes.find_place(steps, key)) is not None:
            return str(place)
        if steps[:1] == ("request_spec",) and arguments.request is not None:
            return None
        if steps[:2] == ("request_spec", "flavor") and getattr(arguments, "has_flavor_word", False):
            return "FLAVOR"
        named = find_name(steps, names)
        return named and f"{named[0]} {join_keys(named[1], ' ')}".strip()

    return replace_json_paths(find_place)


def check_hosts(funnel: Json, arguments: argparse.Namespace) -> None:
    """Raise :class:`NotFound` for unknown hosts, which are typing errors here."""
    options = _OPTIONS if arguments.request is None else {}
    for warning in funnel.get("warnings", ()):
        if warning["key"] in _HOST_KEYS:
            path = f"{warning['source']}.{warning['key']}"
            raise NotFound(f"{options.get(path, path)}: {warning['detail']}")


def add_change_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of simulated changes."""
    group = parser.add_argument_group("simulated changes (the cloud is not changed)")
    words = f"simulate this change: {FORMS}, or a change as JSON (repeatable)"
    group.add_argument("--change", action="append", default=[], metavar="CHANGE", help=words)
    group.add_argument(
        "--changes",
        metavar="FILE",
        help="simulate the changes of this YAML or JSON file, before the changes of --change "
        "(-: stdin)",
    )


@dataclass(frozen=True, slots=True)
class ChangesFile:
    """The content of a file of changes, with its lines in ``file``."""

    name: str
    document: Json = field(default_factory=dict)
    file: YamlFile = field(default_factory=lambda: YamlFile("", ""))

    def get_list(self, key: str) -> list[Any]:
        """Return the list at a key, or raise :class:`Invalid`."""
        value = self.document.get(key) or []
        if not isinstance(value, list):
            raise Invalid(f"{self.place([key])}: {key}: {show_value(value)} is not a list")
        return value

    @property
    def overrides(self) -> Json:
        """Return the option overrides, or raise :class:`Invalid`."""
        value = self.document.get("overrides") or {}
        if not isinstance(value, dict):
            problem = f"expected GROUP.OPTION: VALUE, not {show_value(value)}"
            raise Invalid(f"{self.place(['overrides'])}: overrides: {problem}")
        return {str(name): option for name, option in value.items()}

    def place(self, steps: Sequence[PathStep], key: str | None = None) -> str:
        """Return file and line of the value at a path, or of the value's key."""
        keys = [*steps, *([] if key is None else [key])]
        # A file with only a list contains the changes.
        if isinstance(self.file.data, list):
            keys = keys[1:]
        mark = self.file.find_mark(keys, at_key=True)
        line = 0 if mark is None else mark.line
        return f"{_format_file_label(self.name)}:{line + 1}"


@dataclass(frozen=True, slots=True)
class RequestedChanges:
    """Changes from the request (``before``), a file and ``--change``.

    ``flavors`` is the number of flavors of the file, which precede all others.
    """

    file: ChangesFile
    texts: Sequence[str]
    before: Sequence[Any] = ()
    has_overrides: bool = False
    flavors: int = 0

    def find_place(self, steps: Sequence[PathStep], key: str | None = None) -> str | None:
        """Return file and line, or ``--change``, of a value, else None."""
        match steps:
            case ["overrides", *_] if self.file.overrides and not self.has_overrides:
                return f"{self.file.place(['overrides'])}: overrides"
            case ["flavors", int(index), *_] if index < self.flavors:
                return f"{self.file.place(steps)}: flavors"
            case ["changes", int(index), *inner] if index >= len(self.before):
                position, inner_path = index - len(self.before), join_keys(inner)
            case _:
                return None
        from_file = len(self.file.get_list("changes"))
        if position < from_file:
            place = self.file.place(["changes", position, *inner], key)
            return f"{place}: {inner_path}" if inner_path else place
        text = self.texts[position - from_file]
        in_json = text.lstrip().startswith("{")
        return f"--change {text}: {inner_path}" if in_json and inner_path else f"--change {text}"


def with_changes(body: Json, arguments: argparse.Namespace, *, with_flavors: bool = False) -> Json:
    """Add changes, overrides and flavors, and keep their sources."""
    file = ChangesFile("") if arguments.changes is None else _read_changes_file(arguments.changes)
    request_changes = body.get("changes") or []
    flavors = file.get_list("flavors") if with_flavors else []
    sources = RequestedChanges(
        file,
        arguments.change,
        request_changes if isinstance(request_changes, list) else (),
        has_overrides=bool(arguments.override),
        flavors=len(flavors),
    )
    arguments.given_changes = sources
    with rejected_arguments():
        changes = [short_forms.parse_change(text, "--change") for text in arguments.change]
        overrides = short_forms.parse_overrides(arguments.override, "--override")
    parts = {
        "changes": [*sources.before, *file.get_list("changes"), *changes],
        "overrides": {**file.overrides, **(body.get("overrides") or {}), **overrides},
        "flavors": [*flavors, *arguments.flavor] if with_flavors else [],
    }
    return {**body, **{name: part for name, part in parts.items() if part}}


def _read_changes_file(name: str) -> ChangesFile:
    parsed = YamlFile(read_text(name), _format_file_label(name))
    document = parsed.data
    if isinstance(document, list):
        return ChangesFile(name, {"changes": document}, parsed)
    if not isinstance(document, dict):
        raise Invalid(f"{name}: expected a list of changes, or an object with changes")
    file = ChangesFile(name, {str(key): value for key, value in document.items()}, parsed)
    for key in file.document:
        if key not in _CHANGES_KEYS:
            problem = f"unknown key {key!r}{suggest_name('key', key, _CHANGES_KEYS)}"
            raise Invalid(f"{file.place([], key)}: {problem}")
    return file


def _format_file_label(name: str) -> str:
    return "standard input" if name == "-" else name
