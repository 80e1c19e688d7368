# SPDX-License-Identifier: Apache-2.0
"""The extra specs that our plugins use."""

from placement_sched.scheduler.extra_specs import ExtraSpecValidator


def register() -> list[ExtraSpecValidator]:
    """Return what is known of the namespace ``acme``: any other key of it is refused."""
    return [
        ExtraSpecValidator(
            name="acme:hall",
            description="The hall that instances are to be in.",
            value={"type": str, "pattern": "h[0-9]+"},
        ),
        ExtraSpecValidator(
            name="acme:bears_maintenance",
            description="Whether instances may be started in a hall that is maintained soon.",
            value={"type": bool},
        ),
    ]
