# SPDX-License-Identifier: Apache-2.0
"""Extra specs of our own: ``acme:racks`` and ``acme:rack.N``."""

from placement_sched.scheduler.extra_specs import ExtraSpecValidator


def register() -> list[ExtraSpecValidator]:
    """Return what is known of the namespace ``acme``."""
    return [
        ExtraSpecValidator(
            name="acme:racks",
            description="Over how many racks the instances are spread.",
            value={"type": int, "min": 1, "max": 8},
        ),
        ExtraSpecValidator(
            name="acme:rack.{number}",
            description="What the instance may do in this rack.",
            value={"type": str, "enum": ["start", "move"]},
            parameters=[{"name": "number", "pattern": "[0-9]+", "description": "The rack."}],
        ),
    ]
