# SPDX-License-Identifier: Apache-2.0
"""``nova.compute.task_states``: the states as names in lower case.

Three of the states have hyphens in place of underscores.

Source: compute API guide, "Server Concepts".
"""

from placement_sched.extensions.nova_plugins.missing import build_missing_error

_HYPHENATED = ("POWERING_OFF", "POWERING_ON", "SOFT_DELETING")


def __getattr__(name: str) -> str:
    if not name.isupper():
        raise build_missing_error(f"nova.compute.task_states.{name}")
    return name.lower().replace("_", "-") if name in _HYPHENATED else name.lower()
