# SPDX-License-Identifier: Apache-2.0
"""Kubernetes manifests and the compose file are valid.

``fields.yaml`` has the required and allowed fields from Kubernetes' API reference for the kinds in
use. It rejects misspelt fields, which Kubernetes ignores.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from placement_sched.cli.main import main, make_parser
from placement_sched.cli.serve import GRACE
from tests.deploy import DEPLOY_FOLDER, create_certificate, find_program, run_program
from tests.deploy.manifests import (
    MANIFESTS_FOLDER,
    find_manifests_of_kind,
    read_manifests,
    read_readme_blocks,
)
from tests.support.repository import ROOT

pytestmark = pytest.mark.slow

FIELDS_BY_KIND = yaml.safe_load(Path(__file__).with_name("fields.yaml").read_text())
COMPOSE_FILE = yaml.safe_load((DEPLOY_FOLDER / "compose/compose.yaml").read_text())


(CONFIG_MAP_TEXT,) = [
    manifest["data"]["placement_sched.conf"]
    for manifest in find_manifests_of_kind("ConfigMap")
    if manifest["metadata"]["name"] == "placement-sched"
]


def list_pod_templates() -> list[dict]:
    return [
        manifest["spec"]["template"]
        for kind in ("Deployment", "Job")
        for manifest in find_manifests_of_kind(kind)
    ]


def _is_resource_quantity(value: object) -> bool:
    return bool(re.fullmatch("[0-9]+(m|Ki|Mi|Gi)?", str(value)))


def _is_dictionary_of_valid_values(value: object, is_valid: Callable[[object], bool]) -> bool:
    return isinstance(value, dict) and all(map(is_valid, value.values()))


def _is_dns_label(value: object) -> bool:
    return bool(re.fullmatch("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", str(value)))


#: The scalar types of fields.yaml.
SCALAR_TYPE_CHECKS: dict[str, Callable[[object], bool]] = {
    "any": lambda _value: True,
    "text": lambda value: isinstance(value, str),
    "flag": lambda value: isinstance(value, bool),
    "number": lambda value: type(value) is int and value >= 0,
    "positive": lambda value: type(value) is int and value > 0,
    "amount": lambda value: type(value) in (int, str),
    "port": lambda value: type(value) is int and 0 < value < 65536,
    "name": _is_dns_label,
    "target": lambda value: SCALAR_TYPE_CHECKS["port" if isinstance(value, int) else "name"](value),
    "path": lambda value: str(value).startswith("/"),
    "quantity": _is_resource_quantity,
    "quantities": lambda value: _is_dictionary_of_valid_values(value, _is_resource_quantity),
    "strings": lambda value: _is_dictionary_of_valid_values(
        value, lambda each: isinstance(each, str)
    ),
}


def list_paths_of_invalid_values(value: Any, kind: str | list[str], path: str) -> Iterator[str]:
    """Yield the path of each value that does not have its type in fields.yaml."""
    if isinstance(kind, list):
        if not isinstance(value, list) or not value:
            yield path
            return
        for position, each in enumerate(value):
            yield from list_paths_of_invalid_values(each, kind[0], f"{path}[{position}]")
    elif kind in FIELDS_BY_KIND and isinstance(value, dict):
        kinds = {name.rstrip("!"): of_field for name, of_field in FIELDS_BY_KIND[kind].items()}
        required = {name.rstrip("!") for name in FIELDS_BY_KIND[kind] if name.endswith("!")}
        yield from (
            f"{path}.{name}" for name in (required - set(value)) | (set(value) - set(kinds))
        )
        for name in value.keys() & kinds.keys():
            yield from list_paths_of_invalid_values(value[name], kinds[name], f"{path}.{name}")
    elif kind in FIELDS_BY_KIND or not (
        value in kind[1:].split("|") if kind.startswith("=") else SCALAR_TYPE_CHECKS[kind](value)
    ):
        yield path


@pytest.mark.parametrize("manifest", read_manifests(), ids=lambda each: f"{each['kind']}")
def test_manifest_is_valid_for_its_kind(manifest):
    assert list(list_paths_of_invalid_values(manifest, manifest["kind"], "")) == []


def test_invalid_fields_of_manifests_are_reported():
    (deployment,) = find_manifests_of_kind("Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container |= {"readynessProbe": {}, "image": 7, "args": []}
    del deployment["spec"]["selector"]
    place = ".spec.template.spec.containers[0]"
    assert set(list_paths_of_invalid_values(deployment, "Deployment", "")) == {
        ".spec.selector",
        *(f"{place}.{name}" for name in ("readynessProbe", "image", "args")),
    }


def test_every_manifest_is_in_the_kustomization():
    named = set(yaml.safe_load((MANIFESTS_FOLDER / "kustomization.yaml").read_text())["resources"])
    assert named == {path.name for path in MANIFESTS_FOLDER.glob("*.yaml")} - {"kustomization.yaml"}


def test_kubectl_renders_the_manifests_in_one_namespace():
    rendered = yaml.safe_load_all(
        run_program(find_program("kubectl", "kubernetes-client"), "kustomize", MANIFESTS_FOLDER)
    )
    namespaces = {object_["kind"]: object_["metadata"].get("namespace") for object_ in rendered}
    kinds = {manifest["kind"] for manifest in read_manifests()} - {"Kustomization"}
    assert set(namespaces) == kinds
    assert set(namespaces.values()) == {"placement-sched", None}
    assert namespaces["Namespace"] is None


def read_readme_lines() -> list[str]:
    """Return the commands of deploy/README.md for Kubernetes."""
    blocks = read_readme_blocks("Kubernetes")
    return re.sub(r"\\\n\s+", "", "".join(blocks)).splitlines()


@pytest.mark.parametrize("line", read_readme_lines())
def test_kubectl_accepts_the_lines_of_the_readme(line, tmp_path):
    """Without a cluster the secret is created, and other commands fail to connect."""
    kubectl, *words = shlex.split(line)
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": os.devnull}
    command = (find_program(kubectl, "kubernetes-client"), "--server=http://127.0.0.1:9")
    if "create" not in words:
        output = run_program(*command, *words, status=1, cwd=ROOT, env=variables)
        assert "127.0.0.1:9" in output
        return
    create_certificate(tmp_path)
    files = {"placement.example.com.pem": "cert.pem", "placement.example.com.key": "key.pem"}
    words = [str(tmp_path / files[word]) if word in files else word for word in words]
    output = run_program(
        *command, *words, "--dry-run=client", "--output=yaml", cwd=ROOT, env=variables
    )
    secret = yaml.safe_load(output)
    assert secret["type"] == "kubernetes.io/tls"
    names = {
        tls["secretName"]
        for ingress in find_manifests_of_kind("Ingress")
        for tls in ingress["spec"]["tls"]
    }
    assert names == {secret["metadata"]["name"]}


def test_memory_requests_equal_the_guide_for_10_000_hosts():
    """The guide has a number for each database. The largest counts."""
    page = (ROOT / "doc/source/deploy.rst").read_text()
    worker = max(map(int, re.findall(r"(\d+) MB", re.search(r"\n10 000 {2,}(.*)", page)[1])))
    parent = int(re.search(r"(\d+) MB for the parent process", page)[1])
    (deployment,) = find_manifests_of_kind("Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    workers = int(re.search(r"--workers=(\d+)", " ".join(container["args"]))[1])
    requested = int(container["resources"]["requests"]["memory"].removesuffix("Mi")) << 20
    assert 1 <= requested / ((parent + workers * worker) * 1_000_000) < 1.1


def test_pods_meet_the_restricted_pod_security_standard():
    """The namespace's "pod-security.kubernetes.io/enforce: restricted" rejects other pods."""
    for pod in list_pod_templates():
        of_pod = pod["spec"]["securityContext"]
        assert of_pod["runAsNonRoot"] is True
        assert of_pod["seccompProfile"]["type"] == "RuntimeDefault"
        for container in pod["spec"]["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}


def test_kubernetes_selectors_match_only_the_servers():
    (deployment,), (service,) = (
        find_manifests_of_kind("Deployment"),
        find_manifests_of_kind("Service"),
    )
    servers = deployment["spec"]["template"]["metadata"]["labels"]
    (job,) = find_manifests_of_kind("Job")
    job_labels = job["spec"]["template"]["metadata"]["labels"]
    selectors = [deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"]]
    selectors += [
        manifest["spec"]["selector"]["matchLabels"]
        for manifest in find_manifests_of_kind("PodDisruptionBudget")
    ]
    selectors += [
        manifest["spec"]["podSelector"]["matchLabels"]
        for manifest in find_manifests_of_kind("NetworkPolicy")
    ]
    for selector in selectors:
        assert selector.items() <= servers.items()
        assert not selector.items() <= job_labels.items()


def test_secrets_and_config_maps_of_pods_exist():
    names = {
        (manifest["kind"], manifest["metadata"]["name"])
        for manifest in read_manifests()
        if "metadata" in manifest
    }
    for pod in list_pod_templates():
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        for container in pod["spec"]["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
            for source in container["envFrom"]:
                assert ("Secret", source["secretRef"]["name"]) in names
        assert ("ConfigMap", volumes["configuration"]["configMap"]["name"]) in names


@pytest.mark.parametrize("pod", list_pod_templates(), ids=["server", "db-sync"])
def test_container_arguments_of_manifests_are_accepted_by_the_command_line(pod):
    (container,) = pod["spec"]["containers"]
    arguments = make_parser(container["args"]).parse_args(container["args"])
    assert arguments.config_file == ["/etc/placement_sched/placement_sched.conf"]
    ports = [port["containerPort"] for port in container.get("ports", ())]
    assert ports in ([], [getattr(arguments, "port", 0)])


def test_termination_grace_period_exceeds_shutdown_delay_and_grace():
    (deployment,) = find_manifests_of_kind("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    delay = re.search(r"shutdown_delay = (\d+)", CONFIG_MAP_TEXT)
    assert pod["terminationGracePeriodSeconds"] > GRACE + int(delay[1])


def test_configuration_of_the_manifests_is_valid(tmp_path, monkeypatch, capsys):
    (secret,) = find_manifests_of_kind("Secret")
    for name, value in secret["stringData"].items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "placement_sched.conf"
    file.write_text(CONFIG_MAP_TEXT)
    assert main(["config", "validate", "--config-file", str(file)]) == 0
    assert capsys.readouterr().out == "the configuration is valid\n"


def test_deployed_configuration_file_is_valid(capsys):
    file = DEPLOY_FOLDER / "placement_sched.conf"
    assert main(["config", "validate", "--config-file", str(file)]) == 0
    assert capsys.readouterr().out == "the configuration is valid\n"


def test_compose_services_run_read_only_as_in_the_image():
    for name in ("one", "two", "sync"):
        service = COMPOSE_FILE["services"][name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["tmpfs"] == ["/tmp"]  # noqa: S108 - the image's writable folder
        assert "no-new-privileges:true" in service["security_opt"]
    command = COMPOSE_FILE["services"]["sync"]["command"]
    make_parser(command).parse_args(command)


def test_files_and_services_of_compose_exist():
    services = COMPOSE_FILE["services"]
    assert set(services) == {"db", "sync", "one", "two", "haproxy", "prometheus", "grafana"}
    created_by_hand = {"./tls"}
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source.startswith("."):
                is_there = (DEPLOY_FOLDER / "compose" / source).exists()
                assert is_there or source in created_by_hand, source
            else:
                assert source in COMPOSE_FILE["volumes"]
        if "build" in service:
            context = DEPLOY_FOLDER / "compose" / service["build"]["context"]
            assert (context / service["build"]["dockerfile"]).exists()
        for other in service.get("depends_on", ()):
            assert other in services
    proxy = (DEPLOY_FOLDER / "compose/haproxy.cfg").read_text()
    assert set(re.findall(r"server \w+ (\w+):8778", proxy)) == {"one", "two"}


def test_compose_contains_no_password():
    text = (DEPLOY_FOLDER / "compose/compose.yaml").read_text()
    passwords = re.findall(r"PASSWORD: (.*)", text)
    assert len(passwords) == 2
    assert all(re.fullmatch(r'"\$\{\w+:\?set it\}"', password) for password in passwords)
