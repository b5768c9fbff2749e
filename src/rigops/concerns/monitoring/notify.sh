#!/bin/sh
# notify SUBJECT: sends a message, with the text on stdin.
#
#   notify SUBJECT                      of something that is wrong
#   notify good SUBJECT                 of a problem that ended
#   notify unit NAME                    of a unit of systemd that failed, with the end of its journal
#   notify ping start | success | fail  to the dead-man URL, which alarms when nothing comes any more
#
# To the journal always, and to what /etc/rigops/notify names: a line `command`, `url` or `ping`,
# then its value. Its caller may be failing already, so it never blocks for long. It
# ends with 1 where the journal alone has it.
#
# A value may be a secret, so it is in no program's arguments, which every user can read. Subject
# and text are untrusted data: no character of theirs steers a terminal or a program.
set -u

most_bytes=4095 # and a line feed
most_of_subject=200
read_s=30
command_s=60
connect_s=10
whole_s=30
tries=3
pause_s=5
ask_s=10
journal_lines=20

# shellcheck source=../../hostside/shared/bounded.sh
. ./shared/bounded.sh

# As it is, where echo may make something of backslashes, and printf may show it as its argument.
say() {
    cat <<END
$1
END
}

# Control characters but for tab and line feed; the second set as UTF-8 has it.
clean() {
    LC_ALL=C tr -d '\000-\010\013-\037\177' | LC_ALL=C sed "s/$(printf '\302[\200-\237]')//g"
}

# From stdin. A character that is cut in two goes whole: the rest of it is no text.
at_most() { # BYTES
    cut=$(head -c "$(($1 + 1))")
    if [ "$(say "$cut" | wc -c)" -le "$(($1 + 1))" ]; then
        say "$cut"
        return
    fi
    say "$cut" | head -c "$1" | LC_ALL=C sed '$ s/'"$(printf '[\300-\377][\200-\277]*')"'$//'
}

# The caller may write more than is wanted, or may forget to end.
read_text() {
    [ ! -t 0 ] || return 0
    {
        bounded "$read_s" head -c 65536
        bounded "$read_s" cat >/dev/null
    } | clean | at_most "$most_bytes"
}

record() { # PRIORITY: lines from stdin
    bounded 10 logger -t rigops -p "user.$1" >/dev/null 2>&1
}

quoted() { # within the quotes of a configuration of curl's
    LC_ALL=C sed 's/[\\"]/\\&/g' | awk '{ printf "%s%s", between, $0; between = "\\n" }'
}

by_curl() {
    answer=$(
        bounded "$((whole_s + 5))" curl -q --config - 2>/dev/null <<END
url = "$(say "$value" | quoted)"
$(say "$headers" | LC_ALL=C sed 's/[\\"]/\\&/g; s/.*/header = "&"/')
data-raw = "$(say "$text" | quoted)"
header = "Expect:"
silent
globoff
proto = "=http,https"
connect-timeout = $connect_s
max-time = $whole_s
output = "/dev/null"
write-out = "%{http_code}"
END
    )
    code=$?
    reason="the server answered $answer"
    [ "$code" = 0 ] || reason="curl ended with $code"
    case $code$answer in 02??) return 0 ;; esac
    return 1
}

by_wget() {
    file=$(mktemp) || return 1
    say "$text" >"$file"
    set --
    while IFS= read -r header; do set -- "$@" "--header=$header"; done <<END
$headers
END
    say "$value" | bounded "$whole_s" wget --no-config --quiet --input-file=- \
        --auth-no-challenge --output-document=/dev/null --tries=1 --max-redirect=0 --dns-timeout="$connect_s" \
        --connect-timeout="$connect_s" "$@" --post-file="$file" >/dev/null 2>&1
    code=$?
    rm -f "$file"
    reason="wget ended with $code"
    return "$code"
}

in_python='
import base64, signal, sys, urllib.parse, urllib.request

class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None

signal.alarm(int(sys.argv[2]))
head, _, text = sys.stdin.buffer.read().partition(b"\n\n")
url, *lines = head.split(b"\n")
parts = urllib.parse.urlsplit(url.decode())
user, _, place = parts.netloc.rpartition("@")
headers = dict(line.decode("latin-1").split(": ", 1) for line in lines)
if user:
    login = base64.b64encode(urllib.parse.unquote_to_bytes(user)).decode()
    headers["Authorization"] = "Basic " + login
try:
    request = urllib.request.Request(parts._replace(netloc=place).geturl(), text, headers)
    urllib.request.build_opener(Stay).open(request, timeout=int(sys.argv[1]))
except Exception as error:  # its words may have the URL in them
    print(type(error).__name__, getattr(error, "code", ""))
    sys.exit(1)
