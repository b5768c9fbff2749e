"""Shell for sections that look at what a user may write: with that user's rights, or not at all.

In a home everything is its owner's to make: a link to a file of root's, also in place of a folder,
a pipe, a file without an end. Files that root read there would be in a bundle that people publish.
"""

from __future__ import annotations

from typing import Final

# The command is abandoned after its time, since its user can stop it at any moment.
AS_USER: Final = r"""
own=${own_id:-$(id -u)} change='' limit='' apart=''
if [ "$own" = 0 ]; then
    # That of busybox, a link, changes no user.
    if command -v setpriv >/dev/null; then
        if [ -f /usr/bin/setpriv ] && [ ! -L /usr/bin/setpriv ]; then change=/usr/bin/setpriv
        else case $(setpriv --version 2>/dev/null) in *util-linux*) change=setpriv ;; esac
        fi
    fi
    if [ -z "$change" ] && command -v su >/dev/null; then change=su; fi
fi
if command -v timeout >/dev/null; then limit='timeout 7'; fi
{ read -r stat && stat=${stat##*) } && stat=${stat#* * * * } && stat=${stat%% *}; } </proc/self/stat
if [ "$stat" != 0 ] && command -v setsid >/dev/null; then apart=setsid; fi
# A command with a user's rights, and without our groups, environment and terminal; as much of its
# output as is sensible. It is not run where the user cannot be changed.
as_user() { # UID GID NAME COMMAND…
    uid=$1 gid=$2 name=$3; shift 3
    if [ "$own" != "$uid" ]; then
        # shellcheck disable=SC2016  # for that shell to expand
        case $change in
            *setpriv) set -- "$change" --reuid "$uid" --regid "$gid" --clear-groups "$@" ;;
            su) set -- su -s /bin/sh "$name" -c 'exec "$0" "$@"' "$@" ;;
            *) return 0 ;;
        esac
    fi
    { cd / && env -i PATH="$PATH" LC_ALL=C $apart "$@" </dev/null 2>/dev/null & } |
        $limit head -c 20000
}
"""

# PROGRAM gets the home as $1, and may use `take` and `enter`. It prints `KIND PATH…` or
# `KIND NUMBER PATH…` of a file in that home; what begins with the path is a `setting`, and other
# lines are dropped. `closed HOME` is added where it did not come to its end, and `unread PATH` for
# what is there and is not read.
IN_HOMES: Final = rf"""{AS_USER}
in_homes() {{ # PROGRAM: for each home of the passwd file on stdin
    while IFS=: read -r name _ uid gid _ home _; do
        case "$uid" in 0) ;; *[!0-9]*|'') continue ;; *) [ "$uid" -ge 1000 ] || continue ;; esac
        case "$gid$name" in *[!A-Za-z0-9._-]*|-*) continue ;; esac
        case "$home" in /|/nonexistent*|*[[:space:]]*|*[*?[]*|[!/]*) continue ;; esac
        [ -d "$home" ] || continue
        # shellcheck disable=SC2154  # the script's own
        echo "$mark $home"
        as_user "$uid" "$gid" "$name" sh -c "$of_home$1
echo whole" in_homes "$home"
        echo
    done | awk '
        function ends() {{ if (home && last != "whole") says("closed " home) }}
        function says(line) {{
            left -= length(line) + 1
            if (left > 0) print line
        }}
        BEGIN {{ mark = ENVIRON["mark"] " "; left = 100000 }}
        index($0, mark) == 1 {{ ends(); home = substr($0, length(mark) + 1); last = ""; next }}
        $0 == "" {{ next }}
        last != "" {{
            path = last; sub(/^[a-z]+ ([0-9]+ )?/, "", path)
            if (index(path, home "/") == 1) says((path == last ? "setting " : "") last)
        }}
        {{ last = $0 }}
        END {{ ends() }}
    '
}}
# shellcheck disable=SC2016  # for that shell to expand
of_home='
ulimit -v 1000000
ulimit -t 5
cd "$1" || exit
# Regular files of its owner are given to the function, if there are any.
take() {{ # FUNCTION FILE…
    call=$1; shift
    for file; do
        shift
        if [ -f "$file" ] && [ ! -L "$file" ] && [ -O "$file" ] && [ -r "$file" ]; then
            set -- "$@" "$file"
        elif [ -e "$file" ] || [ -L "$file" ]; then
            echo "unread $file"
        fi
    done
    [ $# = 0 ] || "$call" "$@"
}}
enter() {{ # FOLDER…: names those whose content cannot be known
    for folder; do
        [ -e "$folder" ] || [ -L "$folder" ] || continue
        [ -d "$folder" ] && [ -r "$folder" ] && [ -x "$folder" ] || echo "unread $folder"
    done
}}
'
of_homes() {{ # KIND: of what in_homes has put into homes
    case $homes in
        *"$1 "*) printf '%s\n' "$homes" | sed -n "s/^$1 //p" ;;
    esac
}}
"""

# What NCCL is told there. A visit of all homes costs as much as ten programs.
VISITED_HOMES: Final = rf"""{IN_HOMES}
visit_homes() {{ # of the passwd file on stdin
    # shellcheck disable=SC2016  # for that shell to expand
    homes=$(in_homes '
settings() {{
    find "$@" -maxdepth 0 -size -1048577c -exec \
        grep -Hn -m 40 "NCCL_[A-Z0-9_]*[[:space:]]*=" /dev/null {{}} + -o -exec echo unread {{}} \;
}}
caches() {{ stat -c "cache %Y %n" "$@"; }}
libraries() {{
    count=0
    for file; do
        [ -e "$file" ] || continue
        echo "library $file"
        count=$((count + 1)); [ "$count" -lt 100 ] || break
    done
}}
enter "$1/.config" "$1/.config/environment.d" "$1/.config/systemd" "$1/.config/systemd/user" \
    "$1/.cache" "$1/.cache/vllm"
take settings "$1/.nccl.conf" "$1/.profile" "$1/.bash_profile" "$1/.bashrc" "$1/.zshenv" \
    "$1/.zshrc" "$1/.config/environment.d"/*.conf "$1/.config/systemd/user"/*.service
take caches "$1/.cache/vllm"/gpu_p2p_access_cache_for_*.json
libraries "$1"/*/lib/python3*/site-packages/nvidia_nccl_cu*.dist-info \
    "$1"/*/*/lib/python3*/site-packages/nvidia_nccl_cu*.dist-info \
    "$1"/*/.venv/lib/python3*/site-packages/nvidia_nccl_cu*.dist-info \
    "$1"/*/envs/*/lib/python3*/site-packages/nvidia_nccl_cu*.dist-info \
    "$1"/.*/lib/python3*/site-packages/nvidia_nccl_cu*.dist-info
')
}}
"""
