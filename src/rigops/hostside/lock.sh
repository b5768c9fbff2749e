#!/bin/sh
# lock STATE RUN DPKG SECONDS: holds the lock of one apply per host while its input is open.
#
# The first line of input names the holder, as a JSON object; `release` gives it back. Lines
# before `held` or in its place, one line each:
#   stale NOTE          an earlier holder did not give it back; its note
#   wait WHAT           processes of an earlier holder that still run, every few seconds
#   late WHAT           and that still ran after SECONDS
#   busy SECONDS NOTE   another process has held it for so long
#   trouble KIND WHAT   no_flock, or write: the note could not be written down
set -u
umask 022

# A line of JSON may have backslashes, which echo would interpret.
say() { printf '%s\n' "$*"; }

flat() { tr '\000-\037' ' ' | cut -c1-2000 | sed 's/ *$//'; }

trouble() {
    say trouble "$1" "$(printf '%s' "$2" | flat)"
    exit 1
}

# The note is the old one or the new one, never a part. A shell does not say why a write failed.
note() {
    if printf '%s\n' "$1" | cat >"$state/lock.json.rigops-new" &&
        mv -f "$state/lock.json.rigops-new" "$state/lock.json"; then
        return
    fi
    rm -f "$state/lock.json.rigops-new"
    return 1
}

written() { { flat <"$state/lock.json"; } 2>/dev/null; }

forget() { rm -f "$state/lock.json"; }

uptime_s() {
    read -r seconds _ </proc/uptime
    echo "${seconds%.*}"
}

# Who holds a lock of this kind on the files of a pattern, by the pids that the kernel names. Its
# inode numbers are not those that programs see on every file system, so the files are compared.
# The list moves while locks come and go, so it is read before anything is done about a line.
holders() {
    # shellcheck disable=SC2086  # the pattern is meant
    files=" $(stat -c %d:%i $2 2>/dev/null | tr '\n' ' ')"
    seen=' '
    grep "^[0-9]*: $1 " /proc/locks | while read -r _ _ _ _ pid _; do
        case $seen in *" $pid "*) continue ;; esac
        seen="$seen$pid "
        find "/proc/$pid/fd" -lname "*/${2##*/}" 2>/dev/null | while IFS= read -r descriptor; do
            case $files in
                *" $(stat -L -c %d:%i "$descriptor" 2>/dev/null) "*)
                    named "$pid"
                    break
                    ;;
            esac
        done
    done
}

named() {
    words=$({ flat <"/proc/$1/cmdline"; } 2>/dev/null)
    words=$(echo "${words#"flock -o -s $run/work.lock "}" | cut -c1-120)
    [ -z "$words" ] || say "$words (pid $1)"
}

# Programs of package managers count only after a holder that did not come to its end.
still_running() {
    {
        flock -n -x "$run/work.lock" true || holders FLOCK "$run/work.lock" | grep . ||
            echo 'something that holds its work.lock'
        [ -z "$before" ] || holders POSIX "$dpkg/lock*"
    } | tr '\n' ',' | sed 's/,$//; s/,/, /g'
}

wait_for() {
    found=$1 end=$(($(uptime_s) + patience)) next=0
    while [ -n "$found" ]; do
        kill -0 "$$" 2>/dev/null || exit
        now=$(uptime_s)
        if [ "$now" -ge "$end" ]; then
            # The next one has to know of the same holder.
            if [ -n "$before" ]; then note "$before"; else forget; fi
            say late "$found"
            kill "$$"
            exit
        fi
        if [ "$now" -ge "$next" ]; then
            say wait "$found"
            next=$((now + 5))
        fi
        sleep 0.5
        found=$(still_running)
    done
    echo held
}

# The holder may have begun just now and not have written its note, or be about to end.
get_or_refuse() {
    tries=10
    until flock -n 9 9>&9; do # a ksh passes a descriptor on only when told to
        before=$(written)
        pid=${before##*\"pid\": }
        tries=$((tries - 1))
        if [ "$tries" = 0 ] || kill -0 "${pid%\}*}" 2>/dev/null; then
            began=$(stat -c %Y "$state/lock.json" 2>/dev/null) || began=$(date +%s)
            say busy "$(($(date +%s) - began))" "$before"
            exit 1
        fi
        sleep 0.1
    done
}

hold() {
    state=$1 run=$2 dpkg=$3 patience=$4
    IFS= read -r holder || exit 1
    command -v flock >/dev/null || trouble no_flock ''
    said=$({
        mkdir -p "$state" "$run" && umask 077 && : >>"$state/lock" && : >>"$run/work.lock"
    } 2>&1) || trouble write "$said"
    exec 9>>"$state/lock"
    get_or_refuse
    before=
    if [ -e "$state/lock.json" ]; then
        before=$(written)
        before=${before:-unreadable}
        say stale "$before"
    fi
    said=$(note "${holder%\}}, \"pid\": $$}" 2>&1) || trouble write "$said"
    found=$(still_running)
    if [ -z "$found" ]; then
        echo held
    else
        wait_for "$found" 9>&- & # this shell goes on to see the end of its input
    fi
    while IFS= read -r line; do
        if [ "$line" = release ]; then
            forget
            break
        fi
    done
}

# Last, so that a program that arrives in part does nothing.
hold "$@"
