# SPDX-License-Identifier: Apache-2.0
"""Validators of the extra specs that the plugins read."""

from placement_sched.scheduler.extra_specs import ExtraSpecValidator


def register() -> list[ExtraSpecValidator]:
    """Return the validators of the namespace ``acme``, whose other keys are rejected."""
    return [
        ExtraSpecValidator(
            name="acme:hall",
            description="The hall of the instances.",
            value={"type": str, "pattern": "h[0-9]+"},
        ),
        ExtraSpecValidator(
            name="acme:bears_maintenance",
            description="Whether instances may start in a hall that is maintained soon.",
            value={"type": bool},
        ),
    ]
