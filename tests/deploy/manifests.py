# SPDX-License-Identifier: Apache-2.0
"""Kubernetes manifests, and the README file of deploy."""

import re

import yaml

from tests.deploy import DEPLOY_FOLDER

MANIFESTS_FOLDER = DEPLOY_FOLDER / "kubernetes"


def read_manifests() -> list[dict]:
    return [
        document
        for path in sorted(MANIFESTS_FOLDER.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]


def find_manifests_of_kind(kind: str) -> list[dict]:
    return [manifest for manifest in read_manifests() if manifest["kind"] == kind]


def read_readme_blocks(title: str) -> list[str]:
    """Return the code blocks below a heading of deploy/README.md."""
    _, heading, rest = (DEPLOY_FOLDER / "README.md").read_text().partition(f"\n## {title}\n")
    assert heading
    return re.findall(r"^```\n(.*?)^```$", rest.partition("\n## ")[0], re.DOTALL | re.MULTILINE)
