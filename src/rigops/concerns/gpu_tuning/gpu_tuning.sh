#!/bin/sh
# gpu_tuning set | undo | show | check: persistence, power limits and clocks of the NVIDIA GPUs.
#
#   set    sets every card as /etc/rigops/gpu_tuning says and reads each value back; undoes what it
#          set before and the table no longer has
#   undo   undoes what it has set since the machine was booted
#   show   prints what the table has, what the card reports, and what was set since the boot
#   check  the same, for the self-check, which judges it
#
# A line of the table is `CARD SETTING VALUE`. CARD is a UUID or a PCI address, because the driver's
# numbers change with the cards. SETTING is persistence (0 or 1), power (watts), graphics or memory
# (LOWEST,HIGHEST in MHz) or application (MEMORY,GRAPHICS in MHz).
#
# Values are recorded before they are set, with the former ones, so that undoing is exact: some cards
# refuse to reset what was never set. The driver does not report locked clocks, so of those only the
# present clock is read back.
set -u
umask 022

answer_s=10 # for one call of nvidia-smi
tolerances=@state.TOLERANCES@

# shellcheck source=../../hostside/shared/undoable.sh
. ./shared/undoable.sh

uptime_s() {
    read -r up _ </proc/uptime
    echo "${up%%.*}"
}

# A call that waits in the kernel cannot be ended, so nobody waits for it, and none follows it.
smi() { # ARGUMENT…: sets said
    said='nvidia-smi does not answer'
    [ -z "$hangs" ] || return 1
    rm -f "$work/code"
    {
        timeout -k 1 "$answer_s" nvidia-smi "$@" >"$work/said" 2>&1
        echo $? >"$work/code.new"
        mv "$work/code.new" "$work/code"
    } </dev/null >/dev/null 2>&1 &
    end_s=$(($(uptime_s) + answer_s + 2))
    until [ -e "$work/code" ]; do
        if [ "$(uptime_s)" -ge "$end_s" ]; then
            hangs=1
            return 1
        fi
        sleep 0.05
    done
    read -r code <"$work/code"
    case $code in
        124 | 137 | 143)
            hangs=1
            return 1
            ;;
    esac
    said=$(cat "$work/said")
    return "$code"
}

# Its output, without the text that follows every refusal.
reason() {
    echo "$said" | grep -v -e '^ *$' -e '^Terminating early' -e '^Treating as warning' \
        -e '^All done' -e '^Warning: persistence' | head -n 1
}

# As the table has it: no unit, no brackets; empty where the card does not report it.
plain() { # TEXT
    case $1 in
        Enabled) echo 1 ;;
        Disabled) echo 0 ;;
        *[!0-9.]* | '') ;;
        *) echo "$1" ;;
    esac
}

ask() { # CARD FIELD…: sets row, one field a line
    if ! smi -i "$1" --query-gpu="$2" --format=csv,noheader,nounits; then
        return 1
    fi
    # A warning of a corrupted infoROM may come first.
    row=$(echo "$said" | grep -i '^[0-9a-f]\{8\}:' | head -n 1 | tr -d ' ' | tr , '\n')
    [ -n "$row" ]
}

field() { # NUMBER
    plain "$(echo "$row" | sed -n "$1p")"
}

# Sets address, now and most: what the card reports, empty where it does not. `most` is the limit in
# force, or the clock of the moment.
read_card() { # CARD SETTING
    now='' most=''
    case $2 in
        persistence) fields=persistence_mode ;;
        power) fields=power.limit,enforced.power.limit,power.default_limit ;;
        graphics) fields=clocks.gr ;;
        memory) fields=clocks.mem ;;
        application) fields=clocks.applications.mem,clocks.applications.gr ;;
    esac
    if ! ask "$1" "pci.bus_id,$fields"; then
        # From CUDA 14 on application clocks are no field any more.
        case $2:$said in application:*'not a valid field'*) ask "$1" pci.bus_id ;; *) false ;; esac
    fi || return 1
    address=$(echo "$row" | sed -n '1{s/^0000//;p;}' | tr A-F a-f)
    case $2 in
        persistence) now=$(field 2) ;;
        power)
            now=$(field 2) most=$(field 3) default=$(field 4)
            now=${now:-$most}
            ;;
        graphics | memory) most=$(field 2) ;;
        application) now=$(field 2),$(field 3) ;;
    esac
    case $now in ,* | *,) now='' ;; esac
}

