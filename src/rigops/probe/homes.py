"""Shell for sections that look at what a user may write: with that user's rights, or not at all.

In a home everything is its owner's to make: a link to a file of root's, also in place of a folder,
a pipe, a file without an end. What root read there would be in a bundle that people publish.
"""

from __future__ import annotations

from typing import Final

# Nobody waits for the command longer than its time, since its user can stop it at any moment.
AS_USER: Final = r"""
bound=; if timeout --version >/dev/null 2>&1; then bound='timeout -s KILL'; fi
apart=; if command -v setsid >/dev/null; then apart=setsid; fi
# A command with a user's rights, and without our groups, environment and terminal. It is not run
# where nobody can change the user.
as_user() { # UID GID NAME COMMAND…
    uid=$1 gid=$2 name=$3; shift 3
    set -- ${bound:+$bound 6} "$@"
    own=$(id -u)
    if [ "$own" != "$uid" ]; then
        [ "$own" = 0 ] || return 0
        case $(setpriv --version 2>/dev/null) in
            *util-linux*) set -- setpriv --reuid "$uid" --regid "$gid" --clear-groups "$@" ;;
            *)
                command -v su >/dev/null || return 0
                # shellcheck disable=SC2016  # for that shell to expand
                set -- su -s /bin/sh "$name" -c 'exec "$0" "$@"' "$@"
                ;;
        esac
    fi
    { cd / && env -i PATH="$PATH" LC_ALL=C $apart "$@" </dev/null 2>/dev/null & } |
        ${bound:+$bound 7} cat
}
"""

# PROGRAM gets the home as $1, and may use `take` and `enter`. What it prints is `KIND PATH…` or
# `KIND NUMBER PATH…` of a file in that home; other lines are dropped. `closed HOME` is added where
# it did not come to its end, and `unread PATH` for what is there and is not read.
IN_HOMES: Final = rf"""{AS_USER}
in_homes() {{ # PROGRAM: for each home of the passwd file on stdin
    while IFS=: read -r name _ uid gid _ home _; do
        case "$uid" in 0) ;; *[!0-9]*|'') continue ;; *) [ "$uid" -ge 1000 ] || continue ;; esac
        case "$gid$name" in *[!A-Za-z0-9._-]*|-*) continue ;; esac
        case "$home" in /|/nonexistent*|*[[:space:]]*|*[*?[]*|[!/]*) continue ;; esac
        [ -d "$home" ] || continue
        as_user "$uid" "$gid" "$name" sh -c "$of_home$1
echo whole" in_homes "$home" | head -c 20000 | awk -v home="$home" '
            NR > 1 {{
                path = last; sub(/^[a-z]+ ([0-9]+ )?/, "", path)
                if (index(path, home "/") == 1) print last
            }}
            {{ last = $0 }}
            END {{ if (last != "whole") print "closed " home }}
        '
    done | head -c 100000
}}
# shellcheck disable=SC2016  # for that shell to expand
of_home='
ulimit -v 1000000
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
enter() {{ # FOLDER…: says of which nobody can tell what is in them
    for folder; do
        [ -e "$folder" ] || [ -L "$folder" ] || continue
        [ -d "$folder" ] && [ -r "$folder" ] && [ -x "$folder" ] || echo "unread $folder"
    done
}}
'
"""
