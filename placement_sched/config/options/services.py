# SPDX-License-Identifier: Apache-2.0
"""Options of [neutron] and [trusted_computing]: the clients of other services.

The options of [trusted_computing] are read only when the server starts. If requests could override
the address of the service, they could obtain ``attestation_auth_blob``.
"""

from keystoneauth1 import loading
from oslo_config import cfg

from placement_sched.config.opts import MAX_INT, with_help

#: Maximum seconds to wait for a response; nova has no limit by default.
TIMEOUT = 10

NEUTRON = with_help(
    cfg.IntOpt("http_retries", default=3, min=0, max=MAX_INT),
    "Maximum number of retries if neutron or its proxy does not answer, and connect_retries and "
    "status_code_retries are unset.",
    cfg.IntOpt("extension_sync_interval", default=600, min=0, max=MAX_INT),
    "Seconds between two checks whether neutron has the segment extension.",
)

TRUSTED_COMPUTING = with_help(
    cfg.StrOpt("attestation_server", deprecated_name="server"),
    "Host name or address of the attestation service that TrustedFilter queries.",
    cfg.StrOpt("attestation_server_ca_file", deprecated_name="server_ca_file"),
    "CA bundle for verifying the attestation service's certificate; unset, the CAs of this "
    "machine.",
    cfg.PortOpt("attestation_port", default=8443, deprecated_name="port"),
    "Port of the attestation service.",
    cfg.StrOpt(
        "attestation_api_url", default="/OpenAttestationWebServices/V1.0", deprecated_name="api_url"
    ),
    "Base path of the attestation service's API.",
    cfg.StrOpt("attestation_auth_blob", secret=True, deprecated_name="auth_blob"),
    "Value of the header x-auth-blob for the attestation service.",
    cfg.IntOpt(
        "attestation_auth_timeout", default=60, min=0, max=MAX_INT, deprecated_name="auth_timeout"
    ),
    "Seconds for which a reported trust level is valid.",
    cfg.BoolOpt("attestation_insecure_ssl", default=False),
    "Do not verify the attestation service's certificate.",
)


def register(conf: cfg.ConfigOpts) -> None:
    """Register keystoneauth's options in ``conf``, except options of an ``auth_type``."""
    conf.register_opts(_keystoneauth_options(), group="neutron")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return keystoneauth's options of [neutron], including ``auth_type = password``."""
    return [
        ("neutron", [*_keystoneauth_options(), *loading.get_auth_plugin_conf_options("password")])
    ]


def _keystoneauth_options() -> list[cfg.Opt]:
    options: list[cfg.Opt] = [
        *loading.get_auth_common_conf_options(),
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ]
    cfg.set_defaults(
        options, service_type="network", valid_interfaces=["internal", "public"], timeout=TIMEOUT
    )
    return options
