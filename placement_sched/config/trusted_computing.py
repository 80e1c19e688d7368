"""[trusted_computing]: the attestation service that TrustedFilter asks.

These are read when the server starts and never of a request: who could say where the service is
would be sent ``attestation_auth_blob``.
"""

from oslo_config import cfg

GROUP = "trusted_computing"

OPTIONS = (
    cfg.StrOpt(
        "attestation_server",
        deprecated_name="server",
        help="The attestation service that TrustedFilter asks: a host name or address.",
    ),
    cfg.StrOpt(
        "attestation_server_ca_file",
        deprecated_name="server_ca_file",
        help="A file with the certificates by which that of the attestation service is "
        "signed. Unset, it must be signed by one that this machine trusts.",
    ),
    cfg.PortOpt(
        "attestation_port",
        default=8443,
        deprecated_name="port",
        help="The port of the attestation service.",
    ),
    cfg.StrOpt(
        "attestation_api_url",
        default="/OpenAttestationWebServices/V1.0",
        deprecated_name="api_url",
        help="Where the API of the attestation service begins.",
    ),
    cfg.StrOpt(
        "attestation_auth_blob",
        secret=True,
        deprecated_name="auth_blob",
        help="What the attestation service knows this one by: the header x-auth-blob.",
    ),
    cfg.IntOpt(
        "attestation_auth_timeout",
        default=60,
        min=0,
        deprecated_name="auth_timeout",
        help="Seconds for which a host is as far trusted as the attestation service said.",
    ),
    cfg.BoolOpt(
        "attestation_insecure_ssl",
        default=False,
        help="Whether the attestation service may have any certificate at all.",
    ),
)
