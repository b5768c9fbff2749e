#!/bin/sh
# install.sh ROOT, in namespaces of its own: everything that is mounted here ends with it.
set -eu
root=$1

mount --rbind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"

# The driver is pinned to its version, and the suite it came from is in sight; neither stays.
mkdir -p "$root/run/rigsim-install/lists/partial"
printf '%s' "$SOURCES" >"$root/run/rigsim-install/first.sources"
{
    for names in 'src:nvidia-graphics-drivers*' 'src:nvidia-open-gpu-kernel-modules'; do
        printf 'Package: %s\nPin: version %s-*\nPin-Priority: 1001\n\n' "$names" "$DRIVER"
        printf 'Package: %s\nPin: version *\nPin-Priority: -1\n\n' "$names"
    done
} >"$root/run/rigsim-install/pins"

run() { chroot "$root" env -u SOURCES "$@"; }
apt() {
    run apt-get -qq -o Dir::Etc::sourcelist=/run/rigsim-install/first.sources \
        -o Dir::Etc::sourceparts=- -o Dir::State::lists=/run/rigsim-install/lists \
        -o Dir::Etc::preferences=/run/rigsim-install/pins \
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root \
        -o Dpkg::Options::=--force-unsafe-io "$@"
}

apt update
# shellcheck disable=SC2086  # they are words
apt install -y $PACKAGES

driver_packages() {
    # shellcheck disable=SC2016  # dpkg-query's own
    run dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' |
        awk -v driver="$DRIVER-" '$3 == "installed" && index($2, driver) == 1 { print $1 }'
}
if [ -n "$HELD" ] && [ -n "$DRIVER" ]; then
    driver_packages | xargs chroot "$root" apt-mark -qq hold >/dev/null
fi
if [ -n "$DRIVER" ]; then
    unit=nvidia-persistenced.service
    if [ -z "$PERSISTENCE" ]; then
        run systemctl --quiet disable "$unit" 2>/dev/null || true
    else
        run systemctl --quiet enable "$unit"
    fi
fi

run apt-get -qq -o APT::Sandbox::User=root update
