# SPDX-License-Identifier: Apache-2.0
"""The operations of an API, rendered from its OpenAPI document, and the document as a file.

``.. openapi-operations:: scheduler`` renders the document of the newest version. The build writes
``scheduler/openapi.json``.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx

from placement_sched.api import openapi
from placement_sched.api.placement import routes as placement
from placement_sched.api.placement.microversions import VERSIONING
from placement_sched.api.placement.routes import API as PLACEMENT
from placement_sched.api.scheduler import routes as scheduler
from placement_sched.api.scheduler.routes import API as SCHEDULER
from placement_sched.api.versions import Version

_DESCRIPTIONS = {
    "placement": (placement.describe_openapi(PLACEMENT.routes), VERSIONING.newest),
    "scheduler": (scheduler.describe_openapi(SCHEDULER.routes), Version(1, 0)),
}


def document_of(service: str) -> dict[str, Any]:
    """Return the OpenAPI document of an API."""
    description, version = _DESCRIPTIONS[service]
    return openapi.build_document(description, version, f"/{service}")


def _block(title: str, schema: Any) -> Iterator[str]:
    """Yield a schema that a click opens."""
    yield from (".. raw:: html", "", f"   <details><summary>{title}</summary>", "")
    yield from (".. code-block:: json", "")
    yield from (f"   {line}" for line in json.dumps(schema, indent=2).splitlines())
    yield from ("", ".. raw:: html", "", "   </details>", "")


def _operation(method: str, path: str, operation: Mapping[str, Any], server: str) -> Iterator[str]:
    yield from (f".. rubric:: {method.upper()} {server}{path}", "", operation["summary"], "")
    yield f":Operation: ``{operation['operationId']}``"
    if "x-policy" in operation:
        yield f":Policy rule: ``{operation['x-policy']}``"
    named = [item for item in operation["parameters"] if item["in"] != "header"]
    if named:
        names = (f"``{item['name']}`` ({item['in']})" for item in named)
        yield f":Parameters: {', '.join(names)}"
    responses = operation["responses"].items()
    texts = (f"{status} {response['description']}" for status, response in responses)
    yield from (f":Responses: {', '.join(texts)}", "")
    if "requestBody" in operation:
        for kind, content in operation["requestBody"]["content"].items():
            yield from _block(f"Request body ({kind})", content["schema"])
    for status, response in responses:
        if status.startswith("2") and "content" in response:
            for kind, content in response["content"].items():
                yield from _block(f"Response {status} ({kind})", content["schema"])


class OpenapiOperations(Directive):
    """Renders the operations and the components of an API's document."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the parsed operations."""
        document = document_of(self.arguments[0])
        (server,) = document["servers"]
        lines = [
            line
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            for line in _operation(method, path, operation, server["url"])
        ]
        for name, schema in document["components"]["schemas"].items():
            lines += [f".. rubric:: Component {name}", "", *_block("Schema", schema)]
        container = nodes.container()
        self.state.nested_parse(StringList(lines, "<openapi>"), self.content_offset, container)
        return [container]


def _write_documents(app: Sphinx, failure: Exception | None) -> None:
    if failure is None and app.builder.format == "html":
        for service in _DESCRIPTIONS:
            file = Path(app.outdir, service, "openapi.json")
            file.write_text(json.dumps(document_of(service), indent=1))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive and the files."""
    app.add_directive("openapi-operations", OpenapiOperations)
    app.connect("build-finished", _write_documents)
    return {"parallel_read_safe": True}
