# SPDX-License-Identifier: Apache-2.0
"""Routes of resource providers.

Source: Placement API reference, "Resource providers".
"""

from typing import Any
from uuid import uuid4

import orjson

from placement_sched.api import placement
from placement_sched.api.placement import INTEGER, TEXT, UUID, UUID_OR_NULL, build_strict_object
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.query_params import (
    parse_member_of,
    parse_resources,
    parse_traits,
)
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint, run_in_transaction
from placement_sched.api.validation import REPEATED, Schemas
from placement_sched.api.versions import Version
from placement_sched.db.transaction import Connection
from placement_sched.model.document import Json
from placement_sched.model.names import canonicalize_uuid
from placement_sched.model.provider import Provider
from placement_sched.operations import reports
from placement_sched.schemas.parts import PROVIDER_NAME, build_object_schema
from placement_sched.store.placement import provider_search, resource_providers
from placement_sched.store.placement.provider_search import ProviderQuery

#: Relations of the links of a provider, in this order, and the version that added each.
_LINKS = (
    ("inventories", mv.OLDEST),
    ("usages", mv.OLDEST),
    ("aggregates", mv.PROVIDER_AGGREGATES),
    ("traits", mv.TRAITS),
    ("allocations", mv.ALLOCATIONS_LINK),
)
#: Placeholder of the uuid in the rendered links.
_PLACEHOLDER = "{uuid}"

blueprint = Blueprint("resource_providers", __name__)

_COLLECTION_PATH = "/resource_providers"
_ITEM_PATH = "/resource_providers/<uuid>"
_POLICY = "placement:resource_providers"

# A uuid in a query must have hyphens. Error messages contain this pattern.
_HYPHENATED = {
    "type": "string",
    "pattern": "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
}
_TEXTS = {**TEXT, REPEATED: True}
_PARENT = {"parent_provider_uuid": UUID_OR_NULL}


def _build_body_schemas(**properties: Json) -> Schemas:
    return Schemas(
        (mv.OLDEST, build_object_schema(properties, "name")),
        (mv.NESTED_PROVIDERS, build_object_schema({**properties, **_PARENT}, "name")),
    )


# Only PUT accepts an empty name.
POST = _build_body_schemas(name={**PROVIDER_NAME, "minLength": 1}, uuid=UUID)

PUT = _build_body_schemas(name=PROVIDER_NAME)

LIST = Schemas(
    *(
        (since, build_object_schema(parameters))
        for since, parameters in placement.merge_by_version(
            (mv.OLDEST, {"name": TEXT, "uuid": _HYPHENATED}),
            (mv.MEMBER_OF_ON_PROVIDERS, {"member_of": TEXT}),
            (mv.RESOURCES_ON_PROVIDERS, {"resources": TEXT}),
            (mv.NESTED_PROVIDERS, {"in_tree": _HYPHENATED}),
            (mv.REQUIRED_ON_PROVIDERS, {"required": TEXT}),
            (mv.REPEATED_MEMBER_OF, {"member_of": _TEXTS}),
            (mv.ANY_TRAITS, {"required": _TEXTS}),
        )
    )
)


def _build_provider_schema(since: Version) -> Json:
    relations = (rel for rel, first_version in _LINKS if since.has(first_version))
    tree = {**_PARENT, "root_provider_uuid": UUID} if since.has(mv.NESTED_PROVIDERS) else {}
    links = placement.build_links_schema("self", *relations)
    return build_strict_object(uuid=UUID, name=TEXT, generation=INTEGER, links=links, **tree)


_CHANGED_IN = {added for _, added in _LINKS} | {mv.NESTED_PROVIDERS}
_PROVIDERS = {since: _build_provider_schema(since) for since in _CHANGED_IN}
_LISTS = {since: placement.build_unique_list(schema) for since, schema in _PROVIDERS.items()}

RESPONSE = Schemas(*_PROVIDERS.items())

LIST_RESPONSE = Schemas(
    *((since, build_strict_object(resource_providers=items)) for since, items in _LISTS.items())
)


