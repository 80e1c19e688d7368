"""A configuration file as its lines: every assignment with the place where it stands."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from oslo_config import cfg, iniparser

from placement_sched.errors import ConfigurationError


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


#: Assignments by section, in the order in which they are written.
Sections = Mapping[str, tuple[Assignment, ...]]
NO_SECTIONS: Sections = MappingProxyType({})


def files_read(conf: cfg.ConfigOpts) -> list[str]:
    """Return the files that ``conf`` was read from, in order: what comes later wins."""
    folders = [Path(folder) for folder in conf.config_dir or ()]
    return [
        *(conf.config_file or ()),
        *(str(one) for each in folders for one in sorted(each.glob("*.conf"))),
    ]


def in_effect(sections: Sections, names: Iterable[tuple[str, str]]) -> Assignment | None:
    """Return the assignment that sets an option: the last one of the last file that has one.

    ``names`` are group and name of the option, those of today first: in one file they win.
    """
    found = [list(_named(sections, *each)) for each in names]
    files = [line.place.file for lines in sections.values() for line in lines]
    for file in reversed(list(dict.fromkeys(files))):
        for lines in found:
            here = [line for line in lines if line.place.file == file]
            if here:
                return here[-1]
    return None


def _named(sections: Sections, group: str, name: str) -> Iterator[Assignment]:
    wanted = name.replace("-", "_")
    for line in sections.get(group, ()):
        if line.name.replace("-", "_") == wanted:
            yield line


def sections_of(files: Iterable[str]) -> Sections:
    """Return what files say, by heading; nothing may stand under one.

    Raises :class:`ConfigurationError` as :func:`read_assignments` does.
    """
    found: dict[str, list[Assignment]] = {}
    for file in files:
        parser = _parsed(file)
        for heading in parser.headings:
            found.setdefault(heading, [])
        for assignment in parser.found:
            found.setdefault(assignment.group, []).append(assignment)
    return MappingProxyType({name: tuple(some) for name, some in found.items()})


def read_assignments(file: str) -> tuple[Assignment, ...]:
    """Return every assignment of an INI file in order.

    Raises :class:`ConfigurationError` with file and line for what is no INI.
    """
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
        self._file = file
        self._group = "DEFAULT"
        self._line = 0
        self._begun = 0
        self._heading = Place(file, 0)

    def watched(self, lines: Iterable[str]) -> Iterable[str]:
        """Yield ``lines``, noting where an assignment begins: it is told only once it has ended."""
        for number, line in enumerate(lines, 1):
            self._line = number
            yield line

    def _split_key_value(self, line: str) -> tuple[str, list[str]]:
        self._begun = self._line
        return super()._split_key_value(line)

    def assignment(self, key: str, value: list[str]) -> None:
        """Keep an assignment that has ended."""
        place = Place(self._file, self._begun)
        self.found.append(Assignment(place, self._heading, self._group, key, "\n".join(value)))

    def new_section(self, section: str) -> None:
        """Keep the section's name as oslo.config understands it: without heed of case."""
        self._heading = Place(self._file, self._line)
        self._group = "DEFAULT" if section.upper() == "DEFAULT" else section.lower()
        self.headings.append(self._group)
