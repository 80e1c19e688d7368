"""[api], [console], [cors] and [oslo_middleware]: who may call, by what, and what is accepted."""

from oslo_config import cfg
from oslo_middleware import cors, http_proxy_to_wsgi

from placement_sched.config.opts import LARGEST, described

#: The option that says how callers are authenticated.
STRATEGY = "auth_strategy"

#: Where keystonemiddleware finds the identity service. A configuration with any option of this
#: group means keystone, unless it says otherwise.
KEYSTONE_GROUP = "keystone_authtoken"

API = described(
    cfg.StrOpt(
        STRATEGY,
        default="noauth2",
        choices=[
            ("keystone", "tokens are validated by keystonemiddleware"),
            ("noauth2", "the token is user[:project]; user admin is an administrator"),
        ],
        deprecated_group="DEFAULT",
    ),
    "How callers authenticate. Left out, it is keystone where any option of [keystone_authtoken] "
    "is written, as OpenStack's default is, and noauth2 otherwise. noauth2 lets anyone in who can "
    "reach the port: unless it is written here, placement-sched serve listens with it on a "
    "loopback address only, and the WSGI entry points refuse to start.",
    cfg.IntOpt("max_request_body_size", default=16 * 1024 * 1024, min=1024),
    "Largest accepted request body in bytes; a larger one is answered with 413. Of JSON at most "
    "1 MiB is accepted, except in reports of many compute nodes and in reshaper requests.",
    cfg.IntOpt("max_query_string_size", default=65_000, min=1024),
    "Largest accepted query string in bytes, escaped as it was sent; a larger one is answered "
    "with 400. A thousand aggregates take 40 KB. The server of placement-sched serve answers an "
    "address of 65535 bytes or more with 414, without a body; a larger value is of use only under "
    "another server.",
    cfg.FloatOpt("queue_timeout", default=30.0, min=0, max=LARGEST),
    "Seconds that a request may wait for placement-sched serve to begin with it, where more is "
    "asked than can be answered. A later one is answered 503 with Retry-After, so that the server "
    "works for clients that still wait. 0: no bound. Other servers have bounds of their own.",
    cfg.FloatOpt("shutdown_delay", default=0.0, min=0, max=LARGEST),
    "Seconds for which placement-sched serve goes on answering after SIGTERM, while "
    "/healthz/ready answers 503 and each answer closes its connection: load balancers take their "
    "requests elsewhere before the server refuses connections. It is longer than a load balancer "
    "takes to notice. A second signal ends it at once.",
    cfg.FloatOpt("slow_request_seconds", default=10.0, min=0, max=LARGEST),
    "Requests that take so many seconds or more are logged as warnings, with what took the time: "
    "SQL statements, candidates, each stage of scheduling, and how many hosts each stage of the "
    "funnel let through. 0 logs none.",
)

CONSOLE = described(
    cfg.BoolOpt("enabled"),
    "Whether browsers are shown the console, at / and under /console/. Left out, it is shown to "
    "browsers on this machine alone, which asked for a loopback address or localhost. With "
    "[api] auth_strategy = noauth2 all who can open the console act as administrator.",
    cfg.URIOpt("auth_url"),
    "Address of the identity API where people sign in (http://HOST:5000/v3). Left out, it is "
    "[keystone_authtoken] www_authenticate_uri, else its auth_url.",
    cfg.StrOpt("default_domain", default="Default"),
    "The domain of users and projects that the sign-in form proposes.",
)


def register(conf: cfg.ConfigOpts) -> None:
    """Make ``conf`` know oslo.middleware's options; by default nothing of it changes an answer."""
    set_cors_defaults()
    conf.register_opts(cors.OPTS, group="cors")
    conf.register_opts(http_proxy_to_wsgi.OPTS, group="oslo_middleware")


def set_cors_defaults() -> None:
    """Let browsers send and read placement's headers, and nova's older one for versions."""
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
