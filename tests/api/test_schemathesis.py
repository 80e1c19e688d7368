# SPDX-License-Identifier: Apache-2.0
"""Random requests of schemathesis, valid and invalid by the OpenAPI document."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from schemathesis import GenerationMode, checks
from schemathesis.specs.openapi import checks as openapi_checks

from placement_sched.api.placement.routes import API
from placement_sched.api.routing import PARAMETER
from placement_sched.api.versions import Version
from placement_sched.app import create_app
from tests.exploring import IS_EXPLORING, scale_example_count
from tests.support.versions import LATEST, LATEST_HEADERS

pytestmark = pytest.mark.system

OPENAPI_PATH = "/placement/openapi.json"
#: The newest and the oldest microversion, and microversions with most of the other formats.
TESTED_VERSIONS = (LATEST, "1.37", "1.27", "1.12", "1.0")
#: Number of valid and of invalid requests of every operation.
EXAMPLE_COUNTS_BY_VERSION = {LATEST: 15}
DEFAULT_EXAMPLE_COUNT = 4
RESPONSE_CHECKS = (
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
)

#: Paths that show the current generations.
PATHS_BY_GENERATION_FIELD = {
    "resource_provider_generation": "/placement/resource_providers",
    "consumer_generation": "/placement/allocations",
}
REPLACED_GENERATIONS = (0, 2, 4, None)
OBJECT_UUIDS = [f"99999999-0000-4000-8000-00000000000{digit}" for digit in range(6)]
RESOURCE_CLASS_NAMES = ["VCPU", "MEMORY_MB", "CUSTOM_LLAMA", "CUSTOM_ALPACA"]
TRAIT_NAMES = ["HW_CPU_X86_AVX2", "CUSTOM_GOLD", "CUSTOM_SILVER"]
#: Valid and almost valid values, by the beginning of a query parameter's name.
QUERY_VALUES = {
    "resources": ["VCPU:1", "VCPU:2,MEMORY_MB:64", "CUSTOM_LLAMA:1", "VCPU:0", "VCPU"],
    "required": ["HW_CPU_X86_AVX2", "!CUSTOM_GOLD", "in:CUSTOM_GOLD,CUSTOM_SILVER", "!"],
    "root_required": ["HW_CPU_X86_AVX2,!CUSTOM_GOLD", "in:CUSTOM_GOLD"],
    "member_of": [
        OBJECT_UUIDS[0],
        f"in:{OBJECT_UUIDS[0]},{OBJECT_UUIDS[1]}",
        f"!in:{OBJECT_UUIDS[2]}",
        "in:",
    ],
    "in_tree": OBJECT_UUIDS,
    "uuid": OBJECT_UUIDS,
    "same_subtree": ["1,2", "_A", ""],
    "project_id": ["project"],
    "user_id": ["user"],
    "consumer_type": ["INSTANCE", "all", "unknown"],
    "name": ["in:CUSTOM_GOLD", "startswith:HW_", "host", ""],
    "associated": ["true", "false"],
}


#: Candidates queries that may have candidates. Most random queries contradict themselves.
GRANULAR_QUERIES = st.fixed_dictionaries(
    {"resources": st.sampled_from(["VCPU:1", "CUSTOM_LLAMA:1"])},
    optional={
        "resources1": st.sampled_from(["MEMORY_MB:64", "VCPU:1,CUSTOM_LLAMA:1"]),
        "required1": st.sampled_from(["HW_CPU_X86_AVX2", "!CUSTOM_GOLD"]),
        "member_of1": st.just(OBJECT_UUIDS[0]),
        "resources2": st.just("CUSTOM_LLAMA:1"),
        "group_policy": st.sampled_from(["none", "isolate"]),
        "same_subtree": st.sampled_from(["1", "1,2"]),
        "root_required": st.just("HW_CPU_X86_AVX2"),
        "in_tree": st.sampled_from(OBJECT_UUIDS[:2]),
        "limit": st.sampled_from(["1", "100"]),
    },
)


def _build_value_strategy(name: str, value: Any) -> st.SearchStrategy[Any]:
    """Return a strategy of the random value and of values from :data:`QUERY_VALUES`."""
    stem = max((key for key in QUERY_VALUES if name.startswith(key)), key=len, default=None)
    if stem is None:
        return st.just(value)
    single = st.sampled_from(QUERY_VALUES[stem])
    values = st.lists(single, max_size=3) if isinstance(value, list) else single
    return values | values | st.just(value)


def _replace_names_by_existing_names(value: Any, key: str = "") -> Any:
    """Return a body with existing classes, providers and traits, and small generations."""
    if isinstance(value, dict):
        return {
            _choose_existing_name(name): _replace_names_by_existing_names(inner, name)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_replace_names_by_existing_names(inner, key) for inner in value]
    if isinstance(value, int) and key.endswith("generation"):
        return value % 5
    if key == "traits" and isinstance(value, str):
        return TRAIT_NAMES[len(value) % len(TRAIT_NAMES)]
    return (
        _choose_existing_name(value) if key in {"uuid", "parent_provider_uuid"} and value else value
    )


def _choose_existing_name(name: Any) -> Any:
    if not isinstance(name, str):
        return name
    if name.isupper():
        return RESOURCE_CLASS_NAMES[len(name) % len(RESOURCE_CLASS_NAMES)]
    if len(name) in {32, 36}:
        return OBJECT_UUIDS[sum(map(ord, name)) % len(OBJECT_UUIDS)]
    return name


def _set_current_generations(client: Any, names: Mapping[str, Any], body: Any) -> None:
    """Replace even generations with current values."""
    if not isinstance(body, dict):
        return
    for uuid, part in (
        (names.get("uuid", names.get("consumer_uuid")), body),
        *_list_objects_by_uuid(body),
    ):
        for key, path in PATHS_BY_GENERATION_FIELD.items():
            if isinstance(part, dict) and key in part and part[key] in REPLACED_GENERATIONS:
                shown = client.get(
                    f"{path}/{quote(str(uuid), safe='')}", headers=LATEST_HEADERS, status="*"
                )
                part[key] = shown.json.get("generation", shown.json.get("consumer_generation"))


def _list_objects_by_uuid(body: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the parts of a body that belong to a uuid."""
    inner = [value for value in body.values() if isinstance(value, dict)]
    return [item for each in (body, *inner) for item in each.items() if len(item[0]) == 36]


