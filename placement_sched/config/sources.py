# SPDX-License-Identifier: Apache-2.0
"""Sources of settings: default files, assignments and typed values."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from oslo_config import cfg, iniparser, types
from oslo_log import log

from placement_sched.errors import ConfigurationError

#: The prefix of a place that is an environment variable.
ENVIRONMENT = "environment "
#: The source of a request's overrides. Errors in these overrides are errors of the caller.
OF_REQUEST = "overrides"

LOG = log.getLogger(__name__)
Value = TypeVar("Value")

#: The expected type, by the part of Python's conversion errors that oslo.config passes on.
_TYPES = {"int()": "an integer", "float()": "a number", "to float": "a number"}


@dataclass(frozen=True, slots=True)
class Place:
    """A location: a file with a line, or the environment (line 0)."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Assignment:
    """A line of the section at ``heading``, or an environment variable."""

    place: Place
    heading: Place
    group: str
    name: str
    value: str
    file_number: int = 0

    @property
    def dest(self) -> str:
        """Return the name in oslo.config's form, with underscores."""
        return self.name.replace("-", "_")


#: Assignments by section, in the order of the files.
Sections = Mapping[str, tuple[Assignment, ...]]
NO_SECTIONS: Sections = MappingProxyType({})


def with_directories(names: Iterable[str]) -> list[str]:
    """List files, each followed by the ``*.conf`` files of its ``.d`` folder.

    Raises :class:`ConfigurationError` if a directory cannot be read.
    """
    files: dict[str, None] = {}
    for name in names:
        files[name] = None
        directory = Path(f"{name}.d")
        try:
            inside = sorted(directory.iterdir()) if directory.is_dir() else []
        except OSError as wrong:
            message = f"configuration directory {directory}: {wrong.strerror}"
            raise ConfigurationError(message) from None
        # oslo.config ignores hidden files, such as an editor's locks.
        files |= {str(file): None for file in inside if file.match("[!.]*.conf")}
    return list(files)


def list_files(conf: cfg.ConfigOpts) -> list[str]:
    """Return the files that ``conf`` was read from, in order of precedence."""
    return list(conf.config_file or ())


def format_file_list(conf: cfg.ConfigOpts) -> str:
    """Return the end of a start message with the configuration files."""
    files = list_files(conf)
    return f", configuration {', '.join(files)}" if files else ""


def find_assignment(
    sections: Sections, names: Sequence[tuple[str, str]], environment: Mapping[str, str]
) -> Assignment | None:
    """Return the environment variable or line that sets an option, or None.

    ``names`` are group and name of the option, first the current names, then older names. The
    environment takes precedence over files, and the last file with any of the names over other
    files. Within a file, the first of ``names`` takes precedence, and its last assignment.
    """
    for group, name in names:
        variable = f"OS_{group}__{name}".upper()
        if variable in environment:
            return build_assignment(variable, group, name, environment[variable])
    lines = [line for group, _ in names for line in sections.get(group, ())]
    return max(
        (line for line in lines if (line.group, line.dest) in names),
        key=lambda at: (at.file_number, -names.index((at.group, at.dest)), at.place.line),
        default=None,
    )


def build_assignment(variable: str, group: str, name: str, value: str) -> Assignment:
    """Return the assignment of an option by a variable of the environment."""
    place = Place(f"{ENVIRONMENT}{variable}", 0)
    return Assignment(place, place, group, name, value)


#: The section of the lines below a broken heading. These lines are not read.
_BROKEN = "broken heading"


def read_sections(files: Iterable[str], errors: list[ConfigurationError] | None = None) -> Sections:
    """Map sections to assignments, and append or raise errors."""
    sections: dict[str, list[Assignment]] = {}
    problems = [] if errors is None else errors
    for number, file in enumerate(files):
        lines: list[str] = []
        try:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as failure:
            reason = getattr(failure, "strerror", None) or str(failure)
            problems.append(ConfigurationError(reason, place=Place(file, 0)))
        while True:
            own: dict[str, list[Assignment]] = {}
            try:
                _FileParser(file, number, own).parse([*lines, ""])  # an empty line ends a value
                break
            except iniparser.ParseError as wrong:
                problems.append(ConfigurationError(wrong.msg, place=Place(file, wrong.lineno)))
                is_heading = lines[wrong.lineno - 1].startswith("[")
                lines[wrong.lineno - 1] = f"[{_BROKEN}]" if is_heading else ""
        own.pop(_BROKEN, None)
        for name, assignments in own.items():
            sections.setdefault(name, []).extend(assignments)
    if errors is None and problems:
        raise problems[0]
    return MappingProxyType({name: tuple(assignments) for name, assignments in sections.items()})


