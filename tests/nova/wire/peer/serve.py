# SPDX-License-Identifier: Apache-2.0
"""Nova's objects and its serializer, asked by lines of JSON; run in nova's own environment."""

import json
import logging
import sys
import tempfile
import warnings
from random import Random

warnings.simplefilter("ignore")

import held  # noqa: E402
import nova.conf  # noqa: E402
from drawing import ObjectGenerator  # noqa: E402
from nova import context, exception, objects, rpc, version  # noqa: E402
from nova.objects import base  # noqa: E402
from nova.scheduler import utils as scheduler_utils  # noqa: E402
from nova.scheduler.rpcapi import SchedulerAPI  # noqa: E402
from oslo_messaging._drivers import common  # noqa: E402
from oslo_serialization import jsonutils  # noqa: E402
from oslo_versionedobjects import base as versioned  # noqa: E402

CONF = nova.conf.CONF
OPTIONS = """
[DEFAULT]
transport_url = {url}
control_exchange = {exchange}
long_rpc_timeout = 60
"""
LIMITS = ("vcpu", "memory_mb", "disk_gb")
SERIALIZER = base.NovaObjectSerializer()


def over_the_wire(entity):
    return json.loads(jsonutils.dumps(SERIALIZER.serialize_entity(None, entity)))


def specs(seed, number):
    drawing = ObjectGenerator(Random(seed))
    drawn = [drawing.spec() for _ in range(number)]
    return [{"primitive": over_the_wire(one), "held": held.spec_fields(one)} for one in drawn]


def images(seed, number):
    drawing = ObjectGenerator(Random(seed))
    found = []
    for _ in range(number):
        raw = drawing.raw_image()
        image = objects.ImageMeta.from_dict(raw)
        found.append(
            {"raw": raw, "primitive": over_the_wire(image), "held": held.image_fields(image)}
        )
    return found


def older(seed, number):
    drawing = ObjectGenerator(Random(seed))
    newest = versioned.obj_tree_get_versions("RequestSpec")
    found = []
    for _ in range(number):
        spec = drawing.spec()
        for less in range(1, 46):
            manifest = {
                # An older ComputeNode is one that asks a database for its host.
                name: version if name.startswith("ComputeNode") else _lower(version, less)
                for name, version in newest.items()
            }
            try:
                primitive = spec.obj_to_primitive(manifest["RequestSpec"], manifest)
            except exception.ObjectActionError:
                continue  # a value that is newer than that
            read = base.NovaObject.obj_from_primitive(json.loads(jsonutils.dumps(primitive)))
            found.append(
                {
                    "versions": manifest,
                    "primitive": json.loads(jsonutils.dumps(primitive)),
                    "held": held.spec_fields(read),
                }
            )
    return found


def instances(seed, number):
    drawing = ObjectGenerator(Random(seed))
    drawn = [drawing.instance() for _ in range(number)]
    listed = objects.InstanceList(objects=drawn)
    return {
        "primitive": over_the_wire(listed),
        "held": [held.instance_fields(one) for one in drawn],
    }


def recorded():
    drawing = ObjectGenerator(Random(1))
    drawn = [drawing.spec() for _ in range(200)]
    spec = drawn[0]
    for name in spec.fields:
        values = [getattr(one, name) for one in drawn if one.obj_attr_is_set(name)]
        # The one with most in it, of the first few: the file is to stay small.
        if values := [one for one in values if one][:12]:
            setattr(spec, name, max(values, key=lambda one: len(str(over_the_wire(one)))))
    listed = objects.InstanceList(objects=[drawing.instance(), drawing.instance()])
    return {
        "spec": over_the_wire(spec),
        "spec_held": held.spec_fields(spec),
        "aggregate": over_the_wire(drawing.aggregate()),
        "instances": over_the_wire(listed),
    }


