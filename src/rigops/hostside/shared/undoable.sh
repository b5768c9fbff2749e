# shellcheck shell=sh
# ---- shared by the programs that set something, and undo exactly what they have set ----
#
# A program's settings since the boot, with the values before: so that undoing is exact.
#
# An entry is a line of words in the order of `columns`, and a line of the record. `record`, `schema`,
# `entries` and `columns` (`#` before those that are numbers) come from the program. A record of
# another boot counts for nothing, since a boot has undone all of it.

complain() {
    echo "$1" >&2
    failed=1
}

begin() { # FOLDER that stands for /
    read -r boot_id <"$1/proc/sys/kernel/random/boot_id" || exit
    failed=0
}

recorded() {
    grep -qsF "\"boot_id\": \"$boot_id\"" "$record" || return 0
    sed -n '
        /^{\("[a-z_]*": "\{0,1\}[A-Za-z0-9_:.,-]*"\{0,1\}[, ]*\)*},\{0,1\}$/ {
            s/"[a-z_]*": "\{0,1\}\([A-Za-z0-9_:.,-]*\)"\{0,1\}/\1/g
            s/^{\(.*\)},*$/\1/
            s/, / /g
            p
        }
    ' "$record"
}

# Of none at all the record goes.
write_down() { # ENTRIES, between newlines
    had=$(echo "$1" | sed '/./!d')
    [ -n "$had" ] || { rm -f "$record" && return; }
    mkdir -p "${record%/*}" &&
        echo "$had" | awk -v columns="$columns" -v head="{\"schema\": \"$schema\", \"boot_id\": \"$boot_id\", \"$entries\": [" '
            BEGIN { count = split(columns, names, " "); print head }
            {
                line = ""
                for (at = 1; at <= count; at++) {
                    name = names[at]
                    value = sub(/^#/, "", name) ? $at : "\"" $at "\""
                    line = line (at > 1 ? ", " : "") "\"" name "\": " value
                }
                printf "%s{%s}", (NR > 1 ? ",\n" : ""), line
            }
            END { print "\n]}" }
        ' >"$record.rigops-new" && mv -f "$record.rigops-new" "$record"
}

# ---- the program itself ----
