# SPDX-License-Identifier: Apache-2.0
"""Options of the group [console]."""

from oslo_config import cfg

from placement_sched.config.settings import with_help

_CONSOLE = with_help(
    cfg.BoolOpt("enabled"),
    "Whether to serve the console to browsers, at / and under /console/. Unset, it is served only "
    "to browsers on this machine that use a loopback address or localhost. With "
    "[api] auth_strategy = noauth2 everyone who can open the console acts as administrator.",
    cfg.StrOpt("cloud_name"),
    "Name of the cloud in the bar of all pages.",
    cfg.URIOpt("auth_url"),
    "URL of the identity API for signing in (http://HOST:5000/v3). Unset, it is "
    "[keystone_authtoken] www_authenticate_uri, else its auth_url.",
    cfg.StrOpt("default_domain", default="Default"),
    "Default domain of users and projects in the sign-in form.",
)

OPTIONS = {"console": _CONSOLE}
