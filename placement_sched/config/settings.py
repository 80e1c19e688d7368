# SPDX-License-Identifier: Apache-2.0
"""Settings: the immutable, layered view of all options.

Layers, in order of precedence: overrides of a request, the section of a scheduling policy, files
and environment, defaults. Mappings have the first two layers, and oslo.config the last two.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

from oslo_config import cfg

from placement_sched.config import sources
from placement_sched.config.opts import Conf, OptionGroup, find_option, names_of
from placement_sched.config.sources import OF_REQUEST, Assignment, Sections
from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.model.document import build_json_path
from placement_sched.model.names import suggest_name

#: Minimum similarity of a suggested option name. It is high, since many names share long parts.
_MIN_SIMILARITY = 0.8


class Settings:
    """The immutable options in effect for a request or task.

    ``settings.filter_scheduler.enabled_filters`` reads an option, and so does
    ``settings["filter_scheduler", "enabled_filters"]``. :meth:`with_overrides` returns a new view
    with other values.
    """

    __slots__ = ("_groups", "_overridden", "conf", "registered", "sections")

    def __init__(
        self,
        conf: Conf,
        registered: Mapping[str, Mapping[str, cfg.Opt]],
        groups: Mapping[str, Mapping[str, Any]],
        sections: Sections,
        overridden: Mapping[tuple[str, str], str] = MappingProxyType({}),
    ) -> None:
        self.conf = conf
        #: The options by group and name. ``conf`` may have more options.
        self.registered = registered
        #: The assignments of the files by section, including those of policies.
        self.sections = sections
        self._overridden = overridden
        self._groups = {name: OptionGroup(name, values) for name, values in groups.items()}

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        """Read the current values of ``conf``, and keep the sections of its files.

        Raises :class:`ConfigurationError` for an option with a wrong value.
        """
        # A copy: options that are registered in conf later are not part of these settings.
        registered = {group: dict(members) for group, members in conf.registered.items()}
        groups = {
            group: {name: _read(conf, group, name, option) for name, option in members.items()}
            for group, members in registered.items()
        }
        return cls(conf, registered, groups, conf.sections)

    def __getattr__(self, group: str) -> OptionGroup:
        """Return the option group with this name.

        Raises :class:`AttributeError` for an unknown group.
        """
        try:
            return self._groups[group]
        except KeyError:
            raise AttributeError(f"no option group [{group}]") from None

    def __getitem__(self, option: tuple[str, str]) -> Any:
        """Return the value of an option, by group and name."""
        group, name = option
        return self._groups[group][name]

    @property
    def unknown_owner(self) -> tuple[str, str]:
        """Return the project and user of consumers that were created without them."""
        options = self.placement
        return options.incomplete_consumer_project_id, options.incomplete_consumer_user_id

    def has_group(self, name: str) -> bool:
        """Return whether a section name is an option group."""
        return name in self._groups

    def source_of_override(self, group: str, name: str) -> str | None:
        """Return the source of an option that :meth:`with_overrides` set, or None."""
        return self._overridden.get((group, name))

    def find_assignment(self, group: str, name: str) -> Assignment | None:
        """Return the variable or the line in the files that sets an option, or None."""
        names = names_of(self.registered[group][name], group, name)
        return sources.find_assignment(self.sections, names)

    def with_overrides(self, overrides: Mapping[str, Any], source: str = OF_REQUEST) -> "Settings":
        """Return new settings with the values of ``{"group.option": value}``.

        A key without a dot belongs to ``DEFAULT``. None means the option's default. Raises
        :class:`Invalid`, naming ``source`` and the key, for an unknown option or a value of a wrong
        type.
        """
        values: dict[tuple[str, str], Any] = {}
        for key, value in overrides.items():
            group, name = self.resolve_option(key, source)
            option = self.registered[group][name]
            try:
                typed = option.default if value is None else sources.convert_value(option, value)
            except ValueError as error:
                path = build_json_path([OF_REQUEST, key])
                raise Invalid(str(error), source=f"{source}: {key}", json_path=path) from None
            values[group, name] = typed
        return self.with_values(values, source)

    def with_values(
        self, values: Mapping[tuple[str, str], Any], source: str | None = None
    ) -> "Settings":
        """Return new settings with ``values``, of the right types, by group and name.

        With a ``source``, they are overrides.
        """
        groups = {name: dict(group._values) for name, group in self._groups.items()}  # noqa: SLF001 - own class
        for (group, name), value in values.items():
            groups[group][name] = value
        overridden = {**self._overridden, **dict.fromkeys(values, source)} if source else {}
        return Settings(self.conf, self.registered, groups, self.sections, overridden)

    def resolve_option(self, key: str, source: str = OF_REQUEST) -> tuple[str, str]:
        """Resolve an override's key to group and name.

        Raises :class:`Invalid`.
        """
        group, _, name = key.rpartition(".")
        if option := find_option(self.registered, group or "DEFAULT", name):
            return option
        names = [
            name if group == "DEFAULT" else f"{group}.{name}"
            for group, members in self.registered.items()
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
        line = sources.find_assignment(conf.sections, names_of(option, group, name))
        if line is not None:
            message = sources.wrong_value(line, option, sources.describe_reason(line.value, cause))
            raise ConfigurationError(message, place=line.place) from None
        reason = sources.describe_reason(option.default, cause)
        raise ConfigurationError(f"[{group}] {name} has a wrong value: {reason}") from None
