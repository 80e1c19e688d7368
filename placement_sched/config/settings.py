"""The frozen, layered view of all options that code receives.

Layers, strongest first: overrides of one request, a scheduling policy's section, files and
environment, defaults. The last two are oslo.config's own; the first two are mappings over it.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Self

from oslo_config import cfg

from placement_sched.config import sources
from placement_sched.config.opts import Conf, location_of, names_of
from placement_sched.config.sources import (
    NO_SECTIONS,
    OF_REQUEST,
    Assignment,
    Origin,
    Place,
    Sections,
)
from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.model.names import suggested

#: How alike a name of an option is to one that may be meant: most share long parts.
_ALIKE = 0.8


class OptionGroup:
    """The options of one group, as attributes: ``settings.scheduler.max_attempts``."""

    __slots__ = ("_name", "_values")

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self._name, self._values = name, values

    def __getattr__(self, option: str) -> Any:
        """Return the value in effect; raises :class:`AttributeError` for an unknown option."""
        try:
            return self._values[option]
        except KeyError:
            raise AttributeError(f"no option [{self._name}] {option}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)


class Settings:
    """All options in effect for a piece of work; never changes once made.

    ``settings.filter_scheduler.enabled_filters`` reads one; :meth:`overridden` lays other values
    over these and returns a new view.
    """

    __slots__ = ("_groups", "_options", "_overridden", "conf", "sections")

    def __init__(
        self,
        conf: Conf,
        options: Mapping[str, Mapping[str, cfg.Opt]],
        groups: Mapping[str, Mapping[str, Any]],
        sections: Sections = NO_SECTIONS,
        overridden: Mapping[tuple[str, str], str] = MappingProxyType({}),
    ) -> None:
        self.conf = conf
        #: What the files say by heading, of policies as well.
        self.sections = sections
        self._overridden = overridden
        self._options = options
        self._groups = {name: OptionGroup(name, values) for name, values in groups.items()}

    @classmethod
    def from_conf(cls, conf: Conf, sections: Sections = NO_SECTIONS) -> Self:
        """Return the values that ``conf`` has now, read once, and ``sections`` beside them.

        Raises :class:`ConfigurationError` naming the option whose text is not of its type.
        """
        # What conf learns of later is not of these settings.
        options = {group: dict(members) for group, members in conf.registered.items()}
        groups = {
            group: {name: _read(conf, group, name, option) for name, option in members.items()}
            for group, members in options.items()
        }
        return cls(conf, options, groups, sections)

    def __getattr__(self, group: str) -> OptionGroup:
        """Return the group of this name; raises :class:`AttributeError` for an unknown one."""
        try:
            return self._groups[group]
        except KeyError:
            raise AttributeError(f"no option group [{group}]") from None

    @property
    def unknown_owner(self) -> tuple[str, str]:
        """Return the project and the user of consumers of which none is known."""
        options = self.placement
        return options.incomplete_consumer_project_id, options.incomplete_consumer_user_id

    def has_group(self, name: str) -> bool:
        """Return whether this is a group of options, rather than a section of another meaning."""
        return name in self._groups

    def has(self, group: str, name: str) -> bool:
        """Return whether there is such an option; ``conf`` may have learned of others since."""
        return group in self._groups and name in self._groups[group]

    def source_of_override(self, group: str, name: str) -> str | None:
        """Return the ``source`` of an option's value that :meth:`overridden` set, or None."""
        return self._overridden.get((group, name))

    def origin_of(self, group: str, name: str) -> Origin:
        """Return where the value of an option comes from."""
        if source := self.source_of_override(group, name):
            return Origin(sources.OVERRIDE, source)
        found = location_of(self.conf, group, name)
        if found is None:
            return Origin(sources.DEFAULT)
        if found.location is cfg.Locations.environment:
            return Origin(sources.ENVIRONMENT, str(found.detail))
        place = self.place_in_files(group, name)
        # What a command line says has no line.
        return Origin(sources.CONFIGURATION, None if place is None else str(place))

    def place_in_files(self, group: str, name: str) -> Place | None:
        """Return the line of the files that sets an option, by its current or an older name."""
        option = self.conf.registered[group][name]
        found = sources.last_assignment(self.sections, names_of(option, group, name))
        return None if found is None else found.place

    def overridden(self, overrides: Mapping[str, Any], source: str = OF_REQUEST) -> "Settings":
        """Return these settings with ``{"group.option": value}`` in place of their values.

        A key without a dot is of ``DEFAULT``, None stands for the option's default. Raises
        :class:`Invalid` for an unknown option or a value that is not of the option's type, naming
        the key and ``source``, where it stands.
        """
        groups = {name: dict(group._values) for name, group in self._groups.items()}  # noqa: SLF001 - own class
        overridden = dict(self._overridden)
        for key, value in overrides.items():
            group, name = self.meant_by(key, source)
            option = self._options[group][name]
            place = f"{source}: {key}"
            typed = option.default if value is None else sources.typed(place, option, value)
            groups[group][name] = typed
            overridden[group, name] = source
        return Settings(self.conf, self._options, groups, self.sections, overridden)

    def unlike(self, other: "Settings") -> frozenset[tuple[str, str]]:
        """Return group and name of the options that have other values in ``other``."""
        return frozenset(
            (group, name)
            for group, options in self._options.items()
            for name in options
            if name in getattr(other, group, ())
            and getattr(getattr(self, group), name) != getattr(getattr(other, group), name)
        )

    def with_values_of(self, other: "Settings", options: Collection[tuple[str, str]]) -> "Settings":
        """Return these settings with ``other``'s values of ``options``.

        Options that only ``other`` has, of plugins that were not known here, are as there.
        """
        groups = {name: dict(group._values) for name, group in other._groups.items()}  # noqa: SLF001 - own class
        for group, members in self._groups.items():
            for name in members:
                if (group, name) not in options:
                    groups.setdefault(group, {})[name] = getattr(members, name)
        known = {**self._options, **other._options}  # noqa: SLF001 - own class
        every = {group: {**self._options.get(group, {}), **known[group]} for group in known}
        return Settings(other.conf, every, groups, other.sections)

    def meant_by(self, key: str, source: str = OF_REQUEST) -> tuple[str, str]:
        """Return group and name that an override's key means; raises :class:`Invalid` for none."""
        group, _, name = key.rpartition(".")
        group = group or "DEFAULT"
        if name in self._options.get(group, {}):
            return group, name
        for new_group, members in self._options.items():
            for new_name, option in members.items():
                if (group, name) in names_of(option, new_group, new_name):
                    return new_group, new_name
        known = [
            name if each == "DEFAULT" else f"{each}.{name}"
            for each, members in self._options.items()
            for name in members
        ]
        meant = suggested("option", key, known, alike=_ALIKE)
        raise Invalid(f"{source}: there is no option {key!r}{meant}")


def _read(conf: Conf, group: str, name: str, option: cfg.Opt) -> Any:
    try:
        return sources.countable(option, conf[name] if group == "DEFAULT" else conf[group][name])
    except (cfg.Error, ValueError) as wrong:
        # oslo.config's own message is made of one that says why, with the place as Python shows it.
        why = wrong.__context__ if isinstance(wrong.__context__, ValueError) else wrong
        line = _written(conf, names_of(option, group, name))
        if line is not None:
            message = f"{line.place}: {sources.wrong_value(line, option, why)}"
            raise ConfigurationError(message) from None
        reason = sources.plain_reason(option.default, why)
        raise ConfigurationError(f"[{group}] {name} has a wrong value: {reason}") from None


def _written(conf: Conf, names: list[tuple[str, str]]) -> Assignment | None:
    """Return the assignment that sets an option, by whichever of its names, or None."""
    if conf.environment_is_read:  # get_location fails where the value is wrong
        for group, name in names:
            variable = f"OS_{group.upper()}__{name.upper().replace('-', '_')}"
            if variable in os.environ:
                place = Place(f"environment {variable}", 0)
                return Assignment(place, place, group, name, os.environ[variable])
    return sources.last_assignment(sources.sections_of(sources.files_read(conf)), names)
