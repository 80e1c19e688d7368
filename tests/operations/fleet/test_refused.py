"""What no request could make is refused at its place, by a dry run as by a load."""

import pytest

from placement_sched.errors import Error
from tests.clouds import uuid_of

UUID = uuid_of("one")


def refuse(cloud, text, told):
    before = cloud.state
    for dry_run in (True, False):
        with pytest.raises(Error) as refused:
            cloud.load(text, dry_run=dry_run)
        assert str(refused.value).startswith(told)
        assert cloud.state == before


@pytest.mark.parametrize(
    "text",
    [
        f"services:\n- {{host: sv1, uuid: {UUID}}}\n- {{host: sv2, uuid: {UUID}}}",
        f"services:\n- {{host: sv1, uuid: {UUID}}}\n- {{host: [sv2], uuid: [{UUID.upper()}]}}",
        f"services:\n- {{host: sv1}}\n- {{host: sv2, uuid: {UUID}}}",
        f"hosts:\n- {{host: sv1}}\nservices: [{{host: sv2, uuid: {UUID}}}]",
    ],
)
def test_two_services_of_one_uuid_are_refused(cloud, text):
    hosts = "hosts: [{host: sv1, vcpus: 1, memory_mb: 1}]\n"
    cloud.load(f"{hosts}services: [{{host: sv1, uuid: {UUID}, status: disabled}}]")
    refuse(cloud, text, "f.yaml:3:")


def test_the_uuid_that_a_service_would_get_by_itself_is_refused_for_another(small):
    small.load("services: [{host: sv1}]")
    (service,) = small.state.services.values()
    refuse(
        small,
        f"services:\n- {{host: sv2, uuid: {service.uuid}}}",
        f"f.yaml:2:21: {service.uuid} is the uuid of nova-compute of sv1 already",
    )
