# SPDX-License-Identifier: Apache-2.0
"""Nova's objects and serializer in nova's environment, called with lines of JSON."""

import json
import logging
import sys
import warnings
from random import Random

warnings.simplefilter("ignore")

from drawing import ObjectGenerator  # noqa: E402
from nova import exception, objects, rpc, version  # noqa: E402
from nova.objects import base  # noqa: E402
from nova.scheduler import utils as scheduler_utils  # noqa: E402
from object_fields import list_image_fields, list_numa_limits_fields, list_spec_fields  # noqa: E402
from oslo_messaging._drivers import common  # noqa: E402
from oslo_serialization import jsonutils  # noqa: E402
from oslo_versionedobjects import base as versioned  # noqa: E402

LIMIT_FIELDS = ("vcpu", "memory_mb", "disk_gb")
OBJECT_SERIALIZER = base.NovaObjectSerializer()


def serialize(entity):
    return json.loads(jsonutils.dumps(OBJECT_SERIALIZER.serialize_entity(None, entity)))


def draw_request_specs(seed, number):
    generator = ObjectGenerator(Random(seed))
    drawn = [generator.draw_request_spec() for _ in range(number)]
    return [{"primitive": serialize(spec), "held": list_spec_fields(spec)} for spec in drawn]


def draw_images(seed, number):
    generator = ObjectGenerator(Random(seed))
    rows = []
    for _ in range(number):
        raw = generator.draw_raw_image()
        image = objects.ImageMeta.from_dict(raw)
        rows.append({"raw": raw, "primitive": serialize(image), "held": list_image_fields(image)})
    return rows


def draw_older_request_specs(seed, number):
    generator = ObjectGenerator(Random(seed))
    newest = versioned.obj_tree_get_versions("RequestSpec")
    rows = []
    for _ in range(number):
        spec = generator.draw_request_spec()
        for less in range(1, 46):
            manifest = {
                # A ComputeNode of an older version would read a database.
                name: version
                if name.startswith("ComputeNode")
                else _lower_minor_version(version, less)
                for name, version in newest.items()
            }
            try:
                primitive = spec.obj_to_primitive(manifest["RequestSpec"], manifest)
            except exception.ObjectActionError:
                continue  # the version has no field for a value
            read = base.NovaObject.obj_from_primitive(json.loads(jsonutils.dumps(primitive)))
            rows.append(
                {
                    "versions": manifest,
                    "primitive": json.loads(jsonutils.dumps(primitive)),
                    "held": list_spec_fields(read),
                }
            )
    return rows


def draw_notified_objects(seed, number):
    generator = ObjectGenerator(Random(seed))
    aggregates = [generator.draw_aggregate() for _ in range(number)]
    instances = [generator.draw_instance() for _ in range(number)]
    return {
        "aggregates": [serialize(aggregate) for aggregate in aggregates],
        "ids": [aggregate.id for aggregate in aggregates],
        "instances": serialize(objects.InstanceList(objects=instances)),
        "uuids": [instance.uuid for instance in instances],
    }


def draw_recorded_objects():
    generator = ObjectGenerator(Random(1))
    drawn = [generator.draw_request_spec() for _ in range(200)]
    spec = drawn[0]
    for name in spec.fields:
        values = [getattr(each, name) for each in drawn if each.obj_attr_is_set(name)]
        # The largest of a few values, to keep the file small.
        if values := [value for value in values if value][:12]:
            setattr(spec, name, max(values, key=lambda value: len(str(serialize(value)))))
    listed = objects.InstanceList(objects=[generator.draw_instance(), generator.draw_instance()])
    return {
        "spec": serialize(spec),
        "spec_held": list_spec_fields(spec),
        "aggregate": serialize(generator.draw_aggregate()),
        "instances": serialize(listed),
    }


def describe_selections(primitives, requester_ids):
    lists = OBJECT_SERIALIZER.deserialize_entity(None, primitives)
    rows = []
    for selection in (each for selections in lists for each in selections):
        groups = [objects.RequestGroup(requester_id=each) for each in requester_ids]
        spec = objects.RequestSpec(requested_resources=groups)
        if selection.allocation_request_version is not None:
            scheduler_utils.fill_provider_mapping(spec, selection)
        names = [name for name in selection.fields if name != "limits" and name in selection]
        numa = selection.limits.numa_topology
        rows.append(
            {
                "fields": {name: getattr(selection, name) for name in names},
                "limits": {name: getattr(selection.limits, name) for name in LIMIT_FIELDS},
                "numa": numa and list_numa_limits_fields(numa),
                "legacy": jsonutils.to_primitive(selection.to_dict()),
                "providers": [group.provider_uuids for group in spec.requested_resources],
                "sent_again": serialize(selection),
            }
        )
    return rows


def describe_remote_exception(text):
    return describe_exception(common.deserialize_remote_exception(text, rpc.get_allowed_exmods()))


def describe_exception(failure):
    nova_own = isinstance(failure, exception.NovaException)
    first = str(failure.args[0]) if failure.args else ""
    return {
        "classes": [f"{kind.__module__}.{kind.__name__}" for kind in type(failure).__mro__],
        "words": failure.format_message() if nova_own else first,
        "text": str(failure).splitlines()[0],
        "kwargs": failure.kwargs if nova_own else {},
    }


def _lower_minor_version(version, less):
    major, minor = map(int, version.split("."))
    return f"{major}.{max(0, minor - less)}"


def list_object_versions():
    trees = ("RequestSpec", "Selection", "Aggregate", "InstanceList")
    return {tree: versioned.obj_tree_get_versions(tree) for tree in trees}


def get_nova_release():
    return int(version.version_string().partition(".")[0])


def list_field_names(name):
    return sorted(getattr(objects, name).fields)


def write_response(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main():
    logging.disable(logging.CRITICAL)
    objects.register_all()
    write_response("ready")
    for line in sys.stdin:
        name, arguments = json.loads(line)
        result = globals()[name](*arguments)
        write_response(jsonutils.dumps(result))


main()