def _load_schema(app: Any, version: str) -> schemathesis.schemas.BaseSchema:
    """Load the document of a version, with hooks that use names of existing objects."""
    version_header = {"OpenStack-API-Version": f"placement {version}"}
    schema = schemathesis.openapi.from_wsgi(OPENAPI_PATH, app, headers=version_header)

    @schema.hook
    def flatmap_query(
        context: schemathesis.HookContext, query: Mapping[str, Any] | None
    ) -> st.SearchStrategy[Any]:
        values = {name: _build_value_strategy(name, value) for name, value in (query or {}).items()}
        random_query = st.fixed_dictionaries(values)
        candidates = context.operation.path == "/allocation_candidates"
        return GRANULAR_QUERIES | random_query if candidates else random_query

    @schema.hook
    def flatmap_path_parameters(
        _context: schemathesis.HookContext, names: Mapping[str, Any] | None
    ) -> st.SearchStrategy[Any]:
        existing = {"uuid": OBJECT_UUIDS, "consumer_uuid": OBJECT_UUIDS}
        values = {
            name: st.sampled_from(existing.get(name, RESOURCE_CLASS_NAMES + TRAIT_NAMES))
            | st.just(value)
            for name, value in (names or {}).items()
        }
        return st.fixed_dictionaries(values)

    @schema.hook
    def map_body(_context: schemathesis.HookContext, body: Any) -> Any:
        return _replace_names_by_existing_names(body)

    return schema


def _create_objects(client: Any) -> None:
    """Create providers with inventories, a tree and aggregates, unless they exist."""

    def send_request(method: str, path: str, body: Any = None) -> None:
        send_it = getattr(client, f"{method}_json")
        send_it(f"/placement/{path}", body, headers=LATEST_HEADERS, status="*")

    for name in RESOURCE_CLASS_NAMES[2:]:
        send_request("post", "resource_classes", {"name": name})
    for name in TRAIT_NAMES[1:]:
        client.put(f"/placement/traits/{name}", headers=LATEST_HEADERS)
    stock = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 4096}, "CUSTOM_LLAMA": {"total": 2}}
    for number, uuid in enumerate(OBJECT_UUIDS[:4]):
        path = f"resource_providers/{uuid}"
        parent = {"parent_provider_uuid": OBJECT_UUIDS[0]} if number == 1 else {}
        send_request(
            "post", "resource_providers", {"name": f"host{number}", "uuid": uuid, **parent}
        )
        for generation, (noun, items) in enumerate(
            (
                ("inventories", stock),
                ("traits", TRAIT_NAMES[: number + 1]),
                ("aggregates", OBJECT_UUIDS[:2]),
            )
        ):
            send_request(
                "put", f"{path}/{noun}", {"resource_provider_generation": generation, noun: items}
            )
    claim = {
        "allocations": {OBJECT_UUIDS[3]: {"resources": {"VCPU": 1}}},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    send_request("put", f"allocations/{OBJECT_UUIDS[4]}", claim)


@pytest.mark.property
@pytest.mark.parametrize("version", TESTED_VERSIONS)
def test_random_requests_of_each_operation_get_documented_responses(
    version, sqlite_settings, sqlite_app, request
):
    app = create_app(sqlite_settings)
    request.addfinalizer(app.close)
    schema = _load_schema(app, version)
    # Other versions have other documents, so the header does not change.
    headers = {
        "OpenStack-API-Version": f"placement {version}",
        "X-Auth-Token": "admin",
        "X-Roles": "admin,service",
    }
    called = set()
    for result in schema.get_all_operations():
        operation = result.ok()
        called.add(operation.label)
        _create_objects(sqlite_app)
        for mode in GenerationMode:
            _run_operation(
                operation,
                mode,
                headers,
                EXAMPLE_COUNTS_BY_VERSION.get(version, DEFAULT_EXAMPLE_COUNT),
                sqlite_app,
            )
    # schemathesis does not request the document itself.
    served = {
        f"{route.method} " + PARAMETER.sub(r"{\1}", route.path)
        for route in API.routes
        if route.serves(Version(*map(int, version.split("."))))
    }
    assert called == served - {"GET /openapi.json"}


def _run_operation(
    operation: Any, mode: GenerationMode, headers: Mapping[str, str], few: int, client: Any
) -> None:
    @hypothesis.settings(
        max_examples=scale_example_count(few),
        deadline=None,
        database=None,
        derandomize=not IS_EXPLORING,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def send_request(case: schemathesis.Case) -> None:
        _set_current_generations(client, case.path_parameters or {}, case.body)
        case.call_and_validate(headers=headers, checks=RESPONSE_CHECKS)

    try:
        send_request()
    except hypothesis.errors.Unsatisfiable:
        # An operation without parameters has no invalid request.
        assert mode == GenerationMode.NEGATIVE
