"""An option with two names that mean the same, neither of which is out of date."""

from typing import Any

from oslo_config import cfg


class AliasedBoolOpt(cfg.BoolOpt):
    """A boolean option that has an ``alias`` in the same group; ``name`` wins where both are set.

    oslo.config knows other names as deprecated ones alone, and complains on stderr of their use.
    """

    def __init__(self, name: str, *, alias: str, **options: Any) -> None:
        super().__init__(name, deprecated_name=alias, **options)

    def _get_from_namespace(self, namespace: Any, group_name: str | None) -> Any:
        """Return value and location; raises :class:`KeyError` where neither name is set."""
        # Looked up one by one, no name is another's deprecated one.
        for name in (self.dest, *(old.name for old in self.deprecated_opts)):
            try:
                return namespace._get_value([(group_name, name)])  # noqa: SLF001 - as oslo.config does
            except KeyError:
                continue
        raise KeyError(self.dest)
