"""Options that modules of strangers register when they are imported, as nova's modules do.

They register them with ``placement_sched.config.CONF`` or with ``oslo_config.cfg.CONF``, which are
one object in nova. What an import brought stays while the process runs, as the module does.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from oslo_config import cfg

from placement_sched.config.process import CONF
from placement_sched.config.settings import registered_options

_BROUGHT: dict[tuple[str, str], cfg.Opt] = {}


@contextmanager
def noting_options() -> Iterator[None]:
    """Note what is registered meanwhile."""
    before = _registered()
    try:
        yield
    finally:
        after = _registered()
        _BROUGHT.update({place: after[place] for place in after.keys() - before.keys()})


def register_brought(conf: cfg.ConfigOpts) -> None:
    """Make the options noted so far known to ``conf``; what it has under such a name stays."""
    known = registered_options(conf)
    for (group, name), option in _BROUGHT.items():
        if name not in known.get(group, {}):
            conf.register_opt(option, group=None if group == "DEFAULT" else group)


def brought_options() -> list[tuple[str, cfg.Opt]]:
    """Return the options noted so far, each behind its group, by group and name."""
    return [(group, option) for (group, _), option in sorted(_BROUGHT.items(), key=_place)]


def _place(item: tuple[tuple[str, str], cfg.Opt]) -> tuple[str, str]:
    return item[0]


def _registered() -> dict[tuple[str, str], cfg.Opt]:
    return {
        (group, name): option
        for conf in (cfg.CONF, CONF)
        for group, members in registered_options(conf).items()
        for name, option in members.items()
    }
