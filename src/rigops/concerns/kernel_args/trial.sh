#!/bin/sh
# Ends a boot with new kernel arguments unless it is confirmed so many seconds after its start.
#
#     trial.sh SECONDS
#
# It begins with systemd, before most of what it uses is mounted or started. Time is counted from the
# start of process 1; on a machine that is the start of its kernel.
#
# The log has when userspace was reached, and what failed in it: lines
# `reached BOOT_ID SECONDS` and then `confirmed` or `given-up`, and blocks headed by `== COMMAND`.

ask_s=5
reboot_s=30
remount_s=5
reset_s=10

# shellcheck source=../../hostside/shared/forced_reboot.sh
. ./shared/forced_reboot.sh

# The 22nd field, in hundredths; the second may hold anything in its brackets.
born() {
    born=0
    { read -r stat <"$system/proc/1/stat"; } 2>/dev/null || return 0
    # shellcheck disable=SC2086  # numbers
    set -- ${stat##*) }
    [ "$#" -lt 20 ] || born=$((${20} / 100))
}

# The folder is made by rigops, so that it is not there before its file system is.
note() {
    [ -d "$state" ] && { echo "$1" >>"$log"; } 2>/dev/null
}

reached() {
    { read -r boot_id <"$system/proc/sys/kernel/random/boot_id"; } 2>/dev/null || boot_id=unknown
    note "reached $boot_id $((now - born))"
}

ask() {
    note "== $*" || return 0
    within "$ask_s" answer "$@"
}
answer() {
    "$@" 2>&1 </dev/null | head -n 40 | cut -c -300 >>"$log"
} 2>/dev/null

tell() {
    note "given-up $1" || return 0
    ask systemctl is-system-running
    ask systemctl --no-pager --failed
    ask systemctl --no-pager list-jobs
    ask systemctl is-active ssh.service sshd.service ssh.socket
    ask ip -br address
    ask journalctl -b -p err -n 20 --no-pager -o cat
}

# GRUB has done so already, before it started this boot; unless it could not write after all.
take_order_back() {
    for prefix in grub grub2; do
        [ -e "$system/boot/$prefix/grubenv" ] || continue # which a look at it would make
        within "$ask_s" "$prefix-editenv" - unset next_entry >/dev/null 2>&1
    done
}

go_back() {
    within "$ask_s" sync
    within "$reboot_s" systemctl reboot --force >/dev/null 2>&1
    wait_for "$reboot_s" # it is only begun
    say "the reboot has not come to its end: sync, read-only, forced reboot"
    if ! in_container && [ -w "$system/proc/sysrq-trigger" ]; then
        echo s >"$system/proc/sysrq-trigger"
        echo u >"$system/proc/sysrq-trigger"
        sleep "$remount_s" # both are only begun by the kernel
        echo b >"$system/proc/sysrq-trigger"
        sleep "$reset_s"
    fi
    reboot -ff
}

trial() { # SECONDS [FOLDER]: in tests FOLDER is what / is otherwise
    stand_alone
    umask 022
    system=${2:-}
    state=$system/var/lib/rigops log=$state/trial.log

    now; born
    say "this boot tries new kernel arguments, and ends $1 s after its start unless it is confirmed"
    noted=
    while :; do
        if [ -e "$system/run/rigops/trial-confirmed" ]; then
            note "confirmed $((now - born))"
            say "the new kernel arguments are confirmed"
            return 0
        fi
        [ -n "$noted" ] || ! reached || noted=yes
        now
        [ "$((now - born))" -lt "$1" ] || break
        sleep 1
    done
    say "nobody has confirmed the new kernel arguments: back to the old ones"
    tell "$((now - born))"
    take_order_back
    go_back
}

# Last, so that a program that arrives in part does nothing.
trial "$@"
