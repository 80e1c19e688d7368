"""``vmware:``: what VMware's hypervisor heeds."""

from placement_sched.scheduler.extra_specs.validator import ExtraSpecValidator


def register() -> list[ExtraSpecValidator]:
    """Return the extra specs for VMware."""
    return [
        ExtraSpecValidator(
            name=f"vmware:{name}", description=f"The {words} of the instance.", value={"type": str}
        )
        for name, words in (
            ("hw_version", "version of the virtual hardware"),
            ("storage_policy", "storage policy"),
        )
    ]
