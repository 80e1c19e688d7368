"""[cors] and [oslo_middleware]: options of oslo.middleware, which answers before the faces."""

from oslo_config import cfg
from oslo_middleware import cors, http_proxy_to_wsgi

#: What browsers may send and read of these APIs unless the operator says otherwise: placement's
#: headers, and nova's older one for versions.
cors.set_defaults(
    allow_headers=[
        "X-Auth-Token",
        "X-Openstack-Request-Id",
        "X-Identity-Status",
        "X-Roles",
        "X-Service-Catalog",
        "X-User-Id",
        "X-Tenant-Id",
        "OpenStack-API-Version",
        "X-OpenStack-Nova-API-Version",
    ],
    allow_methods=["GET", "PUT", "POST", "DELETE", "PATCH"],
    expose_headers=[
        "X-Auth-Token",
        "X-Openstack-Request-Id",
        "X-Subject-Token",
        "X-Service-Token",
        "OpenStack-API-Version",
        "X-OpenStack-Nova-API-Version",
    ],
)


def register(conf: cfg.ConfigOpts) -> None:
    """Make ``conf`` know oslo.middleware's options; as they stand, nothing of it is in the way."""
    conf.register_opts(cors.OPTS, group="cors")
    conf.register_opts(http_proxy_to_wsgi.OPTS, group="oslo_middleware")