@blueprint.get(_COLLECTION_PATH, policy=f"{_POLICY}:list", query=LIST, response=LIST_RESPONSE)
def index(call: ApiCall) -> ApiResponse:
    """List the providers that match the query."""
    resources = call.find_value("resources")
    query = ProviderQuery(
        name=call.find_value("name"),
        uuid=call.find_value("uuid"),
        in_tree=call.find_value("in_tree"),
        # The order of the parsers is OpenStack placement's, so that the same error is reported.
        aggregates=parse_member_of(call.list_values("member_of"), call.version),
        traits=parse_traits(call.list_values("required"), call.version),
        resources={} if resources is None else parse_resources(resources),
    )
    providers, links = call.read(provider_search.search, query), _render_links(call)
    documents = [_as_document(call, provider, links) for provider in providers]
    return placement.with_last_modified(call, {"resource_providers": documents}, providers)


@blueprint.post(
    _COLLECTION_PATH,
    policy=f"{_POLICY}:create",
    until=mv.POST_PROVIDER_BODY.previous,
    body=POST,
    success=(201,),
    errors=(409,),
    located=True,
)
@blueprint.post(
    _COLLECTION_PATH,
    policy=f"{_POLICY}:create",
    since=mv.POST_PROVIDER_BODY,
    body=POST,
    errors=(409,),
    located=True,
    response=RESPONSE,
)
def create(call: ApiCall) -> ApiResponse:
    """Create a provider, in the tree of its parent if it has a parent.

    The root provider of a compute node is added to the aggregates of its host.
    """
    provider = call.write(
        reports.create,
        uuid=canonicalize_uuid(call.body["uuid"]) if "uuid" in call.body else str(uuid4()),
        name=call.body["name"],
        parent_uuid=call.body.get("parent_provider_uuid"),
        now=call.read_clock(),
    )
    headers = {"Location": f"{call.url}/resource_providers/{provider.uuid}"}
    if not call.version.has(mv.POST_PROVIDER_BODY):
        return ApiResponse(status=201, headers=headers)
    return _build_response(call, provider, headers=headers)


@blueprint.get(_ITEM_PATH, policy=f"{_POLICY}:show", response=RESPONSE)
def show(call: ApiCall, uuid: str) -> ApiResponse:
    """Show a provider."""
    return _build_response(call, call.read(resource_providers.get_by_uuid, uuid))


@blueprint.put(
    _ITEM_PATH,
    policy=f"{_POLICY}:update",
    body=PUT,
    subject=placement.require_provider,
    errors=(409,),
    response=RESPONSE,
)
@run_in_transaction
def update(call: ApiCall, connection: Connection, uuid: str) -> ApiResponse:
    """Rename a provider and, from 1.14 on, move it to another parent."""
    if "parent_provider_uuid" in call.body:
        parent, can_reparent = call.body["parent_provider_uuid"], call.version.has(mv.REPARENTING)
        resource_providers.move(
            connection, uuid, parent, anywhere=can_reparent, now=call.read_clock()
        )
    provider = resource_providers.lock_by_uuid(connection, uuid)
    resource_providers.rename(connection, provider, name=call.body["name"], now=call.read_clock())
    return _build_response(call, resource_providers.get_by_uuid(connection, uuid))


@blueprint.delete(_ITEM_PATH, policy=f"{_POLICY}:delete", success=(204,), errors=(409,))
def remove(call: ApiCall, uuid: str) -> ApiResponse:
    """Delete a provider, its inventories, traits and aggregate memberships."""
    call.write(resource_providers.remove, uuid)
    return ApiResponse(status=204)


def _build_response(call: ApiCall, provider: Provider, **response_fields: Any) -> ApiResponse:
    return placement.with_last_modified(
        call, _as_document(call, provider, _render_links(call)), [provider], **response_fields
    )


def _render_links(call: ApiCall) -> str:
    """Render the links of a provider as JSON, with a placeholder for the uuid."""
    path = f"{call.base}/resource_providers/{_PLACEHOLDER}"
    relations = [
        {"rel": rel, "href": f"{path}/{rel}"} for rel, since in _LINKS if call.version.has(since)
    ]
    return orjson.dumps([{"rel": "self", "href": path}, *relations]).decode()


def _as_document(call: ApiCall, provider: Provider, links: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": provider.generation,
        # Rendered once, since links are the largest part of a long list.
        "links": orjson.Fragment(links.replace(_PLACEHOLDER, provider.uuid)),
    }
    if call.version.has(mv.NESTED_PROVIDERS):
        document["parent_provider_uuid"] = provider.parent_uuid
        document["root_provider_uuid"] = provider.root_uuid
    return document
