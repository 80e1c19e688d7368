"""Where settings come from: lines with places, and layers; what is wrong with values; ratios."""

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from oslo_config import cfg, iniparser, types
from oslo_log import log

from placement_sched.errors import ConfigurationError, Invalid


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is written: a file and line, or the environment (line 0)."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Assignment:
    """One ``name = value`` of a section, and where the section's heading stands."""

    place: Place
    heading: Place
    group: str
    name: str
    value: str


DEFAULT = "default"
CONFIGURATION = "configuration"
ENVIRONMENT = "environment"
#: Set over the configuration by an override or the options file; the place says which.
OVERRIDE = "override"
#: Where the overrides of one request stand: what they make impossible is the caller's to change.
OF_REQUEST = "overrides"


@dataclass(frozen=True, slots=True)
class Origin:
    """The layer that the value of an option comes from, and the place in it where it has one."""

    source: str
    place: str | None = None


#: Assignments by section, in the order in which they are written.
Sections = Mapping[str, tuple[Assignment, ...]]
NO_SECTIONS: Sections = MappingProxyType({})


def with_directories(names: Iterable[str]) -> list[str]:
    """Return files with those of their directories, in the order in which they are read.

    After ``placement.conf`` come the files ``*.conf`` of ``placement.conf.d`` next to it, by name,
    as oslo.config reads them. Raises :class:`ConfigurationError` for a directory that cannot be
    read.
    """
    found: list[str] = []
    for name in names:
        found += [name, *(_files_in(f"{name}.d") if Path(f"{name}.d").is_dir() else ())]
    return list(dict.fromkeys(found))


def _files_in(directory: str) -> list[str]:
    """Return the files ``*.conf`` of a directory, by name; raises :class:`ConfigurationError`."""
    try:
        files = sorted(Path(directory).iterdir())
        # oslo.config ignores hidden files, such as an editor's locks.
        return [str(one) for one in files if one.suffix == ".conf" and one.name[0] != "."]
    except OSError as wrong:
        raise ConfigurationError(f"configuration directory {directory}: {wrong.strerror}") from None


def files_read(conf: cfg.ConfigOpts) -> list[str]:
    """Return the files that ``conf`` was read from, in order: what comes later wins."""
    folders = [sorted(Path(folder).glob("[!.]*.conf")) for folder in conf.config_dir or ()]
    return [*(conf.config_file or ()), *(str(one) for files in folders for one in files)]


def named_files(conf: cfg.ConfigOpts) -> str:
    """Return the end of a line that says where a service runs: the files it was configured by."""
    files = files_read(conf)
    return f", configuration {', '.join(files)}" if files else ""


def last_assignment(sections: Sections, names: Iterable[tuple[str, str]]) -> Assignment | None:
    """Return the assignment that sets an option: the last one of the last file that has one.

    ``names`` are group and name of the option, the current ones first: in one file they win.
    """
    found = [
        [line for line in sections.get(group, ()) if _plain(line.name) == _plain(name)]
        for group, name in names
    ]
    files = dict.fromkeys(line.place.file for lines in sections.values() for line in lines)
    for file in reversed(files):
        for lines in found:
            if here := [line for line in lines if line.place.file == file]:
                return here[-1]
    return None


def _plain(name: str) -> str:
    return name.replace("-", "_")


def sections_of(files: Iterable[str]) -> Sections:
    """Return assignments by heading, which may have none; raises as :func:`read_assignments`."""
    found: dict[str, list[Assignment]] = {}
    for file in files:
        parser = _parsed(file)
        for heading in parser.headings:
            found.setdefault(heading, [])
        for assignment in parser.found:
            found.setdefault(assignment.group, []).append(assignment)
    return MappingProxyType({name: tuple(some) for name, some in found.items()})


def read_assignments(file: str) -> tuple[Assignment, ...]:
    """Return an INI file's assignments; raises :class:`ConfigurationError` with file and line."""
    return tuple(_parsed(file).found)


def _parsed(file: str) -> "_Parser":
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as failure:
        reason = getattr(failure, "strerror", None) or str(failure)
        raise ConfigurationError(f"{file}: {reason}") from None
    parser = _Parser(file)
    try:
        parser.parse(parser.watched(lines))
    except iniparser.ParseError as wrong:
        raise ConfigurationError(f"{Place(file, wrong.lineno)}: {wrong.msg}") from None
    return parser


