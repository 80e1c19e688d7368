"""[api]: how callers are authenticated and what they may send."""

from oslo_config import cfg

GROUP = "api"

OPTIONS = (
    cfg.StrOpt(
        "auth_strategy",
        default="noauth2",
        choices=[
            ("keystone", "tokens are validated by keystonemiddleware"),
            ("noauth2", "the token is user[:project]; user admin is an administrator"),
        ],
        deprecated_group="DEFAULT",
        help="How callers prove who they are. With noauth2 the server listens on a loopback "
        "address only, unless this option is written in the configuration explicitly.",
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
