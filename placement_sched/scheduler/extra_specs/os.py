"""``os:``, and what hides the hypervisor: how the guest's system is started."""

from placement_sched.scheduler.extra_specs.validator import ExtraSpecValidator


def register() -> list[ExtraSpecValidator]:
    """Return the extra specs about the guest's system."""
    return [
        ExtraSpecValidator(
            name="os:secure_boot",
            description="Whether the instance starts only what is signed.",
            value={"type": str, "enum": ("disabled", "required")},
        ),
        ExtraSpecValidator(
            name="hide_hypervisor_id",
            description="The older name of hw:hide_hypervisor_id.",
            value={"type": bool},
        ),
    ]