# The driver rounds watts, and clocks to its steps.
at_most() { # NUMBER LIMIT: of the setting of `holds`
    [ -z "$1" ] || awk "BEGIN { exit !($1 <= $2 + ${tolerance:-0}) }"
}

# Whether the card has it, as far as it reports that; after read_card.
holds() { # SETTING VALUE
    tolerance=''
    case ,$tolerances in *",$1="*) tolerance=${tolerances##*"$1="} ;; esac
    tolerance=${tolerance%%,*}
    case $1 in
        power)
            [ -n "$now" ] && at_most "$now" "$2" && at_most "$2" "$now" && at_most "$most" "$2"
            ;;
        graphics | memory) at_most "$most" "${2#*,}" ;;
        *) [ -z "$now" ] || [ "$now" = "$2" ] ;;
    esac
}

words() { # SETTING
    case $1 in
        power) echo 'power limit' ;;
        persistence) echo persistence ;;
        *) echo "$1 clocks" ;;
    esac
}

option() { # SETTING
    case $1 in
        persistence) echo -pm ;;
        power) echo -pl ;;
        graphics) echo -lgc ;;
        memory) echo -lmc ;;
        application) echo -ac ;;
    esac
}

order() { # CARD OPTION [VALUE]: fails where the card refuses, which nvidia-smi may call a warning
    card=$1
    shift
    smi -i "$card" "$@" || return 1
    case $said in *[Nn]ot\ [Ss]upported*) return 1 ;; esac
}

save() {
    write_down "$had" && return
    complain "$record cannot be written, so nothing more is set: it could not be undone"
    return 1
}

entry() { # CARD SETTING
    echo "$had" | awk -v card="$1" -v setting="$2" '$1 == card && $3 == setting'
}

forget() { # CARD SETTING
    had=$(echo "$had" | awk -v card="$1" -v setting="$2" '!($1 == card && $3 == setting)')
}

remember() { # CARD ADDRESS SETTING VALUE WAS
    forget "$1" "$3"
    had="$had
$1 $2 $3 $4 $5"
    save
}

tune() { # CARD SETTING VALUE
    if ! read_card "$1" "$2"; then
        complain "$1: $(reason)"
        gone="$gone $1 "
        return
    fi
    case $2 in
        persistence | power | application) [ -z "$now" ] || ! holds "$2" "$3" || return 0 ;;
    esac
    before=$now earlier=$(entry "$1" "$2") was=${now:--}
    [ -z "$earlier" ] || was=${earlier##* }
    remember "$1" "$address" "$2" "$3" "$was" || exit
    refused=''
    order "$1" "$(option "$2")" "$3" || refused=$(reason)
    if [ -z "$refused" ] && read_card "$1" "$2" && holds "$2" "$3"; then
        [ "$before" = "$now" ] && [ -n "$earlier" ] || echo "$address: $(words "$2") $3"
        return
    fi
    # Nothing was set that could be undone.
    if [ -n "$refused" ] || { [ -n "$now" ] && [ "$before" = "$now" ]; }; then
        forget "$1" "$2"
        [ -z "$earlier" ] || had="$had
$earlier"
        save || exit
    fi
    case $2:$refused in
        power:*[Nn]ot\ [Ss]upported*) refused="$refused; cap its clocks instead, by gpu_clocks" ;;
    esac
    is="is ${most:-${now:-unknown}}"
    complain "$1 ($address): $(words "$2") $3: ${refused:-it $is after it was set}"
}