def selections(primitives, requester_ids):
    read = SERIALIZER.deserialize_entity(None, primitives)
    found = []
    for one in (one for some in read for one in some):
        groups = [objects.RequestGroup(requester_id=each) for each in requester_ids]
        spec = objects.RequestSpec(requested_resources=groups)
        if one.allocation_request_version is not None:
            scheduler_utils.fill_provider_mapping(spec, one)
        names = [name for name in one.fields if name != "limits" and name in one]
        numa = one.limits.numa_topology
        found.append(
            {
                "fields": {name: getattr(one, name) for name in names},
                "limits": {name: getattr(one.limits, name) for name in LIMITS},
                "numa": numa and held.numa_limits_fields(numa),
                "legacy": jsonutils.to_primitive(one.to_dict()),
                "providers": [group.provider_uuids for group in spec.requested_resources],
                "sent_again": over_the_wire(one),
            }
        )
    return found


def raised(told):
    return describe_exception(common.deserialize_remote_exception(told, rpc.get_allowed_exmods()))


def describe_exception(failure):
    nova_own = isinstance(failure, exception.NovaException)
    first = str(failure.args[0]) if failure.args else ""
    return {
        "classes": [f"{kind.__module__}.{kind.__name__}" for kind in type(failure).__mro__],
        "words": failure.format_message() if nova_own else first,
        "text": str(failure).splitlines()[0],
        "kwargs": failure.kwargs if nova_own else {},
    }


def call(url, exchange, seed, cap=None):
    _connect(url, exchange)
    CONF.set_override("scheduler", cap, group="upgrade_levels")
    spec = ObjectGenerator(Random(seed)).spec()
    whose = context.RequestContext("u", "p")
    try:
        found = SchedulerAPI().select_destinations(
            whose, spec, [spec.instance_uuid], return_objects=cap is None
        )
    except Exception as failure:  # noqa: BLE001 - it is told
        return describe_exception(failure) | {"held": held.spec_fields(spec)}
    if cap is not None:
        return {"legacy": found, "held": held.spec_fields(spec)}
    hosts = [[one.service_host for one in some] for some in found]
    return {"hosts": hosts, "held": held.spec_fields(spec)}


def announce(url, exchange, seed):
    _connect(url, exchange)
    drawing = ObjectGenerator(Random(seed))
    CONF.set_override("scheduler", None, group="upgrade_levels")
    client, whose = SchedulerAPI(), context.RequestContext("u", "p")
    aggregate, instance = drawing.aggregate(), drawing.instance()
    client.update_aggregates(whose, [aggregate])
    client.delete_aggregate(whose, aggregate)
    client.update_instance_info(whose, "cn1", objects.InstanceList(objects=[instance]))
    return {"aggregate": aggregate.uuid, "instance": instance.uuid}


def _connect(url, exchange):
    if rpc.TRANSPORT is None:
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write(OPTIONS.format(url=url, exchange=exchange))
            file.flush()
            CONF([], project="nova", default_config_files=[file.name])
        rpc.init(CONF)


def _lower(version, less):
    major, minor = map(int, version.split("."))
    return f"{major}.{max(0, minor - less)}"


def versions():
    trees = ("RequestSpec", "Selection", "Aggregate", "InstanceList")
    return {tree: versioned.obj_tree_get_versions(tree) for tree in trees}


def release():
    return int(version.version_string().partition(".")[0])


def fields(name):
    return sorted(getattr(objects, name).fields)


def aggregates(seed, number):
    drawing = ObjectGenerator(Random(seed))
    drawn = [drawing.aggregate() for _ in range(number)]
    return [
        {"primitive": over_the_wire(one), "held": {n: getattr(one, n) for n in HELD if n in one}}
        for one in drawn
    ]


HELD = ("id", "uuid", "name", "hosts", "metadata")


def write_answer(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main():
    logging.disable(logging.CRITICAL)
    objects.register_all()
    write_answer("ready")
    for line in sys.stdin:
        name, arguments = json.loads(line)
        answer = globals()[name](*arguments)
        write_answer(jsonutils.dumps(answer))


main()