class _Parser(iniparser.BaseParser):
    """oslo.config's own parser, so that what is checked is what is read later."""

    def __init__(self, file: str) -> None:
        self.found: list[Assignment] = []
        self.headings: list[str] = []
        self._file, self._group = file, "DEFAULT"
        self._begun: deque[int] = deque()
        self._heading = Place(file, 0)

    def watched(self, lines: Iterable[str]) -> Iterable[str]:
        """Yield ``lines``, noting where assignments begin: each is reported once it has ended."""
        for number, line in enumerate(lines, 1):
            if line.strip() and line[0] not in " \t[#;":
                self._begun.append(number)
            yield line

    def assignment(self, key: str, value: list[str]) -> None:
        """Keep an assignment that has ended."""
        place = Place(self._file, self._begun.popleft())
        self.found.append(Assignment(place, self._heading, self._group, key, "\n".join(value)))

    def new_section(self, section: str) -> None:
        """Keep the section's name as oslo.config understands it: case does not count."""
        self._heading = Place(self._file, self.lineno)
        self._group = "DEFAULT" if section.upper() == "DEFAULT" else section.lower()
        self.headings.append(self._group)


LOG = log.getLogger(__name__)
Value = TypeVar("Value")

#: What Python's conversions say of themselves, which oslo.config passes on: what was wanted.
_NOUNS = {"int()": "an integer", "float()": "a number", "to float": "a number"}


def plain_reason(value: object, wrong: Exception) -> str:
    """Return in plain words why ``value`` is not of an option's type, which raised ``wrong``."""
    reason = " ".join(str(wrong).split())
    noun = next((noun for python, noun in _NOUNS.items() if python in reason), None)
    shown = repr(value) if isinstance(value, str) else json.dumps(value)
    return reason if noun is None else f"{shown} is not {noun}"


def wrong_value(line: Assignment, option: cfg.Opt, why: Exception) -> str:
    """Return what is wrong with the value that a line has for an option, which raised ``why``."""
    reason = "" if option.secret else f": {plain_reason(line.value, why)}"
    return f"[{line.group}] {line.name} has a wrong value{reason}"


def countable(option: cfg.Opt, value: Value) -> Value:
    """Return an option's value as it is; raise :class:`ValueError` where it should be a number.

    oslo.config takes ``inf`` and ``nan``, and what is computed of them cannot be written as JSON;
    it takes an empty text too, for None, which counts only for an option that may be unset.
    """
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    if value is None and option.default is not None and isinstance(option.type, types.Number):
        raise ValueError("an empty text is not a number")
    return value


def typed(place: str, option: cfg.Opt, value: Any) -> Any:
    """Return ``value``, given as JSON, as the option's type makes it of its text.

    A text for an option with several values is read as a line of a file: commas part the items of
    a list, and of an option that may be repeated it is one value. Raises :class:`Invalid`.
    """
    repeated = isinstance(option, cfg.MultiOpt)
    if isinstance(value, list) and not repeated and not isinstance(option.type, types.List):
        raise Invalid(f"{place}: it takes one value, not a list")
    texts = [str(item) for item in (value if isinstance(value, list) else [value])]
    try:
        if repeated:
            return [option.type(text) for text in texts]
        return countable(option, option.type(texts if isinstance(value, list) else texts[0]))
    except (TypeError, ValueError) as wrong:
        raise Invalid(f"{place}: {plain_reason(value, wrong)}") from None


def named_ratios(option: str, items: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """Return each name of a list option ``name=ratio`` with its ratio, in the order written.

    As in nova, what is not ``name=number`` is logged and ignored.
    """
    found, bad = [], []
    for item in items:
        name, _, text = item.partition("=")
        try:
            ratio = float(text)
        except ValueError:
            ratio = inf
        if name.strip() and isfinite(ratio):
            found.append((name.strip(), ratio))
        else:
            bad.append(item)
    if bad:
        LOG.warning("%s: not name=number, and ignored: %s", option, ", ".join(bad))
    return tuple(found)
