# SPDX-License-Identifier: Apache-2.0
"""Asks nova's host filters and weighers about hosts.

An answer has ``filters``: by the class's name, what each says of each host alone; ``chain``: the
hosts that are left of all by the filters of the case, in order; ``weighed``: which hosts were
weighed; ``weighers``: by the class's name, what each says of those (``raw``, ``normalized``,
``multipliers``); ``weights``: host and weight of each, best first; and ``rounds``: for each
instance of the request in turn, which hosts are ``left``, their ``weights``, and which is
``chosen``. Hosts are told by their place in the case. Where nova raises, its words take the place
of the answer.
"""

import math
import warnings
from contextlib import contextmanager
from datetime import datetime
from unittest import mock

import building
import nova.conf
import states
from nova import context as nova_context
from nova import objects, weights
from nova.scheduler import manager
from nova.scheduler.filters import HostFilterHandler
from nova.scheduler.weights import HostWeightHandler
from oslo_utils import timeutils

CONF = nova.conf.CONF


class Nova:
    """Nova's filters and weighers, each case under its own options."""

    def __init__(self):
        CONF([], project="nova", default_config_files=[])
        objects.register_all()
        warnings.simplefilter("ignore")
        self._context = nova_context.RequestContext("u1", "p1")
        self._filters = HostFilterHandler()
        self._weighers = HostWeightHandler()
        # Nova looks through its folders each time it is asked for these.
        self._filter_classes = {one.__name__: one for one in self._filters.get_all_classes()}
        self._weigher_classes = {one.__name__: one for one in self._weighers.get_all_classes()}

    def answer(self, told):
        if "classes" in told:
            return {"filters": [*self._filter_classes], "weighers": [*self._weigher_classes]}
        timeutils.set_time_override(datetime.fromisoformat(told["now"]))
        with _option_overrides(told["options"]), _mocked_databases():
            hosts = states.states_of(told)
            request = _result_or_failure(lambda: self._request(told))
            if isinstance(request, str):
                return _answer_all_rejected(told, request, len(hosts))
            filters = _create_plugins(self._filter_classes, told["filters"])
            answer = {
                "filters": {
                    name: [self._verdict(one, host, request) for host in hosts]
                    for name, one in filters.items()
                }
            }
            chain = [filters[name] for name in told["chain"]]
            answer["chain"] = _result_or_failure(lambda: self._places(chain, hosts, request))
            answer["weighed"] = _hosts_to_weigh(answer["chain"], len(hosts))
            left = [hosts[place] for place in answer["weighed"]]
            answer |= self._weigh(left, request, told["weighers"], answer["weighed"])
            return {**answer, "rounds": [*self._rounds(told)]}

    def _request(self, told):
        spec = told["request_spec"]
        flavor, image = building.flavor_of(spec), building.image_of(spec)
        request = building.request_of(self._context, spec, flavor, image)
        if spec.get("instance_group"):
            request.instance_group = states.group_of(spec["instance_group"])
            # Nova's API makes instances members before it has a host looked for.
            request.instance_group.members.extend(spec["instance_uuids"])
        return request

    def _verdict(self, plugin, host, request):
        return _result_or_failure(
            lambda: bool(self._filters.get_filtered_objects([plugin], [host], request))
        )

    def _places(self, chain, hosts, request):
        left = self._filters.get_filtered_objects(chain, hosts, request)
        return [place for place, host in enumerate(hosts) if any(host is one for one in left)]

    def _weigh(self, hosts, request, names, places):
        by_name = _create_plugins(self._weigher_classes, names)
        return {
            "weighers": {
                name: _result_or_failure(lambda one=one: self._said(one, hosts, request))
                for name, one in by_name.items()
            },
            "weights": _result_or_failure(
                lambda: self._sorted([*by_name.values()], hosts, request, places)
            ),
        }

    def _said(self, weigher, hosts, request):
        handled = [self._weighers.object_class(host, 0.0) for host in hosts]
        raw = list(weigher.weigh_objects(handled, request))
        return {
            "raw": raw,
            "normalized": list(weights.normalize(raw, weigher.minval, weigher.maxval)),
            "multipliers": [weigher.weight_multiplier(host) for host in hosts],
        }

    def _sorted(self, weighers, hosts, request, places):
        place_of = {id(host): place for host, place in zip(hosts, places, strict=True)}
        best = self._weighers.get_weighed_objects(weighers, hosts, request)
        return [[place_of[id(one.obj)], one.weight] for one in best]

    def _rounds(self, told):
        chain = [*_create_plugins(self._filter_classes, told["chain"]).values()]
        chosen_by = [*_create_plugins(self._weigher_classes, told["weighers"]).values()]
        every, request = states.states_of(told), self._request(told)
        left = every
        for index, uuid in enumerate(told["request_spec"]["instance_uuids"]):
            request.instance_uuid = uuid
            try:
                left = self._filters.get_filtered_objects(chain, left, request, index)
                best = self._weighers.get_weighed_objects(chosen_by, left, request)
            except Exception:  # noqa: BLE001 - it is told by the parts already
                return
            if not best:
                yield {"left": [], "weights": [], "chosen": None}
                return
            weights = [[_index_of_host(every, one.obj), one.weight] for one in best]
            chosen = _heaviest_host(every, weights)
            yield {"left": sorted(place for place, _ in weights), "weights": weights,
                   "chosen": chosen}  # fmt: skip
            manager.SchedulerManager._consume_selected_host(every[chosen], request, uuid)
            left = [one.obj for one in best]


def _create_plugins(classes, names):
    return {name: classes[name]() for name in names}


def _index_of_host(hosts, host):
    return next(place for place, one in enumerate(hosts) if one is host)


def _heaviest_host(hosts, weights):
    most = weights[0][1]
    heaviest = [place for place, weight in weights if math.isclose(weight, most, rel_tol=1e-9)]
    return min(heaviest, key=lambda place: (hosts[place].host, hosts[place].nodename))


def _answer_all_rejected(told, rejection, many):
    return {
        "filters": {name: [rejection] * many for name in told["filters"]},
        "chain": rejection,
        "weighed": list(range(many)),
        "weighers": dict.fromkeys(told["weighers"], rejection),
        "weights": rejection,
        "rounds": [],
    }


def _hosts_to_weigh(chain, many):
    return chain if isinstance(chain, list) and chain else list(range(many))


def _result_or_failure(run):
    try:
        return run()
    except Exception as failure:  # noqa: BLE001 - whatever nova raises is what is asked
        return f"fails: {type(failure).__name__}: {failure}"


@contextmanager
def _mocked_databases():
    with (
        mock.patch.object(objects.CellMapping, "get_by_uuid"),
        mock.patch.object(nova_context, "target_cell"),
    ):
        yield


@contextmanager
def _option_overrides(told):
    for name, value in told.items():
        group, _, option = name.rpartition(".")
        CONF.set_override(option, value, None if group == "DEFAULT" else group)
    try:
        yield
    finally:
        for name in told:
            group, _, option = name.rpartition(".")
            CONF.clear_override(option, None if group == "DEFAULT" else group)
