# SPDX-License-Identifier: Apache-2.0
"""Options of [api], [cors] and [oslo_middleware]."""

from oslo_config import cfg
from oslo_middleware import cors, http_proxy_to_wsgi

from placement_sched.config.settings import MAX_INT, with_help

#: The option for the authentication of callers.
STRATEGY = "auth_strategy"

#: The option group of keystonemiddleware. A configuration with any option of this group uses
#: keystone, unless [api] auth_strategy is set.
KEYSTONE_GROUP = "keystone_authtoken"

API = with_help(
    cfg.StrOpt(
        STRATEGY,
        default="noauth2",
        choices=[
            ("keystone", "tokens are validated by keystonemiddleware"),
            ("noauth2", "the token is user[:project], and user admin is an administrator"),
        ],
        deprecated_group="DEFAULT",
    ),
    "How callers authenticate. Unset, it is keystone if any option of [keystone_authtoken] is set, "
    "as OpenStack's default, and noauth2 otherwise. noauth2 admits every client that can reach the "
    "port: unless it is set here explicitly, placement-sched serve listens on a loopback address "
    "only, and the WSGI entry points do not start.",
    cfg.IntOpt("max_request_body_size", default=16 * 1024**2, min=1024, max=256 * 1024**2),
    "Maximum size of a request body in bytes. A larger body is answered with 413. JSON bodies are "
    "limited to 1 MiB, except reports of many compute nodes and reshaper requests.",
    cfg.IntOpt("max_query_string_size", default=65_000, min=1024),
    "Maximum size of a query string in bytes, percent-encoded as sent. A longer query is answered "
    "with 400. A thousand aggregates take 40 KB. The server of placement-sched serve answers a "
    "URL of 65535 bytes or more with 414, without a body, so a larger value is useful only with "
    "another server.",
    cfg.FloatOpt("queue_timeout", default=30.0, min=0, max=MAX_INT),
    "Maximum seconds that a request waits in the queue of an overloaded placement-sched serve. "
    "After that it is answered with 503 and Retry-After, so that the server works for clients that "
    "still wait. 0: no limit. Other servers have limits of their own.",
    cfg.FloatOpt("shutdown_delay", default=0.0, min=0, max=MAX_INT),
    "Seconds for which placement-sched serve continues to answer after SIGTERM, while "
    "/healthz/ready answers 503 and each response closes its connection, so that load balancers "
    "use other servers before this server closes its port. Set it to more than the time in which a "
    "load balancer notices. A second signal stops the server immediately.",
    cfg.FloatOpt("slow_request_seconds", default=10.0, min=0, max=MAX_INT),
    "Requests that take at least this many seconds are logged as warnings, with the number of SQL "
    "statements and candidates, the time of each stage of scheduling, and the number of hosts that "
    "passed each stage of the funnel. 0 logs none.",
)


def register(conf: cfg.ConfigOpts) -> None:
    """Register oslo.middleware's options, whose defaults change no response."""
    set_cors_defaults()
    conf.register_opts(cors.OPTS, group="cors")
    conf.register_opts(http_proxy_to_wsgi.OPTS, group="oslo_middleware")


def set_cors_defaults() -> None:
    """Allow browsers to send and read the headers of placement and nova."""
    versions = ["OpenStack-API-Version", "X-OpenStack-Nova-API-Version"]
    cors.set_defaults(
        allow_headers=[
            "X-Auth-Token",
            "X-Openstack-Request-Id",
            "X-Identity-Status",
            "X-Roles",
            "X-Service-Catalog",
            "X-User-Id",
            "X-Tenant-Id",
            *versions,
        ],
        allow_methods=["GET", "PUT", "POST", "DELETE", "PATCH"],
        expose_headers=[
            "X-Auth-Token",
            "X-Openstack-Request-Id",
            "X-Subject-Token",
            "X-Service-Token",
            *versions,
        ],
    )
