"""The frozen, layered view of all options that code receives.

Layers, strongest first: overrides of one request, a policy's section, files and environment,
defaults. The last two are oslo.config's own; the first two are mappings laid over it.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Self

from oslo_config import cfg, types

from placement_sched.config.lines import (
    NO_SECTIONS,
    Assignment,
    Place,
    Sections,
    files_read,
    in_effect,
    sections_of,
)
from placement_sched.config.wrong_values import countable, plain_reason
from placement_sched.errors import ConfigurationError, Invalid


class Group:
    """The options of one group, as attributes: ``settings.scheduler.max_attempts``."""

    __slots__ = ("_name", "_values")

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self._name = name
        self._values = values

    def __getattr__(self, option: str) -> Any:
        """Return the option's value in effect.

        Raises :class:`AttributeError` for an option nobody registered.
        """
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

    __slots__ = ("_groups", "_laid_over", "_options", "conf", "sections")

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        options: Mapping[str, Mapping[str, cfg.Opt]],
        groups: Mapping[str, Mapping[str, Any]],
        sections: Sections = NO_SECTIONS,
        laid_over: Mapping[tuple[str, str], str] = MappingProxyType({}),
    ) -> None:
        self.conf = conf
        #: What the files say by heading, of policies as well.
        self.sections = sections
        self._laid_over = laid_over
        self._options = options
        self._groups = {name: Group(name, values) for name, values in groups.items()}

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, sections: Sections = NO_SECTIONS) -> Self:
        """Return the values that ``conf`` has now, read once, and ``sections`` beside them.

        Raises :class:`ConfigurationError` naming the option whose text is not of its type.
        """
        options = registered_options(conf)
        groups = {
            group: MappingProxyType(
                {name: _read(conf, group, name, option) for name, option in members.items()}
            )
            for group, members in options.items()
        }
        return cls(conf, options, groups, sections)

    def __getattr__(self, group: str) -> Group:
        """Return the group of this name.

        Raises :class:`AttributeError` for a group nobody registered.
        """
        try:
            return self._groups[group]
        except KeyError:
            raise AttributeError(f"no option group [{group}]") from None

    def has_group(self, name: str) -> bool:
        """Return whether this is a group of options, rather than a section of another meaning."""
        return name in self._groups

    def has(self, group: str, name: str) -> bool:
        """Return whether there is such an option; ``conf`` may have learned of others since."""
        return group in self._groups and name in self._groups[group]

    def laid_over(self, group: str, name: str) -> str | None:
        """Return the ``source`` of an option's value that was laid over these settings, or None."""
        return self._laid_over.get((group, name))

    def overridden(self, overrides: Mapping[str, Any], source: str = "overrides") -> "Settings":
        """Return these settings with ``{"group.option": value}`` laid over them.

        A key without a dot is of ``DEFAULT``. Raises :class:`Invalid` for an unknown option or a
        value that is not of the option's type, naming the key and ``source``, where it stands.
        """
        groups = {name: dict(group._values) for name, group in self._groups.items()}  # noqa: SLF001 - own class
        laid_over = dict(self._laid_over)
        for key, value in overrides.items():
            group, name = self.meant_by(key, source)
            groups[group][name] = _typed(f"{source}: {key}", self._options[group][name], value)
            laid_over[group, name] = source
        return Settings(self.conf, self._options, groups, self.sections, laid_over)

    def unlike(self, other: "Settings") -> frozenset[tuple[str, str]]:
        """Return group and name of the options whose values are others there."""
        return frozenset(
            (group, name)
            for group, options in self._options.items()
            for name in options
            if name in getattr(other, group, ())
            and getattr(getattr(self, group), name) != getattr(getattr(other, group), name)
        )

    def with_values_of(self, other: "Settings", options: Collection[tuple[str, str]]) -> "Settings":
        """Return others with these options' values alone, and the rest as it is here.

        Options that are only there, of plugins that were not known here, are as there.
        """
        groups = {name: dict(group._values) for name, group in other._groups.items()}  # noqa: SLF001 - own class
        for group, members in self._groups.items():
            for name in members:
                if (group, name) not in options:
                    groups.setdefault(group, {})[name] = getattr(members, name)
        known = {**self._options, **other._options}  # noqa: SLF001 - own class
        every = {group: {**self._options.get(group, {}), **known[group]} for group in known}
        return Settings(other.conf, every, groups, other.sections)

    def meant_by(self, key: str, source: str = "overrides") -> tuple[str, str]:
        """Return group and name of the option that an override's key means.

        Raises :class:`Invalid` where there is none.
        """
        group, _, name = key.rpartition(".")
        found = self._find(group or "DEFAULT", name)
        if found is None:
            raise Invalid(f"{source}: there is no option {key!r}")
        return found

    def _find(self, group: str, name: str) -> tuple[str, str] | None:
        """Return group and name of the option meant by a name of today or an older one of it."""
        if name in self._options.get(group, {}):
            return group, name
        for new_group, members in self._options.items():
            for new_name, candidate in members.items():
                for old in candidate.deprecated_opts:
                    if (old.group or new_group, (old.name or new_name)) == (group, name):
                        return new_group, new_name
        return None


