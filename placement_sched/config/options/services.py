# SPDX-License-Identifier: Apache-2.0
"""Options of [neutron], [trusted_computing] and [notifications].

The options of [trusted_computing] are read only when the server starts. If requests could override
the address of the service, they could obtain ``attestation_auth_blob``.

[oslo_messaging_notifications] belongs to oslo.messaging. It takes a quarter of a second to load and
has many dependencies, so it is loaded only if notifications are sent. Therefore this module has
copies of its options.
"""

from importlib import import_module
from typing import Any
from warnings import catch_warnings

from keystoneauth1 import loading
from oslo_config import cfg

from placement_sched.config.settings import MAX_INT, ClampedIntOpt, deprecate_in_default, with_help

#: Maximum seconds to wait for a response. Nova has no limit by default.
TIMEOUT = 10

NEUTRON = with_help(
    ClampedIntOpt("http_retries", default=3, min=0, lowest=0),
    "Maximum number of retries if neutron or its proxy does not answer, and connect_retries and "
    "status_code_retries are unset.",
    ClampedIntOpt("extension_sync_interval", default=600, min=0, lowest=0),
    "Seconds between two checks whether neutron has the segment extension.",
)

TRUSTED_COMPUTING = with_help(
    cfg.StrOpt("attestation_server", deprecated_name="server"),
    "Host name or address of the attestation service that TrustedFilter queries.",
    cfg.StrOpt("attestation_server_ca_file", deprecated_name="server_ca_file"),
    "CA bundle for verifying the attestation service's certificate. Unset: the CAs of this "
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
UNVERSIONED, VERSIONED, BOTH = "unversioned", "versioned", "both"
MESSAGING_GROUP = "oslo_messaging_notifications"
#: The exchange of nova's consumers, unless [DEFAULT] control_exchange sets another.
_EXCHANGE = "nova"
NOTIFICATIONS = with_help(
    cfg.StrOpt(
        "notification_format",
        default=UNVERSIONED,
        **deprecate_in_default("notification_format"),
        choices=[
            (UNVERSIONED, "plain dictionaries, to [oslo_messaging_notifications] topics"),
            (VERSIONED, "nova's versioned objects, to versioned_notifications_topics"),
            (BOTH, "both formats"),
        ],
    ),
    "Format of notifications, which are sent if [oslo_messaging_notifications] driver is set.",
    cfg.ListOpt("versioned_notifications_topics", default=["versioned_notifications"]),
    "Topics of versioned notifications. Consumers read the queues <topic>.info and <topic>.error.",
    cfg.BoolOpt("notify_on_run_instance", default=False),
    "Whether to send scheduler.run_instance.start and .end, too, for consumers that were "
    "written for the schedulers of Icehouse and earlier. They are never versioned.",
)
_MESSAGING_OPTIONS = with_help(
    cfg.MultiStrOpt("driver", default=[]),
    "Drivers that send notifications: messagingv2, messaging, routing, log, test or noop. Unset, "
    "no notifications are sent.",
    cfg.StrOpt("transport_url", secret=True),
    "URL of the message bus for notifications. Unset: [DEFAULT] transport_url.",
    cfg.ListOpt("topics", default=["notifications"]),
    "Topics of unversioned notifications.",
    cfg.IntOpt("retry", default=-1),
    "Maximum number of retries to send a notification. -1: no limit.",
)


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of keystoneauth and oslo.messaging in ``conf``."""
    conf.register_opts(_list_keystoneauth_options(), group="neutron")
    conf.register_opts(_MESSAGING_OPTIONS, group=MESSAGING_GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return keystoneauth's options of [neutron] for auth type ``password``."""
    return [
        (
            "neutron",
            [*_list_keystoneauth_options(), *loading.get_auth_plugin_conf_options("password")],
        )
    ]


def _list_keystoneauth_options() -> list[cfg.Opt]:
    options: list[cfg.Opt] = [
        *loading.get_auth_common_conf_options(),
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ]
    cfg.set_defaults(
        options, service_type="network", valid_interfaces=["internal", "public"], timeout=TIMEOUT
    )
    return options


def import_oslo_messaging() -> Any:
    """Import oslo.messaging at first use, and return it."""
    with catch_warnings(action="ignore"):  # eventlet warns that it is deprecated
        return import_module("oslo_messaging")


def set_exchange() -> None:
    """Set nova's exchange as the default of oslo.messaging."""
    import_oslo_messaging().set_transport_defaults(_EXCHANGE)
