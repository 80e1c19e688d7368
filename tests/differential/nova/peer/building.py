# SPDX-License-Identifier: Apache-2.0
"""Nova's objects of a request, built as nova's API builds them."""

from contextlib import contextmanager

import nova.conf
from nova import objects
from nova.pci import request as pci_request
from nova.virt import hardware

INSTANCE_UUID = "5a5a5a5a-0000-4000-8000-000000000001"
_FLAVOR_DEFAULTS = {
    "id": 1,
    "flavorid": "1",
    "name": "m1",
    "root_gb": 0,
    "ephemeral_gb": 0,
    "swap": 0,
    "extra_specs": {},
}


@contextmanager
def override_options(options):
    conf = nova.conf.CONF
    pci_request.get_alias_from_config.cache_clear()
    names = {name: name.removeprefix("DEFAULT.").rpartition(".") for name in options}
    for name, (group, _, option) in names.items():
        conf.set_override(option, options[name], group or None)
    try:
        yield
    finally:
        for group, _, option in names.values():
            conf.clear_override(option, group or None)


def build_flavor(spec):
    return objects.Flavor(**{**_FLAVOR_DEFAULTS, **spec["flavor"]})


def build_image(spec):
    document = dict(spec.get("image") or {})
    document["properties"] = dict(document.get("properties") or {})
    return objects.ImageMeta.from_dict({"name": "image", **document})


def build_request(context, spec, flavor, image):
    level = spec.get("request_level_params") or {}
    built = objects.RequestSpec.from_components(
        context,
        instance_uuid=INSTANCE_UUID,
        image=image,
        flavor=flavor,
        numa_topology=_build_numa_topology(spec, flavor, image),
        pci_requests=_build_pci_requests(spec, flavor, image),
        filter_properties=_build_filter_properties(spec),
        instance_group=None,
        availability_zone=spec.get("availability_zone"),
        project_id=spec.get("project_id"),
        user_id=spec.get("user_id"),
        port_resource_requests=[
            _build_request_group(group) for group in spec.get("requested_resources") or ()
        ],
        request_level_params=objects.RequestLevelParams(
            root_required=set(level.get("root_required") or ()),
            root_forbidden=set(level.get("root_forbidden") or ()),
            same_subtree=level.get("same_subtree") or [],
        ),
    )
    built.is_bfv = bool(spec.get("is_bfv"))
    built.requested_networks = objects.NetworkRequestList(objects=[])
    return built


def _build_numa_topology(spec, flavor, image):
    return None if "numa_topology" in spec else hardware.numa_get_constraints(flavor, image)


def _build_pci_requests(spec, flavor, image):
    if "pci_requests" not in spec:
        policy = hardware.get_pci_numa_policy_constraint(flavor, image)
        return pci_request.get_pci_requests_from_flavor(flavor, affinity_policy=policy)
    requests = (spec["pci_requests"] or {}).get("requests", ())
    return objects.InstancePCIRequests(
        requests=[objects.InstancePCIRequest(**request) for request in requests]
    )


def _build_filter_properties(spec):
    names = ("ignore_hosts", "force_hosts", "force_nodes")
    hints = spec.get("scheduler_hints") or {}
    return {
        **{name: spec[name] for name in names if spec.get(name)},
        "scheduler_hints": hints,
        "requested_destination": _build_destination(spec.get("requested_destination")),
    }


def _build_destination(document):
    if document is None:
        return None
    fields = {key: value for key, value in document.items() if value is not None}
    if "forbidden_aggregates" in fields:
        fields["forbidden_aggregates"] = set(fields["forbidden_aggregates"])
    if "cell" in fields:
        fields["cell"] = objects.CellMapping(uuid=fields["cell"])
    return objects.Destination(**fields)


def _build_request_group(document):
    fields = {key: value for key, value in document.items() if value is not None}
    for key in ("required_traits", "forbidden_traits", "forbidden_aggregates"):
        if key in fields:
            fields[key] = set(fields[key])
    if "aggregates" in fields:
        fields["aggregates"] = [joined.split(",") for joined in fields["aggregates"]]
    return objects.RequestGroup(**fields)
