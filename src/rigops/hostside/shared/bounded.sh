# shellcheck shell=sh
# ---- shared by the programs that may not be held up by another one ----

# Ends the command with all that it started, where there is anything that can.
bounded() { # SECONDS COMMAND…
    if command -v timeout >/dev/null 2>&1; then
        timeout -k 5 "$@"
    else
        shift
        "$@"
    fi
}

# ---- the program itself ----
