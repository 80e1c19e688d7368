# SPDX-License-Identifier: Apache-2.0
"""``nova.conf`` and ``nova.flags``."""

from placement_sched.config.conf import CONF

FLAGS = CONF
__all__ = ["CONF", "FLAGS"]
