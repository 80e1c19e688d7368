"""Options of ``placement.conf`` that mean nothing here, each with the reason.

A file that has them is read all the same; ``config validate`` and the operator's guide tell of
them. Source: "Config Reference" of the Placement documentation, Stein to today.
"""

from collections.abc import Mapping
from types import MappingProxyType

_PATHS = "this service keeps nothing in files of its own"
_RETRIES = (
    "nothing waits for the database at start: /healthz/ready and 503 tell that it is away, and "
    "each request tries anew"
)
_PROFILER = "this service is not traced by osprofiler; /metrics tells where time goes"

#: Group and option to reason.
WITHOUT_MEANING: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("DEFAULT", "tempdir"): _PATHS,
        ("DEFAULT", "pybasedir"): _PATHS,
        ("DEFAULT", "bindir"): _PATHS,
        ("DEFAULT", "state_path"): _PATHS,
        ("placement_database", "slave_connection"): (
            "everything is read where it is written, so that a client sees its own writes"
        ),
        ("placement_database", "max_retries"): _RETRIES,
        ("placement_database", "retry_interval"): _RETRIES,
        (
            "placement",
            "policy_file",
        ): "it is [oslo_policy] policy_file, as in placement since Train",
        ("workarounds", "optimize_for_wide_provider_trees"): (
            "wide trees are searched lazily, always: the workaround has nothing to work around"
        ),
        ("keystone_authtoken", "delay_auth_decision"): (
            "always on: version documents are answered without a token, and each API refuses in "
            "its own shape"
        ),
        (
            "oslo_policy",
            "enforce_scope",
        ): "always on, as in oslo.policy itself since it has no option",
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
