# SPDX-License-Identifier: Apache-2.0
"""``nova.conf`` and ``nova.flags``."""

from typing import Any

from oslo_config import cfg

from placement_sched.config.conf import CONF

FLAGS = CONF
__all__ = ["CONF", "FLAGS"]


def skip_imports_of_nova() -> None:
    """Let ``cfg.CONF.import_opt`` check options of nova without an import.

    ``nova.conf.CONF`` does the same.
    """
    if "import_opt" in vars(cfg.CONF):
        return
    import_any = cfg.CONF.import_opt

    def import_opt(name: str, module_str: str, group: Any = None) -> None:
        if not CONF.has_option_of_nova(name, module_str, group):
            import_any(name, module_str, group)

    cfg.CONF.import_opt = import_opt  # type: ignore[method-assign]
