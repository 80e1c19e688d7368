#!/bin/bash
# DevStack plugin of placement_sched. stack.sh, unstack.sh and clean.sh source this file with a mode and a phase.

_XTRACE_PLACEMENT_SCHED=$(set +o | grep xtrace)
set +o xtrace

function install_placement_sched {
    setup_develop "$PLACEMENT_SCHED_DIR" mysql,postgresql,memcached
}

# DevStack has written placement's configuration and created its database, but has not started it.
function configure_placement_sched {
    local url
    url=$(database_connection_url placement)
    # A plugin of SQLAlchemy that counts the statements of OpenStack's services.
    url=${url/&plugin=dbcounter/}
    sudo install -d -o "$STACK_USER" "$PLACEMENT_SCHED_CONF_DIR"
    rm -f "$PLACEMENT_SCHED_CONF"
    iniset "$PLACEMENT_SCHED_CONF" placement_database connection "$url"
    "$(get_python_exec_prefix)/placement-sched" db adopt --config-file "$PLACEMENT_SCHED_CONF"
    if [[ $PLACEMENT_SCHED_MODE != shadow ]]; then
        iniset "$PLACEMENT_CONF" placement_database connection "$url"
        iniset "$PLACEMENT_UWSGI_CONF" uwsgi module placement_sched.wsgi:placement
        iniset "$PLACEMENT_UWSGI_CONF" uwsgi need-app true
    fi
}

function start_placement_sched {
    local command=nova-shadow
    if [[ $PLACEMENT_SCHED_MODE == scheduler ]]; then
        command=nova-scheduler
    fi
    command="$(get_python_exec_prefix)/placement-sched $command"
    # run_process starts nothing in the mode "placement", which does not enable this service.
    run_process placement-sched "$command --config-file $NOVA_CONF --config-file $PLACEMENT_SCHED_CONF"
}

case "$1 ${2:-}" in
    "stack install")
        echo_summary "Installing placement-sched"
        install_placement_sched
        ;;
    "stack post-config")
        echo_summary "Configuring placement-sched, mode $PLACEMENT_SCHED_MODE"
        configure_placement_sched
        ;;
    "stack extra")
        start_placement_sched
        ;;
    "unstack "*)
        stop_process placement-sched
        ;;
    "clean "*)
        sudo rm -rf "$PLACEMENT_SCHED_CONF_DIR"
        ;;
esac

$_XTRACE_PLACEMENT_SCHED
