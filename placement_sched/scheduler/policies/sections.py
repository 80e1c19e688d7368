"""The section of a policy: which options it overrides, by which of their names, and with what.

An option is written bare, or ``<group>_<option>`` where several groups have one of that name. Old
names are understood as in the groups themselves.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from oslo_config import cfg

from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.names import suggested
from placement_sched.settings import Settings
from placement_sched.settings.conf import server_options
from placement_sched.settings.options.compute import RATIOS
from placement_sched.settings.sources import Assignment, Place

#: A group and the name of one of its options.
OptionName = tuple[str, str]

#: How the groups of the libraries begin that read options of their own.
_OF_LIBRARIES = ("oslo_", "keystone_")


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

    def is_meant_by(self, wrong: str) -> bool:
        """Return whether this is the line that a message on a wrong value is about."""
        return wrong.startswith(f"[{self.group}] {self.option}")


def overrides_of(name: str, settings: Settings) -> tuple[Override, ...]:
    """Return what the section of a policy overrides, the last line of an option alone.

    Of one that may be repeated, all lines count. Raises :class:`ConfigurationError` with file and
    line for what no policy may set, or for a name that means nothing or several things.
    """
    names = Names(settings)
    found: dict[OptionName, Override] = {}
    for line in lines_of(name, settings):
        group, option = meant = names.meant_by(line)
        before = found.pop(meant, None)
        repeated = isinstance(settings.conf.registered[group][option], cfg.MultiOpt)
        earlier = (*before.earlier, before.value) if before and repeated else ()
        found[meant] = Override(group, option, line.value, line.place, earlier)
    return tuple(found.values())


def lines_of(name: str, settings: Settings) -> tuple[Assignment, ...]:
    """Return the lines of a policy's section; raise :class:`ConfigurationError` without one."""
    where = _where(settings, "policies")
    known = (*settings.conf.registered, DEFAULT_POLICY)
    if name in known or name.startswith(_OF_LIBRARIES):
        raise ConfigurationError(f"{where}: {name!r} is a group of options, and cannot be a policy")
    lines = settings.sections.get(name)
    if lines is None:
        raise ConfigurationError(f"{where}: there is no section [{name}]")
    return lines


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
        standing = server_options() - RATIOS
        # The options that a whole name (group_option), a bare or an old one may mean.
        whole, bare, old = (defaultdict[str, set[OptionName]](set) for _ in range(3))
        self._kinds = (whole, bare, old)
        self._standing: set[str] = set()
        for group, members in settings.conf.registered.items():
            for dest, option in members.items():
                meant = (group, dest)
                if meant in standing:
                    self._standing |= {dest, f"{group}_{dest}"}
                    continue
                bare[dest].add(meant)
                whole[f"{group}_{dest}"].add(meant)
                for one in option.deprecated_opts:
                    old[(one.name or dest).replace("-", "_")].add(meant)
        where = _where(settings, "policy_overrides")
        allowed = settings.scheduler.policy_overrides
        self._allowed = frozenset(self._one(name, where) for name in allowed)

    def meant_by(self, line: Assignment) -> OptionName:
        """Return the option that a line sets."""
        where = f"{line.place}: [{line.group}]"
        meant = self._one(line.name, where)
        if self._allowed and meant not in self._allowed:
            raise ConfigurationError(
                f"{where}: {line.name} may not be overridden: it is not among [scheduler] "
                "policy_overrides"
            )
        return meant

    def has_meaning(self, line: Assignment) -> bool:
        """Return whether a line sets what a policy may set; other programs' lines do not."""
        try:
            self.meant_by(line)
        except ConfigurationError:
            return False
        return True

    def _one(self, given: str, where: str) -> OptionName:
        name = given.replace("-", "_").replace(".", "_")
        for kind in self._kinds:
            options = kind.get(name, set())
            if len(options) == 1:
                return next(iter(options))
            if options:
                whole = ", ".join(sorted(map("_".join, options)))
                raise ConfigurationError(
                    f"{where}: {given} is the name of several options: {whole}"
                )
        if name in self._standing:
            raise ConfigurationError(
                f"{where}: {given} is not read per request, so that no policy can set it"
            )
        hint = suggested("option", name, chain(*self._kinds), shown=str)
        raise ConfigurationError(f"{where}: there is no option {given}{hint}")


def _where(settings: Settings, option: str) -> str:
    """Return an option of ``[scheduler]`` as complaints name it, with its line if it has one."""
    place = settings.place_in_files("scheduler", option)
    return f"{place}: [scheduler] {option}" if place else f"[scheduler] {option}"
