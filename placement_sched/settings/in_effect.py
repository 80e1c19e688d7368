"""Which settings are in effect while a plugin runs, also for plugins written for nova.

Those read the process's oslo.config object. So that they, too, see the options of the request's
scheduling policy and overrides, that object looks here first.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from oslo_config import cfg

from placement_sched.settings.opts import Conf
from placement_sched.settings.view import OptionGroup, Settings

_SETTINGS: ContextVar[Settings | None] = ContextVar("settings in effect", default=None)


def settings_in_effect() -> Settings | None:
    """Return the settings that a plugin running now is to see, or None outside of a run."""
    return _SETTINGS.get()


class in_effect:  # noqa: N801 - a context manager is named so
    """Let the process's oslo.config object show ``settings`` to this thread for a while.

    (A class, as a generator takes longer: each plugin is called for each instance of a request.)
    """

    __slots__ = ("_settings", "_token")

    def __init__(self, settings: Settings) -> None:
        """Take the settings to be shown."""
        self._settings = settings

    def __enter__(self) -> None:
        """Show them from now on."""
        self._token = _SETTINGS.set(self._settings)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Show what was shown before."""
        _SETTINGS.reset(self._token)


class _Group:
    """A group of the settings in effect; what they lack is asked of oslo.config."""

    def __init__(self, settings: OptionGroup, name: str, conf: "ProcessConf") -> None:
        self._settings, self._name, self._conf = settings, name, conf

    def __getattr__(self, option: str) -> Any:
        """Return the option's value in effect."""
        if option in self._settings:
            return getattr(self._settings, option)
        return getattr(self._conf.own(self._name), option)

    __getitem__ = __getattr__

    def __contains__(self, option: str) -> bool:
        return hasattr(self, option)


class ProcessConf(Conf):
    """An oslo.config object that shows the settings in effect, where there are any."""

    def __init__(self) -> None:
        self._noted: dict[tuple[str, str], cfg.Opt] = {}
        super().__init__()

    def note(self, options: Mapping[tuple[str, str], cfg.Opt]) -> None:
        """Remember options, by group and name, that a plugin's module registered when imported."""
        self._noted.update(options)

    def noted(self) -> list[tuple[str, cfg.Opt]]:
        """Return group and option of those noted so far, by group and name."""
        return [(place[0], self._noted[place]) for place in sorted(self._noted)]

    def register_noted(self, conf: Conf) -> None:
        """Make the options noted so far known to ``conf``; what it has under such a name stays."""
        for (group, name), option in self._noted.items():
            if name not in conf.registered.get(group, {}):
                conf.register_opt(option, group=None if group == "DEFAULT" else group)

    def __getattr__(self, name: str) -> Any:
        """Return an option or group; :class:`oslo_config.cfg.NoSuchOptError` as oslo.config."""
        settings = _SETTINGS.get()
        if settings is None:
            return super().__getattr__(name)
        if name in settings.DEFAULT:
            return getattr(settings.DEFAULT, name)
        group = getattr(settings, name, None)
        return _Group(group, name, self) if isinstance(group, OptionGroup) else self.own(name)

    def own(self, name: str) -> Any:
        """Return the option or group of this object itself, whatever settings are in effect."""
        return super().__getattr__(name)
