# SPDX-License-Identifier: Apache-2.0
"""Validators of the extra specs ``acme:racks`` and ``acme:rack.N``."""

from placement_sched.scheduler.extra_specs import ExtraSpecValidator


def register() -> list[ExtraSpecValidator]:
    """Return the validators of the namespace ``acme``."""
    return [
        ExtraSpecValidator(
            name="acme:racks",
            description="The number of racks for the instances.",
            value={"type": int, "min": 1, "max": 8},
        ),
        ExtraSpecValidator(
            name="acme:rack.{number}",
            description="The permitted action of the instance in this rack.",
            value={"type": str, "enum": ["start", "move"]},
            parameters=[{"name": "number", "pattern": "[0-9]+", "description": "The rack."}],
        ),
    ]
