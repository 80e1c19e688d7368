# SPDX-License-Identifier: Apache-2.0
"""Login of commands with variables, clouds.yaml and tokens, at a test keystone."""

import importlib
import json
from contextlib import contextmanager

import pytest
import yaml

from placement_sched.cli import login
from placement_sched.cli.main import main, parse_arguments
from placement_sched.cli.scheduler.decisions import iterate_new_decisions
from placement_sched.cli.scheduler.scheduler_client import SchedulerClient
from tests.support import identity
from tests.support.loopback import serve_application

pytestmark = pytest.mark.slow

PASSWORD_LOGIN = {
    "USERNAME": identity.USER,
    "PASSWORD": identity.PASSWORD,
    "PROJECT_NAME": "service",
    "USER_DOMAIN_NAME": "Default",
    "PROJECT_DOMAIN_NAME": "Default",
}
APPLICATION_CREDENTIAL = {
    "APPLICATION_CREDENTIAL_ID": identity.USER,
    "APPLICATION_CREDENTIAL_SECRET": identity.PASSWORD,
}


class TokenCheckingService:
    """A scheduler API that checks tokens and responds with the path of the request."""

    def __init__(self, keystone: identity.Identity) -> None:
        self.keystone = keystone
        self.tokens: list[str] = []

    def __call__(self, environ, start_response):
        self.tokens.append(environ["HTTP_X_AUTH_TOKEN"])
        is_valid = self.keystone.is_valid(self.tokens[-1])
        start_response("200 OK" if is_valid else "401 Unauthorized", [])
        document = {"path": environ["PATH_INFO"], "options": {}, "decisions": [], "links": []}
        return [json.dumps(document).encode()]


@pytest.fixture
def catalogue_service(monkeypatch):
    """A service in a keystone catalogue, with the environment variables of a login."""
    with identity.run_keystone() as keystone:
        catalogue_service = TokenCheckingService(keystone)
        with serve_application(catalogue_service) as url:
            catalogue_service.url = url
            keystone.services["scheduler"] = f"{url}/scheduler/v1"
            set_openstack_variables(monkeypatch, AUTH_URL=f"{keystone.url}/v3", **PASSWORD_LOGIN)
            yield catalogue_service


def set_openstack_variables(monkeypatch, **variables: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"OS_{name}", value)


@pytest.fixture
def run_policy_show(capsys):
    """Return a function that runs a command: status, requested path and stderr."""

    def run_and_get_path(*options: str) -> tuple[int, str | None, str]:
        status = main(["policy", "show", "x", "--format", "json", *options])
        printed = capsys.readouterr()
        return status, json.loads(printed.out)["path"] if printed.out else None, printed.err

    return run_and_get_path


REQUESTED_PATH = "/scheduler/v1/policies/x"


@pytest.mark.parametrize("path", ["", "/scheduler", "/placement"])
def test_catalogue_may_have_the_server_scheduler_or_placement_url(
    catalogue_service, run_policy_show, path
):
    kind = "placement" if path == "/placement" else "scheduler"
    catalogue_service.keystone.services = {kind: catalogue_service.url + path}
    assert run_policy_show() == (0, REQUESTED_PATH, "")


@pytest.mark.parametrize("auth_method", ["password", "application credential", "token"])
def test_login_by_variables_uses_the_catalogue_url(
    catalogue_service, run_policy_show, monkeypatch, auth_method
):
    if auth_method == "application credential":
        for name in PASSWORD_LOGIN:
            monkeypatch.delenv(f"OS_{name}")
        set_openstack_variables(monkeypatch, **APPLICATION_CREDENTIAL)
    if auth_method == "token":
        monkeypatch.delenv("OS_PASSWORD")
        set_openstack_variables(
            monkeypatch, TOKEN=catalogue_service.keystone.issue_token("u", "p", "admin")
        )
    assert run_policy_show() == (0, REQUESTED_PATH, "")


def test_url_option_takes_precedence_over_the_catalogue(catalogue_service, run_policy_show):
    catalogue_service.keystone.services = {"scheduler": "http://127.0.0.1:1"}
    assert run_policy_show("--url", catalogue_service.url) == (0, REQUESTED_PATH, "")
    assert catalogue_service.keystone.is_valid(catalogue_service.tokens[0])


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"PASSWORD": "wrong"}, "401"),
        (
            {"REGION_NAME": "elsewhere"},
            "endpoint for scheduler service in elsewhere region not found",
        ),
        ({"AUTH_URL": "http://127.0.0.1:1/v3"}, "scheduler: Connection refused"),
        ({"AUTH_TYPE": "nonsense"}, "(auth type nonsense): "),
        ({"AUTH_TYPE": "v3totp", "AUTH_URL": ""}, "(auth type v3totp): Auth plugin requires"),
    ],
)
def test_failed_keystone_login_is_reported(
    catalogue_service, run_policy_show, monkeypatch, variables, words
):
    set_openstack_variables(monkeypatch, **variables)
    status, path, error = run_policy_show()
    assert (status, path) == (1, None)
    assert words in error
    assert error.count("\n") == 1


