"""``quota:``: how much of a host an instance may use at once."""

from placement_sched.scheduler.extra_specs.validator import ExtraSpecValidator

#: Amounts of nothing or more.
_AMOUNTS = (
    "cpu_limit",
    "cpu_period",
    "cpu_shares",
    "cpu_shares_share",
    "disk_io_limit",
    "disk_io_shares_share",
    "disk_read_bytes_sec",
    "disk_read_iops_sec",
    "disk_total_bytes_sec",
    "disk_total_iops_sec",
    "disk_write_bytes_sec",
    "disk_write_iops_sec",
    "memory_limit",
    "memory_shares_share",
    "vif_inbound_average",
    "vif_inbound_burst",
    "vif_inbound_peak",
    "vif_limit",
    "vif_outbound_average",
    "vif_outbound_burst",
    "vif_outbound_peak",
    "vif_shares_share",
)
#: Amounts that may be below zero, which some drivers read as no limit.
_ANY_AMOUNTS = (
    "cpu_quota",
    "cpu_reservation",
    "disk_io_reservation",
    "memory_reservation",
    "vif_reservation",
)
_LEVELS = ("cpu_shares_level", "disk_io_shares_level", "memory_shares_level", "vif_shares_level")


def register() -> list[ExtraSpecValidator]:
    """Return the extra specs about the use of processors, memory, disks and networks."""
    return [
        *(_amount(name, least=0) for name in _AMOUNTS),
        *(_amount(name, least=None) for name in _ANY_AMOUNTS),
        *(
            ExtraSpecValidator(
                name=f"quota:{name}",
                description="How an instance shares with others when there is too little.",
                value={"type": str, "enum": ("custom", "high", "normal", "low")},
            )
            for name in _LEVELS
        ),
    ]


def _amount(name: str, least: int | None) -> ExtraSpecValidator:
    limits = {} if least is None else {"min": least}
    return ExtraSpecValidator(
        name=f"quota:{name}",
        description=f"The {name.replace('_', ' ')} of an instance.",
        value={"type": int, **limits},
    )
