#!/bin/sh
# acs off | back | show: ACS redirection on the ports between this machine's NVIDIA GPUs.
#
#   off    clears the bits that redirect, and only those, and reads every port back
#   back   sets again what `off` has cleared since the machine was booted
#   show   says how it is, one line each, words as four hex digits:
#            gpus COUNT
#            port ADDRESS WORD [WAS]    between two of them; WAS: before `off` cleared it
#            apart ADDRESS WORD WAS     cleared by `off`, and between no two of them any more
#            lockdown                   the kernel allows no write
#          WORD is `none` where a port has no ACS, and `unreadable`.
#
# Addresses change with the cards, so nothing is remembered but the words of this boot. Only bridges
# above a card are touched, and of those only the ones that not all cards are below: what is above
# the last common bridge does not stand between them.
set -u
umask 022

redirecting=$((0x2c)) # ReqRedir, CmpltRedir, EgressCtrl

# shellcheck source=../../hostside/shared/undoable.sh
. ./shared/undoable.sh

# A register of 16 bits, as hex. No other byte is read: a register may mind being looked at.
read_word() { # FILE OFFSET
    # shellcheck disable=SC2046  # two bytes, two words
    set -- $(dd if="$1" bs=2 skip="$(($2 / 2))" count=1 2>/dev/null | od -An -v -t x1)
    [ $# = 2 ] && echo "$2$1"
}

# Both bytes in one write, as the register wants them.
write_word() { # FILE OFFSET WORD
    bytes=$(printf '\\%03o\\%03o' "$((0x$3 & 255))" "$((0x$3 >> 8))")
    # shellcheck disable=SC2059  # the escapes are all there is
    printf "$bytes" | dd of="$1" bs=2 seek="$(($2 / 2))" count=1 conv=notrunc 2>/dev/null
}

# Where the capability is. Nothing where there is none; it fails where that cannot be read.
find_acs() { # FILE
    at=256 left=96
    while [ "$at" -ge 256 ] && [ "$left" -gt 0 ]; do
        id=$(read_word "$1" "$at") || return 1
        next=$(read_word "$1" "$((at + 2))") || return 1
        case $id$next in
            00000000 | ffff*) return 0 ;;
            000d*)
                echo "$at"
                return 0
                ;;
        esac
        at=$((0x$next >> 4 & 0xffc)) left=$((left - 1))
    done
}

# Sets word, and where it stands: config, register.
look_at() { # ADDRESS
    config=$devices/$1/config word=unreadable
    register=$(find_acs "$config") || return 0
    word=none
    [ -n "$register" ] || return 0
    register=$((register + 6))
    word=$(read_word "$config" "$register") || word=unreadable
}

is_bridge() { # ADDRESS
    { read -r class <"$devices/$1/class"; } 2>/dev/null || return 1
    case $class in 0x0604*) return 0 ;; esac
    return 1
}

# After look_at.
turn() { # ADDRESS WANTED
    before=$word
    is_bridge "$1" && write_word "$config" "$register" "$2"
    word=$(read_word "$config" "$register") || word=unreadable
    if [ "$word" = "$2" ]; then
        echo "$1: ACSCtl $before -> $word"
    elif is_locked_down; then
        complain "$1: ACSCtl stays $word instead of $2, since the kernel is locked down"
    else
        complain "$1: ACSCtl stays $word instead of $2, the port does not take it"
    fi
}

is_locked_down() {
    { read -r lockdown <"$system/sys/kernel/security/lockdown"; } 2>/dev/null || return 1
    case $lockdown in *'[none]'*) return 1 ;; esac
}

# The folder of every NVIDIA GPU, where the kernel has it: below the bridges above it.
gpus() {
    for function in "$devices"/*; do
        { read -r vendor <"$function/vendor" && read -r class <"$function/class"; } 2>/dev/null ||
            continue
        case "$vendor $class" in
            '0x10de 0x0300'* | '0x10de 0x0302'*) (cd -P "$function" && pwd -P) || return 1 ;;
        esac
    done
}

# Sets count, and ports: the bridges that some of the cards are below, and some are not.
survey() {
    if ! paths=$(gpus); then
        complain 'where the GPUs are could not be read'
        exit 1
    fi
    count=0 ports=
    [ -n "$paths" ] || return 0
    count=$(echo "$paths" | wc -l)
    ports=$(
        echo "$paths" | sed 's#.*/pci[0-9a-f]*:[0-9a-f]*/##' | awk -F/ '
            { for (i = 1; i < NF; i++) cards[$i]++ }
            END { for (port in cards) if (cards[port] < NR) print port }
        ' | sort
    )
}

earlier() { # ADDRESS: its word before `off` cleared it
    recorded | sed -n "s/^$1 //p"
}

switch_off() {
    survey
    had=$(recorded) todo=
    for port in $ports; do
        look_at "$port"
        case $word in
            none) continue ;;
            unreadable)
                complain "$port: its ACSCtl cannot be read"
                continue
                ;;
        esac
        [ "$((0x$word & redirecting))" != 0 ] || continue
        todo="$todo $port"
        [ -n "$(earlier "$port")" ] || had="$had
$port $word"
    done
    [ -n "$todo" ] || return 0
    if ! write_down "$had"; then
        complain "$record cannot be written, so nothing was cleared: it could not be undone"
        return
    fi
    for port in $todo; do
        look_at "$port"
        turn "$port" "$(printf '%04x' "$((0x$word & ~redirecting))")"
    done
}

put_back() {
    for entry in $(recorded | tr ' ' =); do
        port=${entry%=*} was=${entry#*=}
        look_at "$port"
        case $word in none | unreadable) continue ;; esac # it has gone, with its card
        wanted=$(printf '%04x' "$((0x$word | 0x$was & redirecting))")
        [ "$wanted" = "$word" ] || turn "$port" "$wanted"
    done
    [ "$failed" = 1 ] || rm -f "$record"
}

tell() {
    survey
    echo "gpus $((count))"
    for port in $ports; do
        look_at "$port"
        echo "port $port $word $(earlier "$port")"
    done
    for entry in $(recorded | tr ' ' =); do
        port=${entry%=*}
        case "
$ports
" in
            *"
$port
"*) continue ;;
        esac
        look_at "$port"
        echo "apart $port $word ${entry#*=}"
    done
    ! is_locked_down || echo lockdown
}

acs() { # off | back | show [FOLDER]: in tests FOLDER is what / is otherwise
    system=${2:-}
    devices=$system/sys/bus/pci/devices
    record=$system/var/lib/rigops/acs.json
    schema=rigops.acs/1 entries=ports columns='address word'
    begin "$system"
    case ${1:-} in
        off) switch_off ;;
        back) put_back ;;
        show) tell ;;
        *)
            echo 'usage: acs off | back | show' >&2
            exit 2
            ;;
    esac
    exit "$failed"
}

# Last, so that a program that arrives in part does nothing.
acs "$@"
