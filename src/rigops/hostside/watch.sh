#!/bin/sh
# watch SECONDS ROOT: prints what changes on the cards of this host, until its input ends.
#
# ROOT is 1 where sudo may be tried for the kernel log. Each line begins with a letter that tells
# its source, so that no content of one passes for another's:
#   h BOOT                 the first: the id of this boot
#   c ADDRESS FUNCTION…    a card, with itself and the bridges above it
#   d LINE                 nvidia-smi -q -d TEMPERATURE, before each query
#   q LINE                 nvidia-smi --query-gpu, which goes on, after `started`; where it does
#                          not, `ended CODE`
#   k LINE                 the driver's lines in the kernel log, as they come; `absent` for no log
#   e FILE:NAME COUNT      an error counter of a link, if it is not zero
#   t UPTIME               these were all of them
set -u

# Per field the first name that this driver knows: an unknown one would fail the whole query.
FIELDS='
count pci.bus_id name driver_version pstate fan.speed
temperature.gpu temperature.gpu.tlimit temperature.memory
power.draw power.limit enforced.power.limit power.default_limit
clocks.current.sm clocks.current.memory clocks.max.sm
utilization.gpu memory.used memory.total
clocks_event_reasons.gpu_idle/clocks_throttle_reasons.gpu_idle
clocks_event_reasons.applications_clocks_setting/clocks_throttle_reasons.applications_clocks_setting
clocks_event_reasons.sw_power_cap/clocks_throttle_reasons.sw_power_cap
clocks_event_reasons.hw_slowdown/clocks_throttle_reasons.hw_slowdown
clocks_event_reasons.hw_thermal_slowdown/clocks_throttle_reasons.hw_thermal_slowdown
clocks_event_reasons.hw_power_brake_slowdown/clocks_throttle_reasons.hw_power_brake_slowdown
clocks_event_reasons.sw_thermal_slowdown/clocks_throttle_reasons.sw_thermal_slowdown
clocks_event_reasons.sync_boost/clocks_throttle_reasons.sync_boost
'
AGAIN_S=10 # until an nvidia-smi that has ended is started again

# It ends with its input, also as root, whom nobody else here may signal.
# shellcheck disable=SC2016  # a program for another shell
FOLLOW='
follow() {
    if [ "$(journalctl -k -b -q -n 1 --no-pager 2>/dev/null)" ]; then
        exec journalctl -k -f -q -n 0 -o short-iso-precise 2>/dev/null
    elif dmesg --help 2>&1 | grep -q -e --follow-new && dmesg >/dev/null 2>&1; then
        exec dmesg --follow-new
    else
        echo absent
    fi
}
follow & child=$!
while read -r _; do :; done
kill "$child" 2>/dev/null
'

# In mksh printf is a program. One write for each line, so that lines of several writers stay whole.
if [ "${KSH_VERSION:-}" ]; then say() { print -r -- "$1"; }; else say() { printf '%s\n' "$1"; }; fi

marked() { while IFS= read -r line; do say "$1 $line"; done; } # LETTER

# Built-ins only, as nothing here asks a card: a card that is gone would hold up whoever asks it.
find_links() {
    files=
    for card in /sys/bus/pci/devices/*; do
        vendor='' class=''
        { read -r vendor <"$card/vendor"; read -r class <"$card/class"; } 2>/dev/null
        case "$vendor $class" in "0x10de 0x0300"* | "0x10de 0x0302"*) ;; *) continue ;; esac
        way=$(cd -P "$card" 2>/dev/null && pwd) || continue
        line="c ${card##*/}"
        while :; do
            function=${way##*/}
            case "$function" in *:*:*.[0-7]) ;; *) break ;; esac
            way=${way%/*} line="$line $function"
            for file in "/sys/bus/pci/devices/$function/aer_dev_"*; do
                case "$files " in *" $file "*) continue ;; esac
                [ ! -r "$file" ] || files="$files $file"
            done
        done
        say "$line"
    done
}

ticks() {
    while :; do
        # shellcheck disable=SC2086  # the files, and the lines below
        [ -z "$files" ] || errors=$(grep -H ' [1-9]' $files 2>/dev/null)
        IFS='
'
        for line in ${errors:-}; do say "e $line"; done
        unset IFS
        read -r now _ </proc/uptime
        say "t $now"
        sleep "$seconds"
    done
}

choose_fields() {
    fields=
    known=$(nvidia-smi --help-query-gpu 2>/dev/null)
    for wanted in $FIELDS; do
        for field in "${wanted%/*}" "${wanted#*/}"; do
            case "$known" in
                *\""$field"\"*)
                    fields="$fields,$field"
                    break
                    ;;
            esac
        done
    done
    fields=${fields#,}
}

# One process asks the driver for all the time: to start one costs far more than to ask.
query() {
    command -v nvidia-smi >/dev/null || { say 'q nvidia-smi: not found'; say 'q ended 127'; return; }
    choose_fields
    while :; do
        say 'q started'
        nvidia-smi -q -d TEMPERATURE 2>&1 | marked d
        {
            nvidia-smi --query-gpu="${fields:-count,pci.bus_id}" --format=csv -l "$seconds" 2>&1
            say "ended $?"
        } | marked q
        sleep "$AGAIN_S"
    done
}

follow_log() { # ROOT
    if [ "$1" = 1 ] && [ "$(id -u)" != 0 ] && sudo -n sh -c : >/dev/null 2>&1; then
        sudo -n sh -c "$FOLLOW" 2>/dev/null
    else
        sh -c "$FOLLOW"
    fi <&3 | driver_lines | marked k
}

# A storm of other lines would cost a shell, which reads byte by byte, a whole core.
driver_lines() {
    pattern='NVRM|fallen off the bus|^absent$'
    if echo NVRM | grep -q --line-buffered NVRM 2>/dev/null; then
        exec grep -E --line-buffered "$pattern"
    fi
    exec sed -u -n -E "/$pattern/p"
}

watch() { # SECONDS ROOT
    seconds=$1
    exec 3<&0
    set -f
    read -r boot </proc/sys/kernel/random/boot_id
    say "h $boot"
    set +f
    find_links
    set -f
    query 3<&- &
    follow_log "$2" &
    ticks 3<&- &
    while read -r _; do :; done
    # All that runs here, if it is a group of its own.
    read -r stat </proc/$$/stat
    # shellcheck disable=SC2086  # its words
    set -- ${stat##*) }
    [ "$3" != "$$" ] || kill -KILL "-$$"
}

watch "$@"