class _FileParser(iniparser.BaseParser):
    """oslo.config's parser, which adds a file's assignments to ``sections``."""

    def __init__(self, file: str, number: int, sections: dict[str, list[Assignment]]) -> None:
        self._file, self._number, self._sections = file, number, sections
        self._heading, self._group = Place(file, 0), "DEFAULT"

    def assignment(self, key: str, value: list[str]) -> None:
        """Add an assignment, which the parser passes after its last line."""
        place = Place(self._file, self.lineno - len(value))
        line = Assignment(place, self._heading, self._group, key, "\n".join(value), self._number)
        self._sections.setdefault(self._group, []).append(line)

    def new_section(self, section: str) -> None:
        """Begin a section, whose name is case-insensitive as in oslo.config."""
        self._heading = Place(self._file, self.lineno)
        self._group = "DEFAULT" if section.upper() == "DEFAULT" else section.lower()
        self._sections.setdefault(self._group, [])


def describe_reason(value: object, wrong: Exception) -> str:
    """Describe the error that an option's type raised for ``value``."""
    reason = " ".join(str(wrong).split())
    noun = next((noun for python, noun in _TYPES.items() if python in reason), None)
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return reason if noun is None else f"{text} is not {noun}"


def describe_wrong_value(line: Assignment, option: cfg.Opt, reason: object) -> str:
    """Build the message about a wrong value, without the value if secret."""
    return f"[{line.group}] {line.name} has a wrong value{'' if option.secret else f': {reason}'}"


def check_number(option: cfg.Opt, value: Value) -> Value:
    """Return an option's value unless it is an unusable number.

    Raises :class:`ValueError`. oslo.config accepts ``inf`` and ``nan``, whose results cannot be
    written as JSON. It also accepts an empty text as None, which is valid only for an option
    without a default.
    """
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    if value is None and option.default is not None and isinstance(option.type, types.Number):
        raise ValueError("an empty text is not a number")
    return value


def convert_value(option: cfg.Opt, value: Any) -> Any:
    """Convert a JSON value or text to an option's type.

    Raises :class:`ValueError` with a readable reason.
    """
    is_repeatable = isinstance(option, cfg.MultiOpt)
    if isinstance(value, list) and not is_repeatable and not isinstance(option.type, types.List):
        raise ValueError("the option takes a single value, not a list")
    texts = [str(item) for item in (value if isinstance(value, list) else [value])]
    try:
        if is_repeatable:
            return [option.type(text) for text in texts]
        return check_number(option, option.type(texts if isinstance(value, list) else texts[0]))
    except (TypeError, ValueError) as wrong:
        raise ValueError(describe_reason(value, wrong)) from None


def parse_ratios(option: str, items: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """Parse ``name=ratio`` items, and log and ignore others, as nova does."""
    ratios, ignored = [], []
    for item in items:
        name, _, text = item.partition("=")
        try:
            ratio = float(text)
        except ValueError:
            ratio = inf
        if name.strip() and isfinite(ratio):
            ratios.append((name.strip(), ratio))
        else:
            ignored.append(item)
    if ignored:
        LOG.warning(
            "%s: items that are not name=number are ignored: %s", option, ", ".join(ignored)
        )
    return tuple(ratios)


#: The environment variable that names configuration files if no command line option names files.
FILES = "PLACEMENT_SCHED_CONFIG"
#: OpenStack placement's variable for the directory of ``placement.conf``.
PLACEMENT_DIRECTORY = "OS_PLACEMENT_CONFIG_DIR"
#: Directory of the configuration directories.
_ETC = Path("/etc")


def find_files(*, with_nova_conf: bool = False) -> list[str]:
    """Return the files to read if the command line names no files.

    ``PLACEMENT_SCHED_CONFIG`` names them, separated by colons. If it is unset, they are the
    existing files of OpenStack placement, of nova (``with_nova_conf``), and of this service. Later
    files override earlier files.
    """
    if FILES in os.environ:
        return [name for name in os.environ[FILES].split(":") if name]
    placement = Path(os.environ.get(PLACEMENT_DIRECTORY) or _ETC / "placement") / "placement.conf"
    nova = [_ETC / "nova" / "nova.conf"] if with_nova_conf else []
    files = (placement, *nova, _ETC / "placement_sched" / "placement_sched.conf")
    return [str(file) for file in files if file.is_file()]
