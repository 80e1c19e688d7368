# SPDX-License-Identifier: Apache-2.0
"""Options of nova: [DEFAULT], [api_database], [database], [pci] etc.

Names and meanings are as in nova.conf, which the commands read unchanged.
"""

from socket import gethostname

from oslo_config import cfg

from placement_sched.config.settings import ClampedIntOpt, deprecate_in_default, with_help

#: The allocation ratios of hosts that report no ratios. A scheduling policy may set them for the
#: hosts of its aggregates.
RATIOS = frozenset(
    ("DEFAULT", name)
    for name in ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")
)

DEFAULT = with_help(
    cfg.ListOpt("disabled_extensions", default=[]),
    "Names of installed extensions that are left out. Their routes answer 404, their commands end "
    "with an error, and the console hides their pages.",
    cfg.StrOpt("host", default=gethostname(), sample_default="<name of this machine>"),
    "Name of the host that this service runs on, used as the publisher of notifications.",
    cfg.FloatOpt("cpu_allocation_ratio", min=0.0, mutable=True),
    "Virtual CPUs per physical CPU of a host that reports no ratio. Unset or 0.0: "
    "initial_cpu_allocation_ratio applies.",
    cfg.FloatOpt("ram_allocation_ratio", min=0.0, mutable=True),
    "Virtual per physical memory of a host that reports no ratio. Unset or 0.0: "
    "initial_ram_allocation_ratio applies.",
    cfg.FloatOpt("disk_allocation_ratio", min=0.0, mutable=True),
    "Virtual per physical disk of a host that reports no ratio. Unset or 0.0: "
    "initial_disk_allocation_ratio applies.",
    cfg.FloatOpt("initial_cpu_allocation_ratio", default=4.0, min=0.0),
    "CPU allocation ratio of a host if neither the host nor cpu_allocation_ratio sets it.",
    cfg.FloatOpt("initial_ram_allocation_ratio", default=1.0, min=0.0),
    "RAM allocation ratio of a host if neither the host nor ram_allocation_ratio sets it.",
    cfg.FloatOpt("initial_disk_allocation_ratio", default=1.0, min=0.0),
    "Disk allocation ratio of a host if neither the host nor disk_allocation_ratio sets it.",
    ClampedIntOpt("service_down_time", default=60, lowest=0, mutable=True),
    "Seconds without a report after which a host's compute service is considered down. If it is "
    "not above report_interval, it is 2.5 times report_interval, as in nova.",
    cfg.StrOpt("default_availability_zone", default="nova", mutable=True),
    "Availability zone of hosts that are in no aggregate with a zone.",
    cfg.StrOpt("internal_service_availability_zone", default="internal"),
    "Availability zone of services other than nova-compute.",
    ClampedIntOpt("report_interval", default=10, lowest=0),
    "Seconds between two heartbeats of the service record of placement-sched nova-scheduler. 0 or "
    "less: a heartbeat at the start only.",
    ClampedIntOpt("graceful_shutdown_timeout", default=180, lowest=0),
    "Maximum seconds for running requests of placement-sched nova-scheduler to finish after "
    "SIGTERM. 0 or less: no limit.",
)

API_DATABASE = with_help(
    cfg.StrOpt("connection", secret=True),
    "SQLAlchemy URL of nova's API database. If it is set, the cloud is managed by nova: cells, "
    "compute nodes, services, host aggregates, instances and server groups are read from nova's "
    "databases, and cannot be changed here.",
)

DATABASE = with_help(
    cfg.StrOpt("connection", secret=True),
    "SQLAlchemy URL of the cell database with nova-scheduler's own service record. It also "
    "completes the URLs of cells that are templates.",
)

PCI = with_help(
    cfg.MultiStrOpt("alias", default=[], mutable=True, **deprecate_in_default("pci_alias")),
    "Alias of PCI devices, which the extra spec pci_passthrough:alias requests: a JSON object with "
    "the keys name, vendor_id, product_id, device_type (type-PCI, type-PF or type-VF), numa_policy "
    "(required, legacy, preferred or socket), resource_class, traits and live_migratable "
    '(repeatable). Lines with the same name are alternatives. Example: {"name": "nic", '
    '"vendor_id": "8086", "product_id": "1520", "device_type": "type-VF"}.',
)

WORKAROUNDS = with_help(
    cfg.BoolOpt("disable_fallback_pcpu_query", default=False, mutable=True),
    "Do not send the second candidates query, with VCPU in place of PCPU. Hosts that report only "
    "VCPU then get no pinned instances.",
)
