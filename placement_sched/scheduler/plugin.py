"""What request filters, host filters and weighers have in common."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar, Self

from oslo_config import cfg

from placement_sched.config import CONF, Settings
from placement_sched.config.in_effect import in_effect, settings_in_effect
from placement_sched.model.clock import Clock, utcnow

#: An option and the group it is in.
Option = tuple[str, cfg.Opt]


class SchedulerPlugin:
    """A plugin with the settings and the clock that were handed to it.

    A class made with no arguments, as nova and its tests make them, reads the process's options
    (``placement_sched.config.CONF``) and the system's clock. The options it declares in
    ``options`` are known to that object as soon as the class exists.
    """

    options: ClassVar[tuple[Option, ...]] = ()

    _settings: Settings | None = None
    _clock: Clock = staticmethod(utcnow)

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        register(CONF, cls.options)

    @classmethod
    def with_settings(cls, settings: Settings, clock: Clock = utcnow) -> Self:
        """Return the plugin made with no arguments, but with these settings and this clock.

        Both are there before ``__init__`` runs, so that it may read options.
        """
        plugin = cls.__new__(cls)
        plugin._settings = settings  # noqa: SLF001 - an instance of this very class
        plugin._clock = clock  # noqa: SLF001 - as above
        with in_effect(settings):
            plugin.__init__()  # type: ignore[misc]
        return plugin

    @property
    def settings(self) -> Settings:
        """Return the options in effect: those handed in, else the process's as they are now."""
        return self._settings or settings_in_effect() or Settings.from_conf(CONF)

    def now(self) -> datetime:
        """Return the current time, naive UTC, of the clock handed in."""
        return self._clock()


def register(conf: cfg.ConfigOpts, options: Iterable[Option]) -> None:
    """Make ``options`` known to ``conf``; those it knows already stay as they are."""
    for group, option in options:
        conf.register_opt(option, group=None if group == "DEFAULT" else group)


def path_of(kind: type) -> str:
    """Return the dotted path of a class, by which operators know it."""
    return f"{kind.__module__}.{kind.__qualname__}"