'
by_python() {
    reason=$(
        bounded "$((whole_s + 5))" python3 -I -c "$in_python" "$connect_s" "$whole_s" 2>/dev/null <<END
$value
$headers

$text
END
    )
    code=$?
    reason="python3 ended with $code $reason"
    return "$code"
}

is_here() {
    command -v "$1" >/dev/null 2>&1
}

# Redirections are not followed: what is sent may be for this server alone.
post() {
    if is_here curl; then
        by_curl
    elif is_here wget && wget --version 2>/dev/null | grep -q 'GNU Wget'; then
        by_wget
    elif is_here python3; then
        by_python
    else
        reason='neither curl nor GNU wget nor python3 is here'
        return 1
    fi
}

post_often() {
    left=$tries
    until post; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || return 1
        sleep "$pause_s"
    done
}

# Not in the arguments of the shell either.
# shellcheck disable=SC2016  # for that shell to expand
in_shell='value=$RIGOPS_COMMAND; unset RIGOPS_COMMAND; eval "$value"'
run() {
    (
        export RIGOPS_SUBJECT="$subject" RIGOPS_HOST="$host" RIGOPS_COMMAND="$value"
        say "$text" | bounded "$command_s" sh -c "$in_shell" >/dev/null 2>&1
    )
    code=$?
    reason="the command ended with $code"
    case $code in 124 | 143) reason="the command did not end in $command_s s" ;; esac
    return "$code"
}

# Sets kind and value, and ping.
read_target() {
    kind='' value='' ping=''
    while read -r what && IFS= read -r its; do
        case $what in
            command | url) kind=$what value=$its ;;
            ping) ping=$its ;;
            *) kind=$what ;;
        esac
    done 2>/dev/null <"$target"
    [ -n "$kind$ping" ] || kind=unreadable
}

deliver() {
    [ -e "$target" ] || return 0
    read_target
    case $kind in
        command) run ;;
        url) post_often ;;
        '') ;;
        *)
            reason='/etc/rigops/notify could not be read'
            return 1
            ;;
    esac
}

tell() { # SUBJECT
    subject=$(say "$1" | clean | at_most "$most_of_subject" | tr '\n' ' ')
    subject=${subject% }
    [ -n "$text" ] || text=$subject
    headers="Title: $host: $subject
Priority: $priority
Tags: $tags
Content-Type: text/plain; charset=utf-8"
    {
        say "$subject"
        [ "$text" = "$subject" ] || say "$text"
    } | record warning
    deliver && return
    say "not delivered: \"$subject\": $reason" | record err
    exit 1
}

# The query, from ? on, stays behind the path.
ping() { # start | success | fail
    [ -e "$target" ] || return 0
    read_target
    [ -n "$ping" ] || return 0
    case $1 in
        start) end=/start tries=1 ;;
        success) end='' ;;
        *) end=/fail ;;
    esac
    value=$ping
    case $end$ping in
        /*\?*)
            value=${ping%%\?*}
            value="${value%/}$end?${ping#*\?}"
            ;;
        /*) value=${ping%/}$end ;;
    esac
    headers='Content-Type: text/plain; charset=utf-8'
    post_often && return
    say "not delivered: ping $1: $reason" | record err
    exit 1
}

result_of() { # UNIT
    bounded "$ask_s" systemctl show -p Result "$1" 2>/dev/null | sed 's/^Result=//'
}

of_unit() { # UNIT
    bounded "$ask_s" journalctl -q -b -u "$1" -n "$journal_lines" -o cat --no-pager 2>/dev/null |
        clean | at_most "$most_bytes"
}

notify() { # SUBJECT | good SUBJECT | unit NAME | ping … [FOLDER]: in tests FOLDER is what / is otherwise
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    export PATH
    cd / || :
    verb=tell priority=high tags=warning
    case ${1:-} in
        good | unit | ping)
            verb=$1
            shift
            ;;
    esac
    target=${2:-}/etc/rigops/notify
    host=$(uname -n)
    case $verb in
        unit)
            # From systemd 251 on; a unit that is collected at once has no result any more.
            result=${MONITOR_SERVICE_RESULT:-$(result_of "$1")}
            [ "$result" != success ] || result=
            text=$(of_unit "$1")
            tell "$1 failed${result:+: $result}"
            ;;
        ping)
            text=$(read_text)
            ping "${1:-}"
            ;;
        *)
            [ "$verb" = tell ] || priority=default tags=white_check_mark
            text=$(read_text)
            tell "${1:-}"
            ;;
    esac
    exit 0
}

# Last, so that a program that arrives in part does nothing.
notify "$@"
