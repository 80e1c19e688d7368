"""``accel:``: accelerators, as cyborg keeps them."""

from placement_sched.scheduler.extra_specs.validator import ExtraSpecValidator


def register() -> list[ExtraSpecValidator]:
    """Return the extra specs about accelerators."""
    return [
        ExtraSpecValidator(
            name="accel:device_profile",
            description="The device profile of cyborg that tells which accelerators are wanted.",
            value={"type": str},
        )
    ]
