# SPDX-License-Identifier: Apache-2.0
"""Runs nova's host filters and weighers on hosts.

A result has these keys. ``filters``: the verdict of each filter on each host, by class name.
``chain``: the hosts that pass the filters of the case in sequence. ``weighed``: the weighed hosts.
``weighers``: ``raw``, ``normalized`` and ``multipliers`` of each weigher, by class name.
``weights``: hosts with their weights, best first. ``rounds``: for each instance of the request,
the hosts that are ``left``, their ``weights``, and the ``chosen`` host. Hosts are numbers, their
places in the case. The text of an exception replaces a value.
"""

import math
from datetime import datetime
from unittest import mock

import building
import states
from nova import context as nova_context
from nova import objects, weights
from nova.scheduler import manager
from nova.scheduler.filters import HostFilterHandler
from nova.scheduler.weights import HostWeightHandler
from oslo_utils import timeutils


class NovaCaller:
    """Nova's filters and weighers, with the options of each case."""

    def __init__(self):
        self._context = nova_context.RequestContext("u1", "p1")
        self._filters = HostFilterHandler()
        self._weighers = HostWeightHandler()
        # Nova searches its folders in each call, so the result is kept.
        self._filter_classes = _index_by_name(self._filters.get_all_classes())
        self._weigher_classes = _index_by_name(self._weighers.get_all_classes())

    def run_case(self, case):
        if "classes" in case:
            return {"filters": [*self._filter_classes], "weighers": [*self._weigher_classes]}
        timeutils.set_time_override(datetime.fromisoformat(case["now"]))
        with (
            building.override_options(case["options"]),
            mock.patch.object(objects.CellMapping, "get_by_uuid"),
            mock.patch.object(nova_context, "target_cell"),
        ):
            hosts = states.build_host_states(case)
            request = _get_result_or_failure(lambda: self._build_request(case))
            if isinstance(request, str):
                return _build_result_with_all_rejected(case, request, len(hosts))
            filters = _create_plugins(self._filter_classes, case["filters"])
            result = {
                "filters": {
                    name: [self._find_verdict(plugin, host, request) for host in hosts]
                    for name, plugin in filters.items()
                }
            }
            chain = [filters[name] for name in case["chain"]]
            result["chain"] = _get_result_or_failure(
                lambda: self._list_passing_host_numbers(chain, hosts, request)
            )
            chosen = result["chain"] if isinstance(result["chain"], list) else []
            result["weighed"] = chosen or list(range(len(hosts)))
            left = [hosts[place] for place in result["weighed"]]
            result |= self._weigh_hosts(left, request, case["weighers"], result["weighed"])
            return {**result, "rounds": [*self._run_selection_rounds(case)]}

    def _build_request(self, case):
        spec = case["request_spec"]
        flavor, image = building.build_flavor(spec), building.build_image(spec)
        request = building.build_request(self._context, spec, flavor, image)
        if spec.get("instance_group"):
            request.instance_group = states.build_instance_group(spec["instance_group"])
            # Nova's API makes instances members before it calls the scheduler.
            request.instance_group.members.extend(spec["instance_uuids"])
        return request

    def _find_verdict(self, plugin, host, request):
        return _get_result_or_failure(
            lambda: bool(self._filters.get_filtered_objects([plugin], [host], request))
        )

    def _list_passing_host_numbers(self, chain, hosts, request):
        left = self._filters.get_filtered_objects(chain, hosts, request)
        return [place for place, host in enumerate(hosts) if any(host is passed for passed in left)]

    def _weigh_hosts(self, hosts, request, names, places):
        by_name = _create_plugins(self._weigher_classes, names)
        return {
            "weighers": {
                name: _get_result_or_failure(
                    lambda plugin=plugin: self._compute_weights(plugin, hosts, request)
                )
                for name, plugin in by_name.items()
            },
            "weights": _get_result_or_failure(
                lambda: self._sort_by_weight([*by_name.values()], hosts, request, places)
            ),
        }

    def _compute_weights(self, weigher, hosts, request):
        handled = [self._weighers.object_class(host, 0.0) for host in hosts]
        raw = list(weigher.weigh_objects(handled, request))
        return {
            "raw": raw,
            "normalized": list(weights.normalize(raw, weigher.minval, weigher.maxval)),
            "multipliers": [weigher.weight_multiplier(host) for host in hosts],
        }

    def _sort_by_weight(self, weighers, hosts, request, places):
        place_of = {id(host): place for host, place in zip(hosts, places, strict=True)}
        best = self._weighers.get_weighed_objects(weighers, hosts, request)
        return [[place_of[id(weighed.obj)], weighed.weight] for weighed in best]

    def _run_selection_rounds(self, case):
        chain = [*_create_plugins(self._filter_classes, case["chain"]).values()]
        chosen_by = [*_create_plugins(self._weigher_classes, case["weighers"]).values()]
        every, request = states.build_host_states(case), self._build_request(case)
        left, place_of = every, {id(host): place for place, host in enumerate(every)}
        for index, uuid in enumerate(case["request_spec"]["instance_uuids"]):
            request.instance_uuid = uuid
            try:
                left = self._filters.get_filtered_objects(chain, left, request, index)
                best = self._weighers.get_weighed_objects(chosen_by, left, request)
            except Exception:  # noqa: BLE001 - the other keys report it
                return
            if not best:
                yield {"left": [], "weights": [], "chosen": None}
                return
            weights = [[place_of[id(weighed.obj)], weighed.weight] for weighed in best]
            chosen = _choose_heaviest_host(every, weights)
            yield {"left": sorted(place for place, _ in weights), "weights": weights,
                   "chosen": chosen}  # fmt: skip
            manager.SchedulerManager._consume_selected_host(every[chosen], request, uuid)
            left = [weighed.obj for weighed in best]


def _index_by_name(classes):
    return {kind.__name__: kind for kind in classes}


def _create_plugins(classes, names):
    return {name: classes[name]() for name in names}


def _choose_heaviest_host(hosts, weights):
    most = weights[0][1]
    heaviest = [place for place, weight in weights if math.isclose(weight, most, rel_tol=1e-9)]
    return min(heaviest, key=lambda place: (hosts[place].host, hosts[place].nodename))


def _build_result_with_all_rejected(case, rejection, many):
    return {
        "filters": {name: [rejection] * many for name in case["filters"]},
        "chain": rejection,
        "weighed": list(range(many)),
        "weighers": dict.fromkeys(case["weighers"], rejection),
        "weights": rejection,
        "rounds": [],
    }


def _get_result_or_failure(run):
    try:
        return run()
    except Exception as failure:  # noqa: BLE001 - any exception of nova is a result
        return f"fails: {type(failure).__name__}: {failure}"
