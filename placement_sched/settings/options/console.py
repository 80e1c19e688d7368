"""[console]: the pages for people, under ``/console/``."""

from oslo_config import cfg

from placement_sched.settings.opts import described

CONSOLE = described(
    cfg.BoolOpt("enabled"),
    "Whether browsers are shown the console, at / and under /console/. Left out, it is shown to "
    "browsers on this machine alone, which asked for a loopback address or localhost. With "
    "[api] auth_strategy = noauth2 all who can open the console act as administrator.",
    cfg.URIOpt("auth_url"),
    "Address of the identity API where people sign in (http://HOST:5000/v3). Left out, it is "
    "[keystone_authtoken] www_authenticate_uri, else its auth_url.",
    cfg.StrOpt("default_domain", default="Default"),
    "The domain of users and projects that the sign-in form proposes.",
)
