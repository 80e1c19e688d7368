"""Which settings are in effect while a plugin runs.

A plugin brought from nova reads the process's oslo.config object. So that it, too, sees the options
of the request's policy and overrides, that object looks here first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from oslo_config import cfg

from placement_sched.config.settings import Group, Settings

_SETTINGS: ContextVar[Settings | None] = ContextVar("settings in effect", default=None)


def settings_in_effect() -> Settings | None:
    """Return the settings that a plugin running now is to see, or None outside of a run."""
    return _SETTINGS.get()


@contextmanager
def in_effect(settings: Settings) -> Iterator[None]:
    """Let the process's oslo.config object show ``settings`` to this thread for a while."""
    token = _SETTINGS.set(settings)
    try:
        yield
    finally:
        _SETTINGS.reset(token)


class _Group:
    """A group of the settings in effect; what they lack is asked of oslo.config."""

    def __init__(self, settings: Group, name: str, conf: "ProcessConf") -> None:
        self._settings = settings
        self._name = name
        self._conf = conf

    def __getattr__(self, option: str) -> Any:
        """Return the option's value in effect."""
        if option in self._settings:
            return getattr(self._settings, option)
        return getattr(self._conf.registered(self._name), option)

    __getitem__ = __getattr__


class ProcessConf(cfg.ConfigOpts):
    """An oslo.config object that shows the settings in effect, where there are any."""

    def __getattr__(self, name: str) -> Any:
        """Return the option or group of this name.

        Raises :class:`oslo_config.cfg.NoSuchOptError` as oslo.config does.
        """
        settings = _SETTINGS.get()
        if settings is None:
            return super().__getattr__(name)
        if name in settings.DEFAULT:
            return getattr(settings.DEFAULT, name)
        group = getattr(settings, name, None)
        return _Group(group, name, self) if isinstance(group, Group) else self.registered(name)

    def registered(self, name: str) -> Any:
        """Return what is registered with this very object, whatever settings are in effect."""
        return super().__getattr__(name)
