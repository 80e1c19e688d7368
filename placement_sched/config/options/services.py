"""[neutron] and [trusted_computing]: the other services that are asked.

Those of [trusted_computing] are read when the server starts and never per request: a request that
could say where the service is would be sent ``attestation_auth_blob``.
"""

from keystoneauth1 import loading
from oslo_config import cfg

from placement_sched.config.opts import LARGEST, described

#: Seconds to wait for one answer; nova waits for ever by default.
TIMEOUT = 10

NEUTRON = described(
    cfg.IntOpt("http_retries", default=3, min=0, max=LARGEST),
    "How often a request to neutron is retried if it, or a proxy for it, does not answer, where "
    "connect_retries and status_code_retries are unset.",
    cfg.IntOpt("extension_sync_interval", default=600, min=0, max=LARGEST),
    "Seconds for which it is remembered whether neutron has the segment extension.",
)

TRUSTED_COMPUTING = described(
    cfg.StrOpt("attestation_server", deprecated_name="server"),
    "Host name or address of the attestation service that TrustedFilter queries.",
    cfg.StrOpt("attestation_server_ca_file", deprecated_name="server_ca_file"),
    "CA bundle for verifying the attestation service's certificate; unset, the CAs that this "
    "machine trusts.",
    cfg.PortOpt("attestation_port", default=8443, deprecated_name="port"),
    "The port of the attestation service.",
    cfg.StrOpt(
        "attestation_api_url", default="/OpenAttestationWebServices/V1.0", deprecated_name="api_url"
    ),
    "Base path of the attestation service's API.",
    cfg.StrOpt("attestation_auth_blob", secret=True, deprecated_name="auth_blob"),
    "Value of the header x-auth-blob, sent to the attestation service.",
    cfg.IntOpt(
        "attestation_auth_timeout", default=60, min=0, max=LARGEST, deprecated_name="auth_timeout"
    ),
    "Seconds for which a reported trust level is valid.",
    cfg.BoolOpt("attestation_insecure_ssl", default=False),
    "Do not verify the attestation service's certificate.",
)


def register(conf: cfg.ConfigOpts) -> None:
    """Make ``conf`` know keystoneauth's options, without those of an ``auth_type``."""
    conf.register_opts(_common(), group="neutron")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return keystoneauth's options of this group, with those of ``auth_type = password``."""
    return [("neutron", [*_common(), *loading.get_auth_plugin_conf_options("password")])]


def _common() -> list[cfg.Opt]:
    options: list[cfg.Opt] = [
        *loading.get_auth_common_conf_options(),
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ]
    cfg.set_defaults(
        options, service_type="network", valid_interfaces=["internal", "public"], timeout=TIMEOUT
    )
    return options
