"""[api]: how callers are authenticated and what they may send."""

from oslo_config import cfg

GROUP = "api"

#: The option that says how callers are authenticated.
STRATEGY = "auth_strategy"

#: Where keystonemiddleware finds the identity service. A configuration with any option of this
#: group means keystone, unless it says otherwise.
KEYSTONE_GROUP = "keystone_authtoken"

OPTIONS = (
    cfg.StrOpt(
        STRATEGY,
        default="noauth2",
        choices=[
            ("keystone", "tokens are validated by keystonemiddleware"),
            ("noauth2", "the token is user[:project]; user admin is an administrator"),
        ],
        deprecated_group="DEFAULT",
        help="How callers authenticate. Left out, it is keystone where any option of "
        "[keystone_authtoken] is written, as OpenStack's default is, and noauth2 otherwise. "
        "noauth2 lets anyone in who can reach the port: unless it is written here, "
        "placement-sched serve listens with it on a loopback address only, and the WSGI entry "
        "points refuse to start.",
    ),
    cfg.IntOpt(
        "max_request_body_size",
        default=64 * 1024 * 1024,
        min=1024,
        help="Largest accepted request body in bytes; a larger one is answered with 413.",
    ),
    cfg.IntOpt(
        "max_query_string_size",
        default=65_000,
        min=1024,
        help="Largest accepted query string in bytes, escaped as it was sent; a larger one is "
        "answered with 400. A thousand aggregates take 40 KB. The server of placement-sched serve "
        "itself answers 414, without a body, to an address of 65535 bytes or more; under another "
        "server a larger value may be of use.",
    ),
)
