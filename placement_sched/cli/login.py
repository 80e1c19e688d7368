# SPDX-License-Identifier: Apache-2.0
"""Login of commands to servers, by options or ``$OS_*`` variables."""

import argparse
import logging
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from ipaddress import ip_address
from logging.handlers import BufferingHandler
from typing import Any
from urllib.parse import urlsplit

from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.exceptions import ClientException
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from placement_sched.cli.arguments import ArgumentGroup, WrongArguments
from placement_sched.clients.session import make_session, silence_library_logs
from placement_sched.errors import Invalid
from placement_sched.model.names import suggest_name

#: Authentication plugin for the first variable that is set, unless $OS_AUTH_TYPE names another.
_AUTH_TYPES = {
    "OS_APPLICATION_CREDENTIAL_ID": "v3applicationcredential",
    "OS_APPLICATION_CREDENTIAL_NAME": "v3applicationcredential",
    "OS_PASSWORD": "password",
    "OS_TOKEN": "token",
}


def add_login_arguments(group: ArgumentGroup) -> None:
    """Add the options of a login."""
    group.add_argument(
        "--token", help="token for the URLs (default: $OS_TOKEN, or admin on this machine)"
    )
    group.add_argument(
        "--os-cloud",
        metavar="NAME",
        help="log in to this cloud of clouds.yaml and use the services of its catalogue (default: "
        "$OS_CLOUD, or $OS_AUTH_URL and further $OS_* variables of the openstack command, unless "
        "--token or --config-file is given)",
    )
    group.add_argument(
        "--os-cacert",
        metavar="FILE",
        help="verify servers with this CA bundle (default: $OS_CACERT, $REQUESTS_CA_BUNDLE, or the "
        "bundle of this machine)",
    )


def make_adapters(
    arguments: argparse.Namespace, urls: Mapping[str, tuple[str, str | None]]
) -> dict[str, Adapter]:
    """Create an adapter for each service type with a server.

    ``urls`` maps service types to option and URL (or None), which precedes the catalogue. A type
    without an adapter uses the database. Raises :class:`Invalid`.
    """
    for flag, url in urls.values():
        if url is not None:
            _check_url(flag, url)
    services = {kind: url for kind, (_, url) in urls.items()}
    has_variables = arguments.token is None and getattr(arguments, "is_default_config", False)
    cloud = arguments.os_cloud or (os.environ.get("OS_CLOUD") if has_variables else None)
    if arguments.token is not None and arguments.os_cloud is not None:
        raise WrongArguments("--token cannot be combined with --os-cloud")
    if arguments.token is not None and not any(services.values()):
        raise WrongArguments(f"--token needs {' or '.join(flag for flag, _ in urls.values())}")
    if cloud:
        return _make_cloud_adapters(cloud, services, arguments.os_cacert)
    if has_variables and any(map(os.environ.get, ("OS_AUTH_URL", "OS_AUTH_TYPE"))):
        return _make_variable_adapters(services, arguments.os_cacert)
    return {
        kind: _make_token_adapter(flag, url, arguments)
        for kind, (flag, url) in urls.items()
        if url is not None
    }


