#!/bin/sh
# notify SUBJECT: tells somebody, with the text on stdin.
#
# To the journal always, and to what /etc/rigops/notify names: a line `command` or `url`, then its
# value. Whoever calls this is in trouble already: it is never held up for long, and never failed.
#
# The value may be a secret, so it is in no program's arguments, which every user can read. Subject
# and text are data, of whom nobody knows: no character of theirs steers a terminal or a program.
set -u

most_bytes=4095 # and a line feed
most_of_subject=200
read_s=30
command_s=60
connect_s=10
whole_s=30
tries=3
pause_s=5

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
header = "Title: $(say "$title" | quoted)"
data-raw = "$(say "$text" | quoted)"
header = "Content-Type: text/plain; charset=utf-8"
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
    say "$value" | bounded "$whole_s" wget --no-config --quiet --input-file=- \
        --auth-no-challenge --output-document=/dev/null --tries=1 --max-redirect=0 --dns-timeout="$connect_s" \
        --connect-timeout="$connect_s" --header="Title: $title" \
        --header='Content-Type: text/plain; charset=utf-8' --post-file="$file" >/dev/null 2>&1
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
url, title, text = sys.stdin.buffer.read().split(b"\n", 2)
parts = urllib.parse.urlsplit(url.decode())
user, _, place = parts.netloc.rpartition("@")
title = title.decode("latin-1")
headers = {"Title": title, "Content-Type": "text/plain; charset=utf-8"}
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
$title
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

deliver() {
    target=$system/etc/rigops/notify
    [ -e "$target" ] || return 0
    kind='' value=''
    { read -r kind && IFS= read -r value; } 2>/dev/null <"$target"
    case $kind in
        command) run ;;
        url) post_often ;;
        *)
            reason='/etc/rigops/notify could not be read'
            return 1
            ;;
    esac
}

notify() { # SUBJECT [FOLDER]: in tests FOLDER is what / is otherwise
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    export PATH
    cd / || :
    system=${2:-}
    host=$(uname -n)
    subject=$(say "${1:-}" | clean | at_most "$most_of_subject" | tr '\n' ' ')
    subject=${subject% }
    text=$(read_text)
    [ -n "$text" ] || text=$subject
    title="$host: $subject"
    {
        say "$subject"
        [ "$text" = "$subject" ] || say "$text"
    } | record warning
    deliver || say "nobody was told of \"$subject\": $reason" | record err
    exit 0
}

# Last, so that a program that arrives in part does nothing.
notify "$@"
