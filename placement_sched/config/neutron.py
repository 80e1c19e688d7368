"""[neutron]: where neutron is, and who asks it: keystoneauth's options under nova's defaults."""

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = "neutron"

#: Seconds to wait for one answer; nova waits for ever unless told otherwise.
TIMEOUT = 10

OPTIONS = (
    cfg.IntOpt(
        "http_retries",
        default=3,
        min=0,
        help="How often neutron is asked again when it does not answer, or a proxy says so, "
        "where connect_retries and status_code_retries do not say.",
    ),
    cfg.IntOpt(
        "extension_sync_interval",
        default=600,
        min=0,
        help="Seconds for which it is remembered whether neutron has the segment extension.",
    ),
)


def register(conf: cfg.ConfigOpts) -> None:
    """Make ``conf`` know keystoneauth's options of this group.

    Those of an ``auth_type`` are made known when it is loaded.
    """
    conf.register_opts(_common(), group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return keystoneauth's options of this group, with those of ``auth_type = password``."""
    return [(GROUP, [*_common(), *loading.get_auth_plugin_conf_options("password")])]


def _common() -> list[cfg.Opt]:
    options: list[cfg.Opt] = [
        *loading.get_auth_common_conf_options(),
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ]
    cfg.set_defaults(
        options,
        service_type="network",
        valid_interfaces=["internal", "public"],
        timeout=TIMEOUT,
    )
    return options
