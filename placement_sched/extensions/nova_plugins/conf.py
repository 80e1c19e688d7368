# SPDX-License-Identifier: Apache-2.0
"""``nova.conf`` and ``nova.flags``: the configuration of this service."""

from placement_sched.config.conf import CONF

FLAGS = CONF
__all__ = ["CONF", "FLAGS"]
