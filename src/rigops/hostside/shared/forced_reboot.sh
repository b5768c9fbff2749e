# shellcheck shell=sh
# ---- shared by the programs that reboot a host by force, and go on where nothing else does ----
#
# Whatever may hang runs beside them. Time is /proc/uptime's, which cannot be set. `system` is the
# folder that stands for /, and empty but in tests.

stand_alone() { # independent of its parent
    PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:/run/current-system/sw/bin
    LC_ALL=C
    export PATH LC_ALL
    cd / || :
}

now() { # sets now, in whole seconds; each call counts as one where nothing tells
    if { read -r uptime _ <"$system/proc/uptime"; } 2>/dev/null
    then now=${uptime%%.*}
    else now=$((${now:-0} + 1))
    fi
}

say() {
    { echo "rigops: $1" >>"$system/dev/kmsg"; } 2>/dev/null
    logger -t rigops -- "$1" >/dev/null 2>&1 &
}

wait_for() { # SECONDS
    now; until=$((now + $1))
    while now; [ "$now" -lt "$until" ]; do sleep 1; done
}

# Waits for the command, but not longer than so many seconds.
within() { # SECONDS COMMAND…
    now; limit=$((now + $1)); shift
    "$@" & child=$!
    while kill -s 0 "$child" 2>/dev/null && now && [ "$now" -lt "$limit" ]; do sleep 1; done
}

# A container's kernel, file systems and watchdog are those of the machine around it.
in_container() {
    [ -e "$system/run/systemd/container" ] ||
        tr '\0' '\n' <"$system/proc/1/environ" 2>/dev/null | grep -q '^container='
}

# ---- the program itself ----
