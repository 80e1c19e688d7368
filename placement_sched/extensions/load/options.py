# SPDX-License-Identifier: Apache-2.0
"""Options of the group [load].

They are read only when the server starts. If requests could override the address of Prometheus,
they could obtain its token and password.
"""

import re
from collections.abc import Iterator
from typing import Any

from oslo_config import cfg, types

from placement_sched.config.settings import MAX_INT, HttpAddress, Settings, with_help
from placement_sched.errors import ConfigurationError
from placement_sched.extensions.load.values import HOST, SERVER, LoadQuery
from placement_sched.limits import MAX_LOAD_QUERIES

_QUERY = re.compile(r"\s*([a-z][a-z0-9_]{0,31})\s*:(?!:)\s*(\S.*)", re.DOTALL)


class _NamedQuery(types.String):
    """Type of a PromQL query with a name: ``cpu: avg by (nodename) (...)``."""

    def __call__(self, value: Any) -> Any:
        """Return the text, or raise :class:`ValueError`."""
        text = super().__call__(value)
        if not _QUERY.fullmatch(text):
            raise ValueError(
                f"{text!r} is not NAME: PROMQL, such as cpu: avg by (nodename) (...). A name has "
                "up to 32 of a-z, 0-9 and _, and begins with a letter"
            )
        return text


_QUERY_TYPE = _NamedQuery(type_name="NAME: PROMQL")
_LOAD = with_help(
    cfg.Opt("prometheus_url", type=HttpAddress()),
    "URL of Prometheus, or of a service with its HTTP API, without /api/v1. Unset: no load is "
    "collected.",
    cfg.StrOpt("prometheus_token", secret=True),
    "Bearer token for Prometheus.",
    cfg.StrOpt("prometheus_username"),
    "User name for Prometheus, for basic authentication.",
    cfg.StrOpt("prometheus_password", secret=True),
    "Password for Prometheus, for basic authentication.",
    cfg.StrOpt("prometheus_cafile"),
    "CA bundle for verifying Prometheus' certificate. Unset: the CAs of this machine.",
    cfg.FloatOpt("prometheus_timeout", default=10.0, min=0.1, max=3600),
    "Seconds to wait for the response to a query.",
    cfg.MultiOpt("host_queries", item_type=_QUERY_TYPE),
    "PromQL query for the load of all hosts, after a name: cpu: PROMQL. It returns a series for "
    "each host, with a value from 0 to 1. Repeat the option for more queries.",
    cfg.MultiOpt("server_queries", item_type=_QUERY_TYPE),
    "PromQL query for the load of all servers, after a name, as host_queries. It returns a series "
    "for each server.",
    cfg.StrOpt("host_label", default="nodename"),
    "Label of a series of host_queries with the name of the host or of its hypervisor.",
    cfg.StrOpt("server_label", default="instance_id"),
    "Label of a series of server_queries with the uuid of the server.",
    cfg.IntOpt("interval", default=60, min=5, max=MAX_INT),
    "Seconds between two collections, in a process of any server.",
    cfg.IntOpt("max_age", default=180, min=1, max=MAX_INT),
    "Maximum age of a value in seconds. Older values have the state old.",
    cfg.IntOpt("half_life", default=600, min=0, max=MAX_INT),
    "Half-life of the weights of the smoothed value, in seconds. 0: no smoothing.",
)

OPTIONS = {"load": _LOAD}


def list_queries(settings: Settings) -> tuple[LoadQuery, ...]:
    """Return the configured queries, first the queries of hosts.

    Raises :class:`ConfigurationError` for two queries of a name, or too many queries.
    """
    options = settings.load
    queries: dict[tuple[str, str], LoadQuery] = {}
    for kind, texts, label in (
        (HOST, options.host_queries, options.host_label),
        (SERVER, options.server_queries, options.server_label),
    ):
        for text in texts or ():
            name, expression = _QUERY.fullmatch(text).groups()  # type: ignore[union-attr] # its type
            if (kind, name) in queries:
                raise ConfigurationError(f"[load] {kind}_queries has two queries named {name}")
            queries[kind, name] = LoadQuery(kind, name, expression.strip(), label)
    if len(queries) > MAX_LOAD_QUERIES:
        raise ConfigurationError(
            f"[load] host_queries and server_queries have {len(queries)} queries. The limit is "
            f"{MAX_LOAD_QUERIES}"
        )
    return tuple(queries.values())


def check_options(settings: Settings) -> Iterator[str]:
    """Yield warnings about options (hook ``config_check``)."""
    options, queries = settings.load, list_queries(settings)
    if queries and not options.prometheus_url:
        yield f"[load] {queries[0].kind}_queries has no effect without prometheus_url"
    if options.prometheus_url and not queries:
        yield "[load] prometheus_url has no effect without host_queries or server_queries"
    if options.prometheus_token and options.prometheus_username:
        yield "[load] prometheus_username is not used, since prometheus_token is set"
    if options.prometheus_password and not options.prometheus_username:
        yield "[load] prometheus_password is not used without prometheus_username"
    if options.max_age < options.interval:
        yield "[load] max_age is less than interval: values are old before the next collection"
