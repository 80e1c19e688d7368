# SPDX-License-Identifier: Apache-2.0
"""Runs nova's request filters and its translation into a query.

An answer has ``query`` and, where nova asks a second time with pinned CPUs for shared ones,
``fallback``; or ``error``, the class and the message of what was raised. ``unsaid`` is what nova's
API says of the same flavor and image before any of this: what it never lets in, alike, with the
``keys`` of extra specs, or null.
"""

import warnings
from contextlib import contextmanager
from functools import partial

import building
import nova.conf
from facts import Facts
from nova import context as nova_context
from nova import objects
from nova.api.validation.extra_specs import validators
from nova.compute import api
from nova.pci import request as pci_request
from nova.scheduler import request_filter, utils

CONF = nova.conf.CONF


class Nova:
    """Nova's functions, each request under its own options and facts."""

    def __init__(self):
        CONF([], project="nova", default_config_files=[])
        objects.register_all()
        warnings.simplefilter("ignore")
        self._context = nova_context.RequestContext("u1", "p1")

    def answer(self, told):
        with _option_overrides(told["options"]):
            answer = _result_or_failure(lambda: self._queries(told), lambda told: {"error": told})
            unsaid = _result_or_failure(lambda: _check_request_spec(told["request_spec"]), dict)
            return {**answer, "unsaid": unsaid}

    def _queries(self, told):
        spec, facts = told["request_spec"], Facts(told)
        flavor, image = building.flavor_of(spec), building.image_of(spec)
        request = building.request_of(self._context, spec, flavor, image)
        with facts.patched_aggregates(), facts.patched_service_version():
            request_filter.process_reqspec(self._context, request)
            first = utils.resources_from_request_spec(self._context, request, facts)
            answer = {"query": first.to_querystring()}
            if first.cpu_pinning_requested and not CONF.workarounds.disable_fallback_pcpu_query:
                second = utils.resources_from_request_spec(
                    self._context, request, facts, enable_pinning_translate=False
                )
                answer["fallback"] = second.to_querystring()
            return answer


def _check_request_spec(spec):
    rejections = {}
    for key, value in spec["flavor"].get("extra_specs", {}).items():
        rejection = _result_or_failure(partial(validators.validate, key, value), dict)
        if rejection:
            rejections[key] = rejection
    if rejections:
        return {**next(iter(rejections.values())), "keys": sorted(rejections)}
    image = dict(spec.get("image") or {})
    image["properties"] = dict(image.get("properties") or {})
    image.setdefault("name", "image")
    api.API._validate_flavor_image_numa_pci(image, building.flavor_of(spec))
    return None


def _result_or_failure(run, tell):
    try:
        return run()
    except Exception as failure:  # noqa: BLE001 - whatever nova raises is what is asked
        return tell({"class": type(failure).__name__, "message": str(failure)})


@contextmanager
def _option_overrides(told):
    pci_request.get_alias_from_config.cache_clear()
    for name, value in told.items():
        group, _, option = name.rpartition(".")
        CONF.set_override(option, value, group or None)
    try:
        yield
    finally:
        for name in told:
            group, _, option = name.rpartition(".")
            CONF.clear_override(option, group or None)
