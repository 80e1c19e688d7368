"""``pci_passthrough:``: PCI devices that an instance gets for itself."""

from placement_sched.scheduler.extra_specs.validator import ExtraSpecValidator


def register() -> list[ExtraSpecValidator]:
    """Return the extra specs about PCI devices."""
    return [
        ExtraSpecValidator(
            name="pci_passthrough:alias",
            description="Aliases of [pci] alias and how many of each: a1:2, or a1:2,b1:1.",
            value={"type": str, "pattern": r"[^:]+:\d+(?:\s*,\s*[^:]+:\d+)*"},
        )
    ]
