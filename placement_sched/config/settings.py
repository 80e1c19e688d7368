# SPDX-License-Identifier: Apache-2.0
"""Settings: the immutable, layered view of all options.

Layers, in order of precedence: overrides of a request, the section of a scheduling policy, files
and environment, defaults. Mappings have the first two layers, and oslo.config the last two.
"""

import os
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Self

from oslo_config import cfg

from placement_sched.config import sources
from placement_sched.config.opts import Conf, OptionGroup, location_of, names_of
from placement_sched.config.sources import (
    NO_SECTIONS,
    OF_REQUEST,
    Assignment,
    Origin,
    Place,
    Sections,
)
from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.model.document import build_json_path
from placement_sched.model.names import suggest_name

#: Minimum similarity of a suggested option name. It is high, since many names share long parts.
_MIN_SIMILARITY = 0.8


class Settings:
    """The immutable options in effect for a request or task.

    ``settings.filter_scheduler.enabled_filters`` reads an option. :meth:`with_overrides`
    returns a new view with other values.
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
        #: The assignments of the files by section, including those of policies.
        self.sections = sections
        self._overridden = overridden
        self._options = options
        self._groups = {name: OptionGroup(name, values) for name, values in groups.items()}

    @classmethod
    def from_conf(cls, conf: Conf, sections: Sections = NO_SECTIONS) -> Self:
        """Read the current values of ``conf``, and keep the ``sections`` of its files.

        Raises :class:`ConfigurationError` for an option with a wrong value.
        """
        # A copy: options that are registered in conf later are not part of these settings.
        options = {group: dict(members) for group, members in conf.registered.items()}
        groups = {
            group: {name: _read(conf, group, name, option) for name, option in members.items()}
            for group, members in options.items()
        }
        return cls(conf, options, groups, sections)

    def __getattr__(self, group: str) -> OptionGroup:
        """Return the option group with this name.

        Raises :class:`AttributeError` for an unknown group.
        """
        try:
            return self._groups[group]
        except KeyError:
            raise AttributeError(f"no option group [{group}]") from None

    @property
    def unknown_owner(self) -> tuple[str, str]:
        """Return the project and user of consumers that were created without them."""
        options = self.placement
        return options.incomplete_consumer_project_id, options.incomplete_consumer_user_id

    def has_group(self, name: str) -> bool:
        """Return whether a section name is an option group."""
        return name in self._groups

    def has(self, group: str, name: str) -> bool:
        """Return whether these settings have an option.

        ``conf`` may have more options.
        """
        return group in self._groups and name in self._groups[group]

    def source_of_override(self, group: str, name: str) -> str | None:
        """Return the source of an option that :meth:`with_overrides` set, or None."""
        return self._overridden.get((group, name))

    def origin_of(self, group: str, name: str) -> Origin:
        """Return the layer and place that an option's value comes from."""
        if source := self.source_of_override(group, name):
            return Origin(sources.OVERRIDE, source)
        location = location_of(self.conf, group, name)
        if location is None:
            return Origin(sources.DEFAULT)
        if location.location is cfg.Locations.environment:
            return Origin(sources.ENVIRONMENT, str(location.detail))
        place = self.place_in_files(group, name)
        # An option of the command line has no line.
        return Origin(sources.CONFIGURATION, None if place is None else str(place))

    def place_in_files(self, group: str, name: str) -> Place | None:
        """Return the line in the files that sets an option, by any of its names, or None."""
        option = self.conf.registered[group][name]
        assignment = sources.last_assignment(self.sections, names_of(option, group, name))
        return None if assignment is None else assignment.place

    def with_overrides(self, overrides: Mapping[str, Any], source: str = OF_REQUEST) -> "Settings":
        """Return new settings with the values of ``{"group.option": value}``.

        A key without a dot belongs to ``DEFAULT``. None means the option's default. Raises
        :class:`Invalid`, naming ``source`` and the key, for an unknown option or a value of a wrong
        type.
        """
        groups = {name: dict(group._values) for name, group in self._groups.items()}  # noqa: SLF001 - own class
        overridden = dict(self._overridden)
        for key, value in overrides.items():
            group, name = self.resolve_option(key, source)
            option = self._options[group][name]
            try:
                typed = option.default if value is None else sources.convert_value(option, value)
            except ValueError as error:
                path = build_json_path([OF_REQUEST, key])
                raise Invalid(str(error), source=f"{source}: {key}", json_path=path) from None
            groups[group][name] = typed
            overridden[group, name] = source
        return Settings(self.conf, self._options, groups, self.sections, overridden)

    def diff(self, other: "Settings") -> frozenset[tuple[str, str]]:
        """Return group and name of the options whose values differ in ``other``."""
        return frozenset(
            (group, name)
            for group, options in self._options.items()
            for name in options
            if other.has(group, name)
            and getattr(getattr(self, group), name) != getattr(getattr(other, group), name)
        )

    def with_values_of(self, other: "Settings", options: Collection[tuple[str, str]]) -> "Settings":
        """Replace the values of ``options`` by the values in ``other``, if it has them."""
        groups = {name: dict(group._values) for name, group in self._groups.items()}  # noqa: SLF001 - own class
        for group, name in options:
            if other.has(group, name) and self.has(group, name):
                groups[group][name] = getattr(getattr(other, group), name)
        return Settings(self.conf, self._options, groups, self.sections)

    def resolve_option(self, key: str, source: str = OF_REQUEST) -> tuple[str, str]:
        """Resolve an override's key to group and name.

        Raises :class:`Invalid`.
        """
        group, _, name = key.rpartition(".")
        group = group or "DEFAULT"
        if name in self._options.get(group, {}):
            return group, name
        for new_group, members in self._options.items():
            for new_name, option in members.items():
                if (group, name) in names_of(option, new_group, new_name):
                    return new_group, new_name
        names = [
            name if known_group == "DEFAULT" else f"{known_group}.{name}"
            for known_group, members in self._options.items()
            for name in members
        ]
        suggestion = suggest_name("option", key, names, alike=_MIN_SIMILARITY)
        problem = f"there is no option {key!r}{suggestion}"
        raise Invalid(problem, source=source, json_path=f"$.{OF_REQUEST}")


def _read(conf: Conf, group: str, name: str, option: cfg.Opt) -> Any:
    try:
        return sources.check_number(option, conf[name] if group == "DEFAULT" else conf[group][name])
    except (cfg.Error, ValueError) as failure:
        # The cause has the reason, without the location that oslo.config adds.
        cause = failure.__context__ if isinstance(failure.__context__, ValueError) else failure
        line = _find_assignment(conf, names_of(option, group, name))
        if line is not None:
            message = sources.wrong_value(line, option, sources.describe_reason(line.value, cause))
            raise ConfigurationError(message, place=line.place) from None
        reason = sources.describe_reason(option.default, cause)
        raise ConfigurationError(f"[{group}] {name} has a wrong value: {reason}") from None


def _find_assignment(conf: Conf, names: list[tuple[str, str]]) -> Assignment | None:
    """Return the assignment that sets an option by any of its names, or None."""
    if conf.environment_is_read:  # get_location fails if the value is wrong
        for group, name in names:
            variable = f"OS_{group.upper()}__{name.upper().replace('-', '_')}"
            if variable in os.environ:
                place = Place(f"environment {variable}", 0)
                return Assignment(place, place, group, name, os.environ[variable])
    return sources.last_assignment(sources.sections_of(sources.list_files(conf)), names)
