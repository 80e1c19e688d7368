# SPDX-License-Identifier: Apache-2.0
"""Runs nova's request filters and its translation of a request into a candidates query.

A result has a ``query``, and a ``fallback`` if nova sends a second query with shared CPUs in place
of pinned CPUs. After an exception it has ``error``, the class and the message. ``api_rejection`` is
null, or the exception of nova's API for the same flavor and image, with ``keys`` of extra specs.
"""

from functools import partial

import building
import nova.conf
from facts import FakeNovaData
from nova import context as nova_context
from nova.api.validation.extra_specs import validators
from nova.compute import api
from nova.scheduler import request_filter, utils

CONF = nova.conf.CONF


class NovaCaller:
    """Nova's functions, with the options and the cloud of each request."""

    def __init__(self):
        self._context = nova_context.RequestContext("u1", "p1")

    def run_case(self, case):
        with building.override_options(case["options"]):
            result = _get_result_or_failure(
                lambda: self._build_queries(case), lambda error: {"error": error}
            )
            rejection = _get_result_or_failure(
                lambda: _check_request_spec(case["request_spec"]), dict
            )
            return {**result, "api_rejection": rejection}

    def _build_queries(self, case):
        spec, facts = case["request_spec"], FakeNovaData(case)
        flavor, image = building.build_flavor(spec), building.build_image(spec)
        request = building.build_request(self._context, spec, flavor, image)
        with facts.patch_aggregates(), facts.patch_service_version():
            request_filter.process_reqspec(self._context, request)
            first = utils.resources_from_request_spec(self._context, request, facts)
            result = {"query": first.to_querystring()}
            if first.cpu_pinning_requested and not CONF.workarounds.disable_fallback_pcpu_query:
                second = utils.resources_from_request_spec(
                    self._context, request, facts, enable_pinning_translate=False
                )
                result["fallback"] = second.to_querystring()
            return result


def _check_request_spec(spec):
    rejections = {}
    for key, value in spec["flavor"].get("extra_specs", {}).items():
        rejection = _get_result_or_failure(partial(validators.validate, key, value), dict)
        if rejection:
            rejections[key] = rejection
    if rejections:
        return {**next(iter(rejections.values())), "keys": sorted(rejections)}
    image = dict(spec.get("image") or {})
    image["properties"] = dict(image.get("properties") or {})
    image.setdefault("name", "image")
    api.API._validate_flavor_image_numa_pci(image, building.build_flavor(spec))
    return None


def _get_result_or_failure(run, describe):
    try:
        return run()
    except Exception as failure:  # noqa: BLE001 - any exception of nova is a result
        return describe({"class": type(failure).__name__, "message": str(failure)})