untune() { # CARD ADDRESS SETTING VALUE WAS
    if ! read_card "$1" "$3"; then
        if [ -n "$hangs" ]; then
            complain "$1 ($2): $(reason)"
        else
            forget "$1" "$3" # with the card
        fi
        return
    fi
    was=$5
    [ "$was" != - ] || was=''
    done=yes
    case $3 in
        persistence | power)
            [ "$3" != power ] || was=${was:-$default}
            # A value that was set otherwise since then stays.
            if [ -n "$was" ] && holds "$3" "$4"; then
                order "$1" "$(option "$3")" "$was" || done=
            fi
            ;;
        graphics) order "$1" -rgc || done= ;;
        memory) order "$1" -rmc || done= ;;
        application)
            if [ -n "$was" ]; then
                [ "$now" != "$4" ] || order "$1" -ac "$was" || done=
            else
                order "$1" -rac || done=
            fi
            ;;
    esac
    if [ -n "$done" ]; then
        forget "$1" "$3"
        echo "$2: $(words "$3") ${was:-as before}"
    else
        complain "$1 ($2): $(words "$3") $4 cannot be undone: $(reason)"
    fi
}

# Persistence last: without it the driver forgets the rest by itself.
backwards() {
    awk '{ lines[NR] = $0 } END { for (at = NR; at; at--) print lines[at] }'
}

rows() { # of the table
    sed -n '/^[^#]/p' "$table"
}

set_all() {
    if [ ! -r "$table" ]; then
        complain "$table is not there"
        return
    fi
    for line in $(echo "$had" | backwards | tr ' ' '|'); do
        IFS='|' read -r card at setting value was <<END
$line
END
        rows | grep -q "^$card $setting " || untune "$card" "$at" "$setting" "$value" "$was"
    done
    [ "$had" = "$(recorded)" ] || save || return
    for line in $(rows | tr ' ' '|'); do
        IFS='|' read -r card setting value <<END
$line
END
        case $gone in *" $card "*) continue ;; esac
        case $setting in
            persistence | power | graphics | memory | application) tune "$card" "$setting" "$value" ;;
            *) complain "$table: $setting is no setting" ;;
        esac
    done
}

undo_all() {
    for line in $(echo "$had" | backwards | tr ' ' '|'); do
        IFS='|' read -r card at setting value was <<END
$line
END
        untune "$card" "$at" "$setting" "$value" "$was"
    done
    save
}

# With tabs between: setting CARD ADDRESS SETTING VALUE NOW MOST TROUBLE, and was_set as recorded.
# Of a driver that hangs nothing more is asked.
show() {
    if [ ! -r "$table" ]; then
        printf 'finding\tunknown\tpwr.limit\thost\t%s\n' "$table is not there"
        return
    fi
    printf 'metric\tgpu_settings\t%s\n' "$(rows | grep -c .)"
    for line in $(rows | tr ' ' '|'); do
        IFS='|' read -r card setting value <<END
$line
END
        address='' now='' most='' trouble=''
        case $gone in
            *" $card "*) trouble='it did not answer' ;;
            *)
                read_card "$card" "$setting" || {
                    trouble=$(reason) gone="$gone $card "
                    trouble=${trouble:-it did not answer}
                }
                ;;
        esac
        if [ -n "$hangs" ]; then
            printf 'finding\tunknown\tdrv.hang\thost\t%s\n' "$trouble"
            return
        fi
        printf 'setting\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' \
            "$card" "$address" "$setting" "$value" "$now" "$most" "$trouble"
    done
    echo "$had" | sed -n '/./s/^/was_set /p' | tr ' ' '\t'
}

gpu_tuning() { # set | undo | show | check [FOLDER]: in tests FOLDER is what / is otherwise
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    LC_ALL=C
    export PATH LC_ALL
    system=${2:-}
    table=$system/etc/rigops/gpu_tuning
    record=$system/var/lib/rigops/gpu_tuning.json
    schema=rigops.gpu_tuning/1 entries=settings columns='card address setting value was'
    hangs='' gone=''
    begin "$system"
    work=$(mktemp -d) || exit
    trap 'rm -rf "$work"' EXIT
    trap 'exit 143' TERM INT HUP
    had=$(recorded)
    case ${1:-} in
        set) set_all ;;
        undo) undo_all ;;
        show | check) show ;;
        *)
            echo 'usage: gpu_tuning set | undo | show | check' >&2
            exit 2
            ;;
    esac
    exit "$failed"
}

# Last, so that a program that arrives in part does nothing.
gpu_tuning "$@"
