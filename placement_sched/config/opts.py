"""oslo.config's objects with what this service needs beside.

oslo.config offers no public way to read older names of options from the environment, nor to give an
option two names of which neither is out of date. What reaches into it for them is here (see
doc/decisions/0012).
"""

import os
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_config.sources import ConfigurationSource

#: The variable that names configuration files for the WSGI entry points.
FILES = "PLACEMENT_SCHED_CONFIG"

#: The largest value of options that become a time span (68 years, in seconds), a number of tries
#: or a place in a list: Python and the system's calls refuse larger ones only when they are used.
LARGEST = 2**31 - 1
#: The most seconds (20 days) that a database is made to wait: PostgreSQL takes milliseconds,
#: as whole numbers of 32 bits.
LONGEST_WAIT = 20 * 24 * 3600


def files_named() -> list[str]:
    """Return the configuration files that ``PLACEMENT_SCHED_CONFIG`` names, colon-separated."""
    return [name for name in os.environ.get(FILES, "").split(":") if name]


class Conf(cfg.ConfigOpts):
    """An oslo.config object that lists its options, and reads older names from the environment."""

    def __init__(self) -> None:
        self._options: dict[str, dict[str, cfg.Opt]] = {"DEFAULT": {}}
        #: Whether the environment was read with the files.
        self.environment_is_read = True
        super().__init__()
        self._env_driver: Any = _Environment(self._env_driver)

    @property
    def registered(self) -> Mapping[str, Mapping[str, cfg.Opt]]:
        """Every option that this object knows now, by group and attribute name."""
        return self._options

    def register_opt(self, opt: cfg.Opt, group: Any = None, cli: bool = False, **more: Any) -> bool:
        """Make an option known; return False where it was known before."""
        new = bool(super().register_opt(opt, group, cli=cli, **more))
        if new:
            self._options.setdefault(_name_of(group), {})[opt.dest] = opt
        return new

    def unregister_opt(self, opt: cfg.Opt, group: Any = None, **cache: Any) -> None:
        """Forget an option."""
        super().unregister_opt(opt, group, **cache)
        self._options.get(_name_of(group), {}).pop(opt.dest, None)


def _name_of(group: Any) -> str:
    return str(getattr(group, "name", group) or "DEFAULT")


def described(*options_and_help: Any) -> tuple[cfg.Opt, ...]:
    """Return the options, each of which is followed by its help: what it is for."""
    options: tuple[cfg.Opt, ...] = options_and_help[::2]
    for option, text in zip(options, options_and_help[1::2], strict=True):
        option.help = text
    return options


def older(name: str | None = None) -> dict[str, Any]:
    """Return the arguments of an option's former name in ``[DEFAULT]``."""
    return {"deprecated_name": name, "deprecated_group": "DEFAULT"}


def location_of(conf: cfg.ConfigOpts, group: str, name: str) -> cfg.LocationInfo | None:
    """Return where the operator sets an option, by file, environment or command line, or None."""
    found = conf.get_location(name, None if group == "DEFAULT" else group)
    return found if found is not None and found.location.is_user_controlled else None


def is_explicit(conf: cfg.ConfigOpts, group: str, name: str) -> bool:
    """Return whether an option is written in a file or the environment, not left to its default."""
    return location_of(conf, group, name) is not None


def names_of(option: cfg.Opt, group: str, name: str) -> list[tuple[str, str]]:
    """Return group and name of an option, the current ones first, then its older ones."""
    older = [(old.group or group, old.name or name) for old in option.deprecated_opts]
    return [(group, name), *older]


class AliasedBoolOpt(cfg.BoolOpt):
    """A boolean option that has an ``alias`` in the same group; ``name`` wins where both are set.

    oslo.config knows other names as deprecated ones alone, and complains on stderr of their use.
    """

    def __init__(self, name: str, *, alias: str, **options: Any) -> None:
        super().__init__(name, deprecated_name=alias, **options)

    def _get_from_namespace(self, namespace: Any, group_name: str | None) -> Any:
        """Return value and location; raises :class:`KeyError` where neither name is set."""
        # Looked up one by one, neither name is a deprecated one of the other.
        for name in (self.dest, *(old.name for old in self.deprecated_opts)):
            try:
                return namespace._get_value([(group_name, name)])  # noqa: SLF001 - as oslo.config does
            except KeyError:
                continue
        raise KeyError(self.dest)


class _Environment(ConfigurationSource):
    """Finds older names of options as well in oslo.config's source of environment variables."""

    def __init__(self, variables: Any) -> None:
        self._variables, self.get_name = variables, variables.get_name

    def get(self, group_name: str | None, option_name: str, opt: cfg.Opt) -> tuple[Any, Any]:
        """Return value and location, looking under the current name first."""
        found: tuple[Any, Any] = self._variables.get(group_name, option_name, opt)
        for old in opt.deprecated_opts:
            if found[1] is not None:  # a location: there is a value
                break
            found = self._variables.get(old.group or group_name, old.name or option_name, opt)
        return found
