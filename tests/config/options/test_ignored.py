# SPDX-License-Identifier: Apache-2.0
"""Every documented option of placement is supported or listed as ignored.

The options are listed in "Config Reference", Placement 2026.1, with options of libraries.
"""

import re

from placement_sched.config.conf import read_files
from placement_sched.config.options.ignored import WITHOUT_MEANING
from placement_sched.config.settings import Settings
from placement_sched.operations.config_check import Catalogue, check_lines
from placement_sched.scheduler.plugins import make_full_conf

#: Options and possible values, by group.
PLACEMENT_OPTIONS_TEXT = """\
[DEFAULT]
tempdir=/tmp pybasedir=/usr/lib/python3 state_path=/var/lib/placement debug=true
log_config_append=/etc/placement/logging.conf log_date_format=%H:%M:%S log_file=placement.log
log_dir=/var/log/placement use_syslog=true use_journal=true syslog_log_facility=LOG_LOCAL0
use_json=true use_stderr=true log_color=true log_rotate_interval=2
log_rotate_interval_type=hours max_logfile_count=3 max_logfile_size_mb=20 log_rotation_type=size
logging_context_format_string=%(message)s logging_default_format_string=%(message)s
logging_debug_format_suffix=%(lineno)d logging_exception_prefix=%(name)s
logging_user_identity_format=%(user)s default_log_levels=sqlalchemy=WARN publish_errors=true
instance_format=%(uuid)s instance_uuid_format=%(uuid)s rate_limit_interval=1 rate_limit_burst=1
rate_limit_except_level=ERROR fatal_deprecations=true auth_strategy=keystone
[api]
auth_strategy=keystone
[placement_database]
connection=mysql+pymysql://placement:secret@controller/placement
connection_parameters=read_timeout=5 sqlite_synchronous=false
slave_connection=mysql+pymysql://placement:secret@replica/placement mysql_sql_mode=TRADITIONAL
connection_recycle_time=60 max_pool_size=0 max_retries=-1 retry_interval=1 max_overflow=1
connection_debug=100 connection_trace=true pool_timeout=1 sync_on_startup=true
[placement]
randomize_allocation_candidates=true incomplete_consumer_project_id=p
incomplete_consumer_user_id=u allocation_conflict_retry_count=3 max_allocation_candidates=100000
allocation_candidates_generation_strategy=breadth-first
[workarounds]
optimize_for_wide_provider_trees=true
[cors]
allowed_origin=https://horizon.example.com allow_credentials=false expose_headers=X-Auth-Token
max_age=1 allow_methods=GET allow_headers=X-Auth-Token
[oslo_middleware]
enable_proxy_headers_parsing=true
[oslo_policy]
enforce_scope=true enforce_new_defaults=false policy_file=policy.yaml
policy_default_rule=default policy_dirs=policy.d remote_content_type=application/json
remote_ssl_verify_server_crt=true remote_ssl_ca_crt_file=/ca.pem
remote_ssl_client_crt_file=/crt.pem remote_ssl_client_key_file=/key.pem remote_timeout=1
[keystone_authtoken]
www_authenticate_uri=http://controller:5000 auth_version=v3 interface=public
delay_auth_decision=true http_connect_timeout=1 http_request_max_retries=1 cache=swift.cache
certfile=/crt.pem keyfile=/key.pem cafile=/ca.pem insecure=true region_name=RegionOne
memcached_servers=controller:11211 token_cache_time=1 memcache_security_strategy=MAC
memcache_secret_key=secret memcache_tls_enabled=true memcache_tls_cafile=/ca.pem
memcache_tls_certfile=/crt.pem memcache_tls_keyfile=/key.pem memcache_tls_allowed_ciphers=ALL
memcache_pool_dead_retry=1 memcache_pool_maxsize=1 memcache_pool_socket_timeout=1
memcache_pool_unused_timeout=1 memcache_pool_conn_get_timeout=1 memcache_use_advanced_pool=false
include_service_catalog=false enforce_token_bind=disabled service_token_roles=service
service_token_roles_required=false service_type=placement memcache_sasl_enabled=true
memcache_username=u memcache_password=p auth_type=password auth_section=keystone_authtoken
auth_url=http://controller:5000 project_name=service project_domain_name=Default
user_domain_name=Default username=placement password=secret
"""


def parse_placement_options() -> dict[str, dict[str, str]]:
    """Return the possible values of options by group."""
    parts = re.split(r"\[(\w+)\]\n", PLACEMENT_OPTIONS_TEXT)[1:]
    return {
        group: dict(word.split("=", 1) for word in words.split())
        for group, words in zip(parts[::2], parts[1::2], strict=True)
    }


PLACEMENT_OPTIONS = parse_placement_options()


def test_every_option_of_placement_is_supported_or_ignored():
    catalogue = Catalogue(make_full_conf())
    catalogue.add_keystone_plugin("keystone_authtoken", "password")
    options = {(group, name) for group, names in PLACEMENT_OPTIONS.items() for name in names}
    unsupported = {option for option in options if catalogue.find(*option) is None}
    assert unsupported <= WITHOUT_MEANING.keys()


def test_placement_conf_with_every_option_is_valid(tmp_path):
    file = tmp_path / "placement.conf"
    sections = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
        for group, options in PLACEMENT_OPTIONS.items()
    )
    file.write_text("\n".join(sections))
    problems = check_lines(read_files(make_full_conf(), [str(file)]), {})
    assert [str(problem) for problem in problems if problem.fatal] == []
    reported = {problem.text.split(" is ignored")[0] for problem in problems}
    meaningless = {
        f"[{group}] {name}"
        for group, name in WITHOUT_MEANING
        if name in PLACEMENT_OPTIONS.get(group, {}) and name != "delay_auth_decision"
    }
    assert meaningless <= reported
    assert Settings.from_conf(
        read_files(make_full_conf(), [str(file)])
    ).placement.max_allocation_candidates


def test_unknown_options_of_placement_groups_are_reported(tmp_path):
    file = tmp_path / "placement.conf"
    file.write_text("[profiler]\ncolour = red\n[placement]\nmax_allocation_candidate = 1\n")
    problems = check_lines(read_files(make_full_conf(), [str(file)]), {})
    assert [problem.fatal for problem in problems] == [False, False]
