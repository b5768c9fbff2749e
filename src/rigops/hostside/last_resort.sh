#!/bin/sh
# Reboots this host by force after so many seconds, should the reboot that was ordered hang.
#
#     last_resort.sh SECONDS
#
# It has to go on after units were stopped and processes killed, on a root that has become
# read-only, while sync hangs. The most important step, the sysrq, needs no other program.
#
# An unused watchdog is opened last and never fed: should even the forced reboot hang,
# it resets the machine by itself, mostly within a minute. One that systemd has opened is systemd's,
# which uses it in the same way while it shuts down.

sync_s=15
remount_s=5
reset_s=10

# shellcheck source=shared/forced_reboot.sh
. ./shared/forced_reboot.sh

hold_watchdog() {
    (
        exec 3>"$system/dev/watchdog" || exit
        say "the watchdog is not fed any more"
        while :; do sleep 60; done
    ) >/dev/null 2>&1 &
}

last_resort() { # SECONDS [FOLDER]: in tests FOLDER is what / is otherwise
    stand_alone
    system=${2:-}
    trigger=$system/proc/sysrq-trigger

    say "a forced reboot follows in $1 s, unless the ordered one comes to its end before"
    wait_for "$1"
    say "the ordered reboot has not come to its end: sync, read-only, forced reboot"

    within "$sync_s" sync >/dev/null 2>&1
    if in_container; then
        reboot -ff
        return
    fi
    if [ -w "$trigger" ]; then
        echo s >"$trigger"
        echo u >"$trigger"
        sleep "$remount_s" # both are only begun by the kernel
    else
        within "$remount_s" mount -o remount,ro / >/dev/null 2>&1
    fi
    [ ! -c "$system/dev/watchdog" ] || hold_watchdog
    if [ -w "$trigger" ]; then
        echo b >"$trigger"
        sleep "$reset_s"
    fi
    reboot -ff
}

# Last, so that a program that arrives in part does nothing.
last_resort "$@"
