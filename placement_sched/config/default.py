"""[DEFAULT]: what nova.conf says of hosts in general, and of the one that this service runs on."""

from socket import gethostname

from oslo_config import cfg

GROUP = "DEFAULT"

OPTIONS = (
    cfg.StrOpt(
        "host",
        default=gethostname(),
        sample_default="<name of this machine>",
        help="The name of the host that this service runs on, by which notifications tell who "
        "sent them.",
    ),
    cfg.FloatOpt(
        "cpu_allocation_ratio",
        min=0.0,
        help="Virtual CPUs per physical CPU of a host whose report names no ratio. "
        "Unset or 0.0: initial_cpu_allocation_ratio applies.",
    ),
    cfg.FloatOpt(
        "ram_allocation_ratio",
        min=0.0,
        help="Virtual per physical memory of a host whose report names no ratio. "
        "Unset or 0.0: initial_ram_allocation_ratio applies.",
    ),
    cfg.FloatOpt(
        "disk_allocation_ratio",
        min=0.0,
        help="Virtual per physical disk of a host whose report names no ratio. "
        "Unset or 0.0: initial_disk_allocation_ratio applies.",
    ),
    cfg.FloatOpt(
        "initial_cpu_allocation_ratio",
        default=4.0,
        min=0.0,
        help="The CPU ratio where neither the report nor cpu_allocation_ratio gives one.",
    ),
    cfg.FloatOpt(
        "initial_ram_allocation_ratio",
        default=1.0,
        min=0.0,
        help="The memory ratio where neither the report nor ram_allocation_ratio gives one.",
    ),
    cfg.FloatOpt(
        "initial_disk_allocation_ratio",
        default=1.0,
        min=0.0,
        help="The disk ratio where neither the report nor disk_allocation_ratio gives one.",
    ),
    cfg.IntOpt(
        "service_down_time",
        default=60,
        min=1,
        help="Seconds without a report after which a host's compute service counts as down.",
    ),
    cfg.StrOpt(
        "default_availability_zone",
        default="nova",
        help="The availability zone of hosts that are in no aggregate with a zone.",
    ),
    cfg.StrOpt(
        "internal_service_availability_zone",
        default="internal",
        help="The availability zone that is told of services other than nova-compute.",
    ),
)
