# SPDX-License-Identifier: Apache-2.0
"""Configuration, and the replacement of ``nova.conf`` for plugins.

``CONF`` is the process's oslo.config object, with nova's and placement's option names. The code of
this package receives :class:`~placement_sched.config.Settings` instead.
"""

from placement_sched.config.conf import CONF
from placement_sched.config.settings import Settings

__all__ = ["CONF", "Settings"]
