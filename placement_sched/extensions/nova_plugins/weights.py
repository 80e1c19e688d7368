# SPDX-License-Identifier: Apache-2.0
"""``nova.weights``: the base class of all weighers."""

from placement_sched.scheduler.weights import BaseHostWeigher as BaseWeigher
from placement_sched.scheduler.weights import WeighedHost as WeighedObject
from placement_sched.scheduler.weights import normalize

__all__ = ["BaseWeigher", "WeighedObject", "normalize"]