def test_followed_decision_list_renews_an_invalid_token(catalogue_service):
    arguments = parse_arguments(["decision", "list"])
    (adapter,) = login.make_adapters(arguments, {"scheduler": ("--url", None)}).values()
    client = SchedulerClient(adapter)
    decisions = iterate_new_decisions(client, {}, client.get("decisions", query={})["decisions"])
    catalogue_service.keystone.revoke_token(catalogue_service.tokens[0])
    assert next(decisions) == []
    first, refused, renewed = catalogue_service.tokens
    assert first == refused != renewed


@pytest.mark.parametrize("options", [("--config-file", "{}"), ("--token", "a", "--url", "{}")])
def test_config_file_and_token_options_replace_a_login(
    catalogue_service, run_policy_show, tmp_path, options
):
    file = tmp_path / "a.conf"
    file.write_text("[placement_database]\nconnection = sqlite:////absent/a.db\n")
    value = file if "--config-file" in options else catalogue_service.url
    status, _, _ = run_policy_show(*(option.format(value) for option in options))
    assert status == 1
    assert catalogue_service.tokens in ([], ["a"])


@pytest.fixture
def clouds_yaml(catalogue_service, tmp_path, monkeypatch):
    """A clouds.yaml with the cloud ``here``."""
    options = {name.lower(): value for name, value in PASSWORD_LOGIN.items()}
    auth = {"auth_url": f"{catalogue_service.keystone.url}/v3", **options}
    (tmp_path / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"here": {"auth": auth}}}))
    for name in ("AUTH_URL", *PASSWORD_LOGIN):
        monkeypatch.delenv(f"OS_{name}")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))


@pytest.mark.filterwarnings("ignore:Support for InfluxDB")  # openstacksdk's own
@pytest.mark.usefixtures("clouds_yaml")
def test_login_uses_the_named_cloud_of_clouds_yaml(run_policy_show, monkeypatch):
    assert run_policy_show("--os-cloud", "here") == (0, REQUESTED_PATH, "")
    monkeypatch.setenv("OS_CLOUD", "here")
    assert run_policy_show() == (0, REQUESTED_PATH, "")
    monkeypatch.setenv("OS_REGION_NAME", "elsewhere")
    assert "endpoint for scheduler service in elsewhere region not found" in run_policy_show()[2]


@contextmanager
def make_openstacksdk_unimportable(monkeypatch):
    def import_module_except_openstack(name: str) -> object:
        if name.startswith("openstack"):
            raise ImportError(name)
        return importlib.import_module(name)

    with monkeypatch.context() as patch:
        patch.setattr(login, "import_module", import_module_except_openstack)
        yield


def test_os_cloud_option_without_openstacksdk_names_the_pip_extra(run_policy_show, monkeypatch):
    with make_openstacksdk_unimportable(monkeypatch):
        _, _, error = run_policy_show("--os-cloud", "here")
    words = "--os-cloud needs openstacksdk: pip install 'placement-sched[osc]'"
    assert error == f"placement-sched: {words}\n"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "[::1]", "localhost"])
def test_token_for_a_loopback_url_is_admin_without_a_login(host):
    url = f"http://{host}:1"
    arguments = parse_arguments(["host", "list", "--url", url])
    adapters = login.make_adapters(arguments, {"scheduler": ("--url", url)})
    assert adapters["scheduler"].get_token() == "admin"


@pytest.mark.parametrize(
    ("options", "expected_status", "words"),
    [
        (["--url", "http://192.0.2.1"], 1, "no login for --url http://192.0.2.1: add --os-cloud"),
        (["--url", "http://localhost.example"], 1, "no login for --url http://localhost.example"),
        (
            ["--url", "http://127.0.0.1", "--token", ""],
            2,
            "the token (--token or $OS_TOKEN) is empty",
        ),
        (["--token", "a"], 2, "--token needs --url"),
        (["--token", "a", "--os-cloud", "b"], 2, "--token cannot be combined with --os-cloud"),
    ],
)
def test_incomplete_url_and_token_options_are_rejected(
    run_policy_show, options, expected_status, words
):
    status, _, error = run_policy_show(*options)
    assert status == expected_status
    assert error.startswith(f"placement-sched: {words}")
