#!/bin/sh
# Runs as root in the tree of a host, running or not: its driver becomes DRIVER, or none where that is
# empty. Nothing is touched unless apt can do all of it.
set -eu
work=/run/rigsim-install
trap 'rm -rf "$work"' EXIT

# The driver is pinned to its version, and the suite it came from is in sight; neither stays.
mkdir -p "$work/lists/partial"
printf '%s' "$SOURCES" >"$work/first.sources"
unset SOURCES
{
    for names in 'src:nvidia-graphics-drivers*' 'src:nvidia-open-gpu-kernel-modules'; do
        printf 'Package: %s\nPin: version %s-*\nPin-Priority: 1001\n\n' "$names" "$DRIVER"
        printf 'Package: %s\nPin: version *\nPin-Priority: -1\n\n' "$names"
    done
    # What is around it is no newer than these suites have it.
    printf 'Package: src:nvidia-settings src:nvidia-modprobe src:nvidia-persistenced\n'
    printf 'Pin: release o=%s\nPin-Priority: 1001\n\n' "$ORIGIN"
} >"$work/pins"

here() {
    program=$1
    shift
    "$program" -qq -o Dir::Etc::sourcelist="$work/first.sources" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$work/lists" \
        -o Dir::Etc::preferences="$work/pins" -o Dir::Etc::preferencesparts=- \
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root \
        -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Options::=--force-confold \
        -o DPkg::Lock::Timeout=60 "$@"
}
change() {
    here apt-get -y --allow-downgrades --allow-change-held-packages --purge "$@" </dev/null
}
packages() {
    # shellcheck disable=SC2016  # dpkg-query's own
    dpkg-query -W -f '${Package} ${Version} ${db:Status-Status} ${source:Package}\n' |
        awk -v driver="$DRIVER-" "$1 { print \$1 }"
}
# shellcheck disable=SC2016  # awk's own
of_driver='$4 ~ /^nvidia-(graphics-drivers|open-gpu-kernel-modules|settings|modprobe|persistenced)/'
installed="\$3 == \"installed\""
# With a dash those that go: what the version does not have, or all, with what they have left.
followers() {
    if [ -z "$DRIVER" ]; then
        packages "\$3 != \"not-installed\" && ($of_driver || \$1 ~ /nvidia/)" | sed 's/$/-/'
        return
    fi
    for package in $(packages "$installed && $of_driver"); do
        if here apt-cache policy "$package" | grep -q 'Candidate: (none)'; then
            package=$package-
        fi
        echo "$package"
    done
}

here apt-get update
# shellcheck disable=SC2046,SC2086  # they are words
set -- $PACKAGES $(followers)
change -s install "$@" >/dev/null
change install "$@"

[ -n "$DRIVER" ] || exit 0
mark=unhold
[ -z "$HELD" ] || mark=hold
packages "$installed && $of_driver" | xargs apt-mark -qq "$mark" >/dev/null
unit=nvidia-persistenced.service
if [ -n "$PERSISTENCE" ]; then
    systemctl --quiet enable "$unit"
else
    systemctl --quiet disable "$unit" 2>/dev/null || true
fi
