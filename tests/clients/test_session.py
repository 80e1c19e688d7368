# SPDX-License-Identifier: Apache-2.0
"""Another service asked as a group of the configuration tells, with keystoneauth's options."""

import pytest

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.errors import ConfigurationError, ServiceFailed
from placement_sched.model.request_spec import Port
from placement_sched.scheduler.plugins import make_full_conf
from placement_sched.scheduler.request import neutron_of
from tests.support import identity, neutron

PORT, NET = "aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"
PASSWORD = {
    "auth_type": "password",
    "username": identity.USER,
    "password": identity.PASSWORD,
    "project_name": "service",
    "user_domain_name": "Default",
    "project_domain_name": "Default",
    "region_name": "here",
    "http_retries": "0",
}


@pytest.fixture
def configured(tmp_path):
    """Return the neutron of a file with these options; other groups by name."""

    def neutron_with(options, **groups):
        file = tmp_path / "a.conf"
        sections = {"neutron": options, **groups}
        file.write_text(
            "".join(
                f"[{group}]\n" + "".join(f"{name} = {each}\n" for name, each in members.items())
                for group, members in sections.items()
            )
        )
        return neutron_of(Settings.from_conf(read_files(make_full_conf(), [str(file)])))

    return neutron_with


@pytest.fixture
def keystone():
    with identity.run_keystone() as found:
        yield found


@pytest.fixture
def fake():
    with neutron.run_neutron() as found:
        found.add_port(PORT, NET)
        yield found


@pytest.mark.parametrize("options", [{}, {"region_name": "here", "timeout": "5"}])
def test_nothing_said_is_nobody_to_ask(configured, options):
    assert configured(options) is None


def test_address_alone_is_asked_as_nobody(configured, fake):
    assert configured({"endpoint_override": fake.url}).port(PORT) == Port(network_id=NET)


def test_service_is_found_in_the_catalogue_and_asked_with_a_token(configured, keystone, fake):
    keystone.services["network"] = fake.url
    found = configured({**PASSWORD, "auth_url": f"{keystone.url}/v3"})
    assert found.port(PORT) == Port(network_id=NET)
    assert fake.tokens[0] in keystone._tokens


def test_options_of_auth_may_stand_in_another_section(configured, keystone, fake):
    keystone.services["network"] = fake.url
    elsewhere = {**PASSWORD, "auth_url": f"{keystone.url}/v3"}
    found = configured({"auth_section": "both", "region_name": "here"}, both=elsewhere)
    assert found.port(PORT) == Port(network_id=NET)


def test_older_names_of_the_options_work(configured, keystone, fake):
    keystone.services["network"] = fake.url
    options = {**PASSWORD, "auth_url": f"{keystone.url}/v3"}
    options["tenant_name"], options["user_name"] = options.pop("project_name"), identity.USER
    del options["username"]
    assert configured(options).port(PORT) == Port(network_id=NET)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"password": "wrong"}, "401"),
        ({"region_name": "elsewhere"}, "network"),
        ({"endpoint_override": "https://127.0.0.1:1", "cafile": "/absent.pem"}, "/absent.pem"),
        ({"auth_url": "http://127.0.0.1:1/v3"}, "network: "),
    ],
    ids=["wrong password", "no such region", "no such file", "no keystone"],
)
def test_service_that_cannot_be_found_is_told_when_it_is_asked(
    configured, keystone, fake, changes, words
):
    keystone.services["network"] = fake.url
    found = configured({**PASSWORD, "auth_url": f"{keystone.url}/v3", **changes})
    with pytest.raises(ServiceFailed) as told:
        found.port(PORT)
    assert words in told.value.detail
    assert "\n" not in told.value.detail


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"auth_type": "nonsense"}, "nonsense"),
        ({"auth_type": "password"}, "auth_url"),
        ({"endpoint_override": "http://x", "valid_interfaces": "inner"}, "valid_interfaces"),
        ({"endpoint_override": "http://x", "version": "2", "min_version": "1"}, "version is"),
    ],
)
def test_options_that_do_not_fit_are_a_fault_of_the_configuration(configured, options, words):
    with pytest.raises(ConfigurationError) as told:
        configured(options)
    assert told.value.detail.startswith("[neutron]")
    assert words in told.value.detail
