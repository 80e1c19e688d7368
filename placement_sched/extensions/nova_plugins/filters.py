# SPDX-License-Identifier: Apache-2.0
"""``nova.filters``: the base class of host filters."""

from placement_sched.scheduler.filters import BaseHostFilter as BaseFilter

__all__ = ["BaseFilter"]
