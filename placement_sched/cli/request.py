"""The request of ``select`` and ``explain``: from a file, or from a few flags."""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

from placement_sched.api.scheduler.schemas.request_spec import MOST_INSTANCES
from placement_sched.errors import Invalid

Json = dict[str, Any]


def add_request_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the request file and the flags that stand for one."""
    parser.add_argument(
        "request",
        metavar="REQUEST.json",
        nargs="?",
        help="the request as select_destinations takes it, or its request_spec alone; - is stdin",
    )
    flags = parser.add_argument_group("instead of a file")
    flags.add_argument(
        "--flavor", metavar="FLAVOR", help="id or name of a flavor that is kept here"
    )
    flags.add_argument("--flavor-json", metavar="FILE", help="the flavor as JSON; - is stdin")
    flags.add_argument("--vcpus", type=int, metavar="N", help="virtual CPUs of the flavor")
    flags.add_argument("--ram", type=int, metavar="MIB", help="memory of the flavor in MiB")
    flags.add_argument("--disk", type=int, metavar="GIB", help="root disk of the flavor in GiB")
    flags.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="extra spec of the flavor, such as trait:HW_CPU_X86_AVX2=required; repeatable",
    )
    flags.add_argument("--image", metavar="IMAGE", help="id or name of an image that is kept here")
    flags.add_argument(
        "--image-property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="property of the image; repeatable",
    )
    flags.add_argument("--count", type=int, metavar="N", help="how many instances (default: 1)")
    flags.add_argument("--zone", help="availability zone")
    flags.add_argument("--project", metavar="ID", help="id of the project that asks")
    flags.add_argument(
        "--hint",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="scheduler hint, such as sched_policy=NAME; repeatable",
    )


def request_body(arguments: argparse.Namespace) -> Json:
    """Return the body for ``POST /select_destinations``.

    Raises :class:`Invalid` for a file that is no JSON object and for flags that contradict.
    """
    flags = _flags_given(arguments)
    if arguments.request is None and not flags:
        raise Invalid("name a REQUEST.json, or say what is asked with --vcpus, --ram and --disk")
    if arguments.request is not None and flags:
        raise Invalid(f"{flags[0]} cannot be given with a request file")
    if arguments.request is None:
        return {"request_spec": _spec_of_flags(arguments)}
    document = _read_object(arguments.request)
    return document if "request_spec" in document else {"request_spec": document}


def with_instances(body: Json) -> Json:
    """Return ``body`` with an instance uuid for each instance, made up where it names none."""
    spec = body["request_spec"]
    if not isinstance(spec, dict) or spec.get("instance_uuids"):
        return body
    count = spec.get("num_instances", 1)
    if not isinstance(count, int) or not 0 < count <= MOST_INSTANCES:
        return body  # the answer will tell what is wrong with it
    uuids = [str(uuid4()) for _ in range(count)]
    return {**body, "request_spec": {**spec, "instance_uuids": uuids}}


def pairs(texts: Iterable[str], flag: str) -> dict[str, str]:
    """Return ``KEY=VALUE`` texts as a mapping; raise :class:`Invalid` for one without ``=``."""
    found = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise Invalid(f"{flag} {text}: KEY=VALUE is wanted")
        found[key] = value
    return found


def _flags_given(arguments: argparse.Namespace) -> list[str]:
    names = (
        *("flavor", "flavor_json", "vcpus", "ram", "disk", "property"),
        *("image", "image_property", "count", "zone", "project", "hint"),
    )
    return [
        f"--{name.replace('_', '-')}"
        for name in names
        if getattr(arguments, name) not in (None, [])
    ]


def _spec_of_flags(arguments: argparse.Namespace) -> Json:
    spec: Json = {"num_instances": 1 if arguments.count is None else arguments.count}
    spec["flavor"] = _flavor(arguments)
    if arguments.image is not None and arguments.image_property:
        raise Invalid("--image names an image; --image-property cannot describe another as well")
    if arguments.image is not None:
        spec["image"] = arguments.image
    if arguments.image_property:
        spec["image"] = {"properties": pairs(arguments.image_property, "--image-property")}
    if arguments.zone:
        spec["availability_zone"] = arguments.zone
    if arguments.project:
        spec["project_id"] = arguments.project
    if arguments.hint:
        spec["scheduler_hints"] = pairs(arguments.hint, "--hint")
    return spec


def _flavor(arguments: argparse.Namespace) -> Json | str:
    if arguments.flavor is not None:
        others = (arguments.flavor_json, arguments.vcpus, arguments.ram, arguments.disk)
        if arguments.property or any(other is not None for other in others):
            raise Invalid("--flavor names a flavor; other flags cannot describe one as well")
        return str(arguments.flavor)
    extra_specs = pairs(arguments.property, "--property")
    if arguments.flavor_json is not None:
        sizes = (arguments.vcpus, arguments.ram, arguments.disk)
        if any(size is not None for size in sizes):
            raise Invalid("--flavor-json gives the sizes; --vcpus, --ram, --disk cannot as well")
        flavor = _read_object(arguments.flavor_json)
        return {**flavor, "extra_specs": {**flavor.get("extra_specs", {}), **extra_specs}}
    return {
        "name": "from-command-line",
        "vcpus": 1 if arguments.vcpus is None else arguments.vcpus,
        "memory_mb": 512 if arguments.ram is None else arguments.ram,
        "root_gb": 0 if arguments.disk is None else arguments.disk,
        "ephemeral_gb": 0,
        "swap": 0,
        "extra_specs": extra_specs,
    }


def _read_object(name: str) -> Json:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        document = json.loads(text)
    except OSError as failure:
        raise Invalid(f"{name}: {failure.strerror}") from None
    except ValueError as wrong:
        raise Invalid(f"{name}: not JSON: {wrong}") from None
    if not isinstance(document, dict):
        raise Invalid(f"{name}: a JSON object is wanted")
    return document