def registered_options(conf: cfg.ConfigOpts) -> dict[str, dict[str, cfg.Opt]]:
    """Return every option that ``conf`` knows, by group and attribute name."""
    found: dict[str, dict[str, cfg.Opt]] = {"DEFAULT": {}}
    for name, info in conf._opts.items():  # noqa: SLF001 - oslo.config lists options nowhere else
        found["DEFAULT"][name] = info["opt"]
    for name, group in conf._groups.items():  # noqa: SLF001 - as above
        members = {key: info["opt"] for key, info in group._opts.items()}  # noqa: SLF001 - as above
        found.setdefault(name, {}).update(members)
    return found


def is_explicit(conf: cfg.ConfigOpts, group: str, name: str) -> bool:
    """Return whether an option is written in a file or the environment, not left to its default."""
    found = conf.get_location(name, None if group == "DEFAULT" else group)
    return found is not None and bool(found.location.is_user_controlled)


def _read(conf: cfg.ConfigOpts, group: str, name: str, option: cfg.Opt) -> Any:
    try:
        return countable(option, conf[name] if group == "DEFAULT" else conf[group][name])
    except (cfg.Error, ValueError) as wrong:
        raise ConfigurationError(_wrong_value(conf, group, name, option, wrong)) from None


def _wrong_value(
    conf: cfg.ConfigOpts, group: str, name: str, option: cfg.Opt, wrong: Exception
) -> str:
    """Return where an option is written and why its value is wrong, as ``config validate`` has it.

    oslo.config's own message is made of one that says why, and has the place as Python shows it.
    """
    line = written(conf, group, name, option)
    why = wrong.__context__ if isinstance(wrong.__context__, ValueError) else wrong
    if line is None:
        return f"[{group}] {name} has a wrong value: {plain_reason(option.default, why)}"
    return f"{line.place}: {wrong_value(line, option, why)}"


def wrong_value(line: Assignment, option: cfg.Opt, why: Exception) -> str:
    """Return what is wrong with the value that a line has for an option, which raised ``why``."""
    reason = "" if option.secret else f": {plain_reason(line.value, why)}"
    return f"[{line.group}] {line.name} has a wrong value{reason}"


def written(conf: cfg.ConfigOpts, group: str, name: str, option: cfg.Opt) -> Assignment | None:
    """Return the assignment that sets an option, by whichever of its names, or None."""
    names = names_of(option, group, name)
    if conf._use_env:  # noqa: SLF001 - get_location fails where the value is wrong
        for variable, (one_group, one_name) in zip(map(_variable, names), names, strict=True):
            if variable in os.environ:
                place = Place(f"environment {variable}", 0)
                return Assignment(place, place, one_group, one_name, os.environ[variable])
    return in_effect(sections_of(files_read(conf)), names)


def _variable(name: tuple[str, str]) -> str:
    group, option = name
    return f"OS_{group.upper()}__{option.upper().replace('-', '_')}"


def names_of(option: cfg.Opt, group: str, name: str) -> list[tuple[str, str]]:
    """Return group and name of an option, those of today first, then its older ones."""
    older = [(old.group or group, old.name or name) for old in option.deprecated_opts]
    return [(group, name), *older]


def _typed(place: str, option: cfg.Opt, value: Any) -> Any:
    """Return ``value``, given as JSON, as the option's type makes it of its text.

    A text for an option with several values is read as a line of a file: commas part the items of
    a list, and of an option that may be repeated it is one value.
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
