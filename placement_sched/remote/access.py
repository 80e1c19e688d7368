"""How other services are reached: by address and token, or as clouds.yaml tells."""

from importlib import import_module
from typing import Any

from keystoneauth1.adapter import Adapter
from keystoneauth1.exceptions import ClientException
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from placement_sched.errors import Invalid


def by_token(url: str, token: str) -> Adapter:
    """Return who asks the service at ``url`` with a token: keystone's, or a word of noauth2."""
    return Adapter(Session(auth=Token(url, token)), endpoint_override=url.rstrip("/"))


class Cloud:
    """A cloud of clouds.yaml, read by openstacksdk, as the openstack command reads it.

    Raises :class:`Invalid` where openstacksdk is not installed, or does not know the cloud.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        try:
            # Installed only where it is wanted, and it takes half a second to load: not for all.
            config: Any = import_module("openstack.config")
        except ImportError:
            raise Invalid(
                "--os-cloud needs openstacksdk: pip install 'placement_sched[clouds]'"
            ) from None
        self._failures = (ClientException, import_module("openstack.exceptions").SDKException)
        try:
            self._region: Any = config.OpenStackConfig().get_one(cloud=name)
        except self._failures as failure:
            raise self._wrong(failure) from None

    def adapter(self, service: str) -> Adapter:
        """Return who asks a service of the cloud, ``placement`` or ``compute``."""
        try:
            return Adapter(
                self._region.get_session(),
                service_type=self._region.get_service_type(service),
                service_name=self._region.get_service_name(service),
                interface=self._region.get_interface(service),
                region_name=self._region.get_region_name(service),
                endpoint_override=self._region.get_endpoint(service),
            )
        except self._failures as failure:
            raise self._wrong(failure) from None

    def _wrong(self, failure: Exception) -> Invalid:
        return Invalid(f"--os-cloud {self._name}: {' '.join(str(failure).split())}")
