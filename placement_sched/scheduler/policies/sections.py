"""The section of a policy: which options it overrides, by which of their names, and with what.

An option is written bare, or ``<group>_<option>`` where several groups have one of that name. Old
names are understood as in the groups themselves.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from oslo_config import cfg

from placement_sched.config.lines import Assignment, Place
from placement_sched.config.origin import place_in_files
from placement_sched.config.settings import Settings, registered_options
from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.model.host_aggregate import DEFAULT_POLICY
from placement_sched.scheduler.overriding import standing_options

Option = tuple[str, str]

#: Read when a host reports, and not per request; a policy's aggregates have their own.
RATIOS = frozenset(
    ("DEFAULT", name)
    for name in ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")
)


#: How the groups of the libraries begin that read options of their own.
_OF_LIBRARIES = ("oslo_", "keystone_")

#: No host's ratio is larger, and none is no number.
MOST_RATIO = 10_000.0


@dataclass(frozen=True, slots=True)
class Override:
    """One line of a policy's section, and the option that it sets."""

    group: str
    option: str
    value: str
    place: Place
    #: What earlier lines say of an option that may be repeated.
    earlier: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return ``group.option``."""
        return f"{self.group}.{self.option}"


def overrides_of(name: str, settings: Settings) -> tuple[Override, ...]:
    """Return what the section of a policy overrides, the last line of an option alone.

    Of one that may be repeated, all lines count.

    Raises :class:`ConfigurationError` with file and line for what no policy may set, or for a
    name that means nothing or several things.
    """
    lines = lines_of(name, settings)
    names = Names(settings)
    found: dict[Option, Override] = {}
    for line in lines:
        group, option = names.meant_by(line)
        before = found.pop((group, option), None)
        repeated = isinstance(registered_options(settings.conf)[group][option], cfg.MultiOpt)
        earlier = (*before.earlier, before.value) if before and repeated else ()
        found[group, option] = Override(group, option, line.value, line.place, earlier)
    return tuple(found.values())


def lines_of(name: str, settings: Settings) -> tuple[Assignment, ...]:
    """Return the lines of a policy's section.

    Raises :class:`ConfigurationError` where there is none, or it cannot be a policy's.
    """
    where = _where(settings, "policies")
    known = (*registered_options(settings.conf), DEFAULT_POLICY)
    if name in known or name.startswith(_OF_LIBRARIES):
        raise ConfigurationError(f"{where}: {name!r} is a group of options, and cannot be a policy")
    lines = settings.sections.get(name)
    if lines is None:
        raise ConfigurationError(f"{where}: there is no section [{name}]")
    return lines


def says_something(lines: Iterable[Assignment], names: "Names") -> bool:
    """Return whether any line sets what a policy may set; other programs' sections do not."""
    return any(_means_something(line, names) for line in lines)


def _means_something(line: Assignment, names: "Names") -> bool:
    try:
        names.meant_by(line)
    except ConfigurationError:
        return False
    return True


def settings_under(settings: Settings, overrides: Iterable[Override]) -> Settings:
    """Return ``settings`` with a policy's values over them.

    Raises :class:`ConfigurationError` with file and line for a value that is not of its type.
    """
    for one in overrides:
        value = [*one.earlier, one.value] if one.earlier else one.value
        try:
            settings = settings.overridden({one.key: value}, str(one.place))
        except Invalid as wrong:
            raise ConfigurationError(wrong.detail) from None
    return settings


class Names:
    """What the names in a policy's section mean under some settings."""

    def __init__(self, settings: Settings) -> None:
        standing = standing_options() - RATIOS
        options = registered_options(settings.conf)
        self._bare: dict[str, set[Option]] = {}
        self._old: dict[str, set[Option]] = {}
        self._whole: dict[str, set[Option]] = {}
        self._standing: set[str] = set()
        for group, members in options.items():
            for dest, option in members.items():
                meant = (group, dest)
                if meant in standing:
                    self._standing |= {dest, f"{group}_{dest}"}
                    continue
                self._bare.setdefault(dest, set()).add(meant)
                self._whole.setdefault(f"{group}_{dest}", set()).add(meant)
                for old in option.deprecated_opts:
                    self._old.setdefault(_underscored(old.name or dest), set()).add(meant)
        where = _where(settings, "policy_overrides")
        self._allowed = frozenset(
            self._one(name, where) for name in settings.scheduler.policy_overrides
        )

    def meant_by(self, line: Assignment) -> Option:
        """Return the option that a line sets."""
        where = f"{line.place}: [{line.group}]"
        meant = self._one(line.name, where)
        if self._allowed and meant not in self._allowed:
            raise ConfigurationError(
                f"{where}: {line.name} may not be overridden: it is not among [scheduler] "
                "policy_overrides"
            )
        return meant

    def _one(self, given: str, where: str) -> Option:
        name = _underscored(given).replace(".", "_")
        found: Mapping[str, set[Option]]
        for found in (self._whole, self._bare, self._old):
            options = found.get(name, set())
            if len(options) == 1:
                return next(iter(options))
            if options:
                whole = ", ".join(sorted(f"{group}_{option}" for group, option in options))
                raise ConfigurationError(
                    f"{where}: {given} is the name of several options: {whole}"
                )
        if name in self._standing:
            raise ConfigurationError(
                f"{where}: {given} is not read per request, so that no policy can set it"
            )
        near = get_close_matches(name, [*self._bare, *self._whole, *self._old], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigurationError(f"{where}: there is no option {given}{hint}")


def _where(settings: Settings, option: str) -> str:
    """Return an option of ``[scheduler]`` as complaints name it, with its line if it has one."""
    place = place_in_files(settings, "scheduler", option)
    return f"{place}: [scheduler] {option}" if place else f"[scheduler] {option}"


def _underscored(name: str) -> str:
    return name.replace("-", "_")
