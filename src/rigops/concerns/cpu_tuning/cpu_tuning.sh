#!/bin/sh
# cpu_tuning set GOVERNOR KHZ | back: governor and highest frequency of every CPU policy.
#
#   set    has them everywhere and reads each one back; `-`: not declared, so what an earlier `set`
#          changed of it goes back
#   back   the same as `set - -`
#
# The kernel makes new policies at a boot and when a driver changes its mode, so a record counts
# for one boot and one driver. A policy without a readable governor has no CPU online.
set -u
umask 022

# shellcheck source=../../hostside/shared/undoable.sh
. ./shared/undoable.sh

get() { # FILE: into value
    value=
    { read -r value <"$1"; } 2>/dev/null || [ -n "$value" ]
}

# The values before, of this policy and driver: was_governor, was_khz, was_preference.
find_earlier() { # FOLDER
    was_governor=- was_khz=- was_preference=-
    line=$(echo "$had" | grep "^${1##*/policy} $driver ") || return 0
    # shellcheck disable=SC2086  # five words
    set -- $line
    was_governor=$3 was_khz=$4 was_preference=$5
}

# The effect of a cap here, into held: a frequency that the driver has; `-` where it caps nothing.
find_held() { # FOLDER KHZ
    held=-
    [ "$2" != - ] || return 0
    get "$1/cpuinfo_max_freq" && [ "$2" -gt "$value" ] && return 0
    held=$2
    get "$1/scaling_available_frequencies" || return 0
    held=-
    for step in $value; do
        [ "$step" -le "$2" ] || continue
        { [ "$held" != - ] && [ "$step" -le "$held" ]; } || held=$step
    done
    [ "$held" != - ] || complain "${1##*/}: $driver has no frequency of $2 kHz or less"
}

turn() { # FOLDER NAME WANTED
    if ! get "$1/$2"; then
        complain "${1##*/}: $2 cannot be read"
        return 1
    fi
    [ "$value" != "$3" ] || return 0
    before=$value
    { echo "$3" >"$1/$2"; } 2>/dev/null
    get "$1/$2"
    if [ "$value" = "$3" ]; then
        echo "${1##*/}: $2 $before -> $value"
    else
        complain "${1##*/}: $2 is ${value:-unreadable} instead of $3, $driver does not take it"
        return 1
    fi
}

# A limit above what the hardware can do now, as with boost switched off, is none.
turn_back_limit() { # FOLDER KHZ
    get "$1/cpuinfo_max_freq"
    if [ -n "$value" ] && [ "$2" -gt "$value" ]; then
        turn "$1" scaling_max_freq "$value"
    else
        turn "$1" scaling_max_freq "$2"
    fi
}

turn_back_governor() { # FOLDER GOVERNOR PREFERENCE
    turn "$1" scaling_governor "$2" || return 1
    # Some drivers change the preference along with the governor.
    [ "$3" = - ] || turn "$1" energy_performance_preference "$3"
}

policies() {
    for folder in "$cpufreq"/policy[0-9]*; do
        get "$folder/scaling_governor" && get "$folder/scaling_driver" && echo "$folder"
    done
}

tune() { # GOVERNOR KHZ
    folders=$(policies)
    if [ -z "$folders" ]; then
        echo 'the kernel scales no CPU frequency here'
        return
    fi
    had=$(recorded) noted=
    for folder in $folders; do
        look_at "$folder" "$2"
        get "$folder/scaling_governor"
        if [ "$1" != - ] && [ "$value" != "$1" ] && [ "$was_governor" = - ]; then
            was_governor=$value
            get "$folder/energy_performance_preference" && was_preference=$value
        fi
        get "$folder/scaling_max_freq"
        [ "$held" = - ] || [ "${value:-$held}" = "$held" ] || [ "$was_khz" != - ] || was_khz=$value
        note
    done
    if [ "${noted#?}" != "$had" ] && ! write_down "$noted"; then
        complain "$record cannot be written, so nothing was set: it could not be undone"
        return
    fi
    had=${noted#?} noted=
    for folder in $folders; do
        look_at "$folder" "$2" 2>/dev/null
        bring "$folder" "$1"
        note
    done
    [ "${noted#?}" = "$had" ] || write_down "$noted"
}

look_at() { # FOLDER KHZ
    get "$1/scaling_driver"
    driver=$value
    find_earlier "$1"
    find_held "$1" "$2"
}

# Values that went back are no longer noted.
bring() { # FOLDER GOVERNOR
    if [ "$2" != - ]; then
        turn "$1" scaling_governor "$2"
    elif [ "$was_governor" != - ]; then
        turn_back_governor "$1" "$was_governor" "$was_preference" &&
            was_governor=- was_preference=-
    fi
    if [ "$held" != - ]; then
        turn "$1" scaling_max_freq "$held"
    elif [ "$was_khz" != - ]; then
        turn_back_limit "$1" "$was_khz" && was_khz=-
    fi
}

note() {
    [ "$was_governor $was_khz" = '- -' ] ||
        noted="$noted
${folder##*/policy} $driver $was_governor $was_khz $was_preference"
}

cpu_tuning() { # set … | back [FOLDER]: in tests FOLDER is what / is otherwise
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    LC_ALL=C
    export PATH LC_ALL
    action=${1:-} governor=- khz=-
    if [ "$action" = set ] && [ $# -ge 3 ]; then
        governor=$2 khz=$3
        shift 2
    fi
    system=${2:-}
    cpufreq=$system/sys/devices/system/cpu/cpufreq
    record=$system/var/lib/rigops/cpu_tuning.json
    schema=rigops.cpu_tuning/1 entries=policies
    columns='#policy driver governor max_khz preference'
    begin "$system"
    case $action in
        set | back) tune "$governor" "$khz" ;;
        *)
            echo 'usage: cpu_tuning set GOVERNOR KHZ | back' >&2
            exit 2
            ;;
    esac
    exit "$failed"
}

# Last, so that a program that arrives in part does nothing.
cpu_tuning "$@"