def _check_url(flag: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        # Both properties parse the text and may raise.
        host, _ = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError:
        host = ""
    if not host or parts.scheme not in {"http", "https"}:
        raise WrongArguments(f"{flag} {url}: expected an http:// or https:// URL")
    if not parts.path.isascii():
        raise WrongArguments(f"{flag} {url}: not ASCII")


def _make_token_adapter(flag: str, url: str, arguments: argparse.Namespace) -> Adapter:
    token = os.environ.get("OS_TOKEN") if arguments.token is None else arguments.token
    if token is None:
        host = urlsplit(url).hostname or ""
        with suppress(ValueError):
            host = "localhost" if ip_address(host).is_loopback else host
        if host != "localhost":
            raise Invalid(f"no login for {flag} {url}: add --os-cloud, $OS_AUTH_URL or --token")
        token = "admin"  # noqa: S105 - of noauth2, as a server on this machine has by default
    if not token.strip():
        raise WrongArguments("the token (--token or $OS_TOKEN) is empty")
    # Clients write headers in latin-1.
    if not token.isprintable() or max(token) > "\xff":
        raise Invalid(
            "the token (--token or $OS_TOKEN) has characters that are not allowed in a header"
        )
    session = _open_session(Token(url, token.strip()), arguments.os_cacert)
    return Adapter(session, endpoint_override=url.rstrip("/"))


def _open_session(auth: Any, cacert: str | None) -> Session:
    paths = ssl.get_default_verify_paths()
    bundle = cacert or os.environ.get("OS_CACERT") or os.environ.get("REQUESTS_CA_BUNDLE")
    return make_session(
        auth,
        cacert=bundle or paths.cafile or paths.capath,
        cert=os.environ.get("OS_CERT") or None,
        key=os.environ.get("OS_KEY") or None,
    )


def _make_variable_adapters(
    urls: Mapping[str, str | None], cacert: str | None
) -> dict[str, Adapter]:
    guesses = (plugin for variable, plugin in _AUTH_TYPES.items() if os.environ.get(variable))
    auth_type = os.environ.get("OS_AUTH_TYPE") or next(guesses, "password")
    try:
        with silence_library_logs():
            loader: Any = loading.get_plugin_loader(auth_type)
        auth = loader.load_from_options_getter(lambda option: option.argparse_default)
        session = _open_session(auth, cacert)
    except (ClientException, ValueError, TypeError) as failure:
        problem = " ".join(str(failure).split())
        raise Invalid(
            f"login with the $OS_* variables (auth type {auth_type}): {problem}"
        ) from None
    return {
        kind: Adapter(
            session,
            service_type=kind,
            interface=os.environ.get("OS_INTERFACE") or None,
            region_name=os.environ.get("OS_REGION_NAME") or None,
            endpoint_override=url,
        )
        for kind, url in urls.items()
    }


def _make_cloud_adapters(
    name: str, urls: Mapping[str, str | None], cacert: str | None
) -> dict[str, Adapter]:
    try:
        # openstacksdk, which an extra of this package installs, takes half a second to load.
        config: Any = import_module("openstack.config")
    except ImportError:
        raise Invalid("--os-cloud needs openstacksdk: pip install 'placement-sched[osc]'") from None
    variables = {"region_name": "OS_REGION_NAME", "interface": "OS_INTERFACE"}
    options = {
        key: os.environ[variable] for key, variable in variables.items() if os.environ.get(variable)
    }
    if bundle := cacert or os.environ.get("OS_CACERT"):
        options["cacert"] = bundle
    names: list[str] = []
    warnings = BufferingHandler(1000)  # for example that a file is skipped, and why
    warnings.setLevel(logging.WARNING)
    logger = logging.getLogger("openstack")
    logger.addHandler(warnings)
    try:
        with silence_library_logs():
            clouds = config.OpenStackConfig()
            names = clouds.get_cloud_names()
            region = clouds.get_one(cloud=name, **options)
            session = region.get_session()
        return {
            kind: Adapter(
                session,
                service_type=region.get_service_type(kind),
                service_name=region.get_service_name(kind),
                interface=region.get_interface(kind),
                region_name=region.get_region_name(kind),
                endpoint_override=url or region.get_endpoint(kind),
            )
            for kind, url in urls.items()
        }
    except (ClientException, import_module("openstack.exceptions").SDKException) as failure:
        lines = [str(failure), *(record.getMessage() for record in warnings.buffer)]
    except (TypeError, AttributeError, ValueError, LookupError) as failure:
        # The file is YAML, but lacks the structure that openstacksdk expects.
        lines = [f"openstacksdk cannot use this cloud of clouds.yaml: {failure}"]
    finally:
        logger.removeHandler(warnings)
    problem = f"--os-cloud {name}: {' '.join(' '.join(lines).split())}"
    if names and name not in names:
        nearest = suggest_name("cloud", name, names)
        problem = f"{problem.removesuffix('.')}{nearest}"
    raise Invalid(problem)
