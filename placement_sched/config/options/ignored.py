# SPDX-License-Identifier: Apache-2.0
"""Ignored options of ``placement.conf`` and ``nova.conf``, with reasons.

Files may contain them. ``config validate`` and the operator's guide list them with the reasons.
Sources: "Config Reference" of the Placement documentation, Stein to today; "Description of
scheduler configuration options" of the OpenStack Configuration Reference, Icehouse to Newton, and
nova's "Configuration Options", Ocata to today.
"""

from collections.abc import Mapping
from types import MappingProxyType

_PATHS = "this service has no files of its own"
_RETRIES = (
    "the server does not wait for the database at start: /healthz/ready and 503 report that it "
    "is unavailable, and each request tries to connect again"
)
_STANDBYS = (
    "all requests use [placement_database] connection, as in OpenStack placement. With "
    "[placement] providers_in_memory they rarely read the database"
)
_PROFILER = "this service does not support osprofiler, but /metrics shows the times of requests"

_BUS = "the topic of nova's requests is always scheduler, as in nova since Ocata"
_HOST_MANAGER = "host states are built from the reports of hosts, in the same way for all types"
_TRACKING = (
    "the instances of a host are read from the database when a request needs them, so that filters "
    "always see the recorded instances. nova-compute uses the option when it announces instances"
)
_BARE_METAL = (
    "bare metal nodes are requested by their resource class, and [filter_scheduler] "
    "enabled_filters applies to all hosts"
)
_NOTIFIER = (
    "oslo.messaging, which sends notifications, no longer reads it: set "
    "[oslo_messaging_notifications]"
)
_RESERVED = "each host reports its reserved amounts"

#: Ignored options of ``placement.conf``: reasons by group and option.
OF_PLACEMENT: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("DEFAULT", "tempdir"): _PATHS,
        ("DEFAULT", "pybasedir"): _PATHS,
        ("DEFAULT", "bindir"): _PATHS,
        ("DEFAULT", "state_path"): _PATHS,
        ("placement_database", "max_retries"): _RETRIES,
        ("placement_database", "retry_interval"): _RETRIES,
        ("placement_database", "slave_connection"): _STANDBYS,
        ("placement", "policy_file"): (
            "replaced by [oslo_policy] policy_file, as in placement since Train"
        ),
        ("api", "workers"): (
            "the number of processes is the argument --workers of placement-sched serve"
        ),
        ("workarounds", "optimize_for_wide_provider_trees"): (
            "not needed: wide trees are always searched lazily"
        ),
        ("keystone_authtoken", "delay_auth_decision"): (
            "always on: version documents need no token, and each API has its own error format"
        ),
        ("oslo_policy", "enforce_scope"): (
            "always on, as in releases of oslo.policy without this option: tokens with system or "
            "domain scope get 403"
        ),
        **{
            ("profiler", name): _PROFILER
            for name in (
                "enabled",
                "trace_sqlalchemy",
                "trace_requests",
                "hmac_keys",
                "connection_string",
                "es_doc_type",
                "es_scroll_time",
                "es_scroll_size",
                "socket_timeout",
                "sentinel_service_name",
                "filter_error_trace",
            )
        },
    }
)

#: Ignored options of ``nova.conf`` for scheduling and tokens: reasons by group and option.
OF_NOVA: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("DEFAULT", "notification_driver"): f"{_NOTIFIER} driver",
        ("DEFAULT", "notification_topics"): f"{_NOTIFIER} topics",
        ("DEFAULT", "scheduler_manager"): _BUS,
        ("DEFAULT", "scheduler_topic"): _BUS,
        ("DEFAULT", "scheduler_host_manager"): _HOST_MANAGER,
        ("scheduler", "host_manager"): _HOST_MANAGER,
        ("DEFAULT", "scheduler_tracks_instance_changes"): _TRACKING,
        ("DEFAULT", "scheduler_instance_sync_interval"): _TRACKING,
        ("filter_scheduler", "track_instance_changes"): _TRACKING,
        ("DEFAULT", "scheduler_use_baremetal_filters"): _BARE_METAL,
        ("DEFAULT", "baremetal_scheduler_default_filters"): _BARE_METAL,
        ("filter_scheduler", "use_baremetal_filters"): _BARE_METAL,
        ("filter_scheduler", "baremetal_enabled_filters"): _BARE_METAL,
        ("DEFAULT", "reserved_host_cpus"): _RESERVED,
        ("DEFAULT", "reserved_host_disk_mb"): _RESERVED,
        ("DEFAULT", "reserved_host_memory_mb"): _RESERVED,
        ("DEFAULT", "reserved_huge_pages"): _RESERVED,
        ("DEFAULT", "default_schedule_zone"): (
            "the caller sends the zone. In nova, nova-api fills in this default"
        ),
        ("scheduler", "discover_hosts_in_cells_interval"): (
            "this service never writes nova's host mappings: for new hosts run nova-manage "
            "cell_v2 discover_hosts, for example with cron"
        ),
        ("scheduler", "query_placement_for_availability_zone"): (
            "always on, as in nova since 2023.2: the requested zone restricts the candidates query"
        ),
        ("keystone_authtoken", "auth_uri"): (
            "replaced by www_authenticate_uri, as in keystonemiddleware since Queens"
        ),
    }
)

WITHOUT_MEANING: Mapping[tuple[str, str], str] = MappingProxyType({**OF_PLACEMENT, **OF_NOVA})

#: Sections of ``nova.conf`` that do not concern scheduling. They are not read as scheduling
#: policies, unless [scheduler] policies lists them.
SECTIONS_OF_NOVA = frozenset(
    (
        *("barbican", "barbican_service_user", "cache", "cells", "cinder", "compute", "conductor"),
        *("console", "consoleauth", "cyborg", "devices", "ephemeral_storage_encryption", "glance"),
        *("guestfs", "healthcheck", "hyperv", "image_cache", "ironic", "key_manager", "keystone"),
        *("libvirt", "manila", "mks", "os_vif_linux_bridge", "os_vif_ovs", "osapi_v21", "powervm"),
        *("privsep", "quota", "rdp", "remote_debug", "serial_console", "service_user", "spice"),
        *("spec_validation", "upgrade_levels", "vault", "vendordata_dynamic_auth", "vif_plug_ovs"),
        *("vmware", "vnc", "wsgi", "xenserver", "zvm"),
    )
)
