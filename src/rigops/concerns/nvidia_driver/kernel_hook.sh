#!/bin/sh
# kernel_hook installed RELEASE | judge RELEASE: is the pinned NVIDIA module there for a new kernel?
# kernel_hook check: the same of the newest kernel and the running one, for the self-check.
#
# A kernel's or its headers' package calls `installed`, which judges nothing: the headers may come
# after the image, in another call of dpkg's, and DKMS then builds in their hook; no state of dpkg's
# tells what apt is still going to unpack. So a process of its own waits until nobody works on
# packages any more, and judges what has become of it: once, however many packages have called, and
# also where a build that failed has ended the kernel's hooks. Then it has the owner's own modules
# built, where there are any. Nothing of this fails or holds up the installation.
set -u

wait_s=3600 # for the package work to end; several modules may be built for several kernels
settle_s=5  # without any, since a caller of dpkg twice leaves a gap
start_s=20
ask_s=30
notify_s=300
build_s=5400 # the owner's own modules
most_s=9600

# shellcheck source=../../hostside/shared/bounded.sh
. ./shared/bounded.sh

# The pinned version, from a record of rigops' own with one key a line.
pinned() { # KEY
    sed -n "s/^ *\"$1\": \"\([A-Za-z0-9._-]*\)\",\{0,1\}\$/\1/p" "$record" 2>/dev/null | head -n 1
}

# Nothing of the caller's stays open in it, such as what debconf waits for to be closed.
start() { # RELEASE
    if [ -d "$system/run/systemd/system" ]; then
        unit=rigops-kernel-hook-$1.service
        # It hears of a shutdown while there is still a network, and judges at once.
        bounded "$start_s" systemd-run --quiet --collect --no-block --unit="$unit" \
            --property=After=network.target --property=KillMode=mixed \
            --property=TimeoutStopSec=60 --property=RuntimeMaxSec="$most_s" \
            --property=OnFailure="rigops-failed@${unit%.service}.service" \
            "$program" judge "$1" </dev/null >/dev/null 2>&1 && return
        ! bounded "$start_s" systemctl --quiet is-active "$unit" >/dev/null 2>&1 || return 0
    fi
    setsid "$program" judge "$1" </dev/null >/dev/null 2>&1 3>&- 4>&- 5>&- 6>&- &
}

# apt and dpkg lock with fcntl, of which only /proc/locks tells, by inode and without its disk.
at_work() {
    for lock in lock-frontend lock; do
        lock=$system/var/lib/dpkg/$lock
        inode=$(stat -c %i "$lock" 2>/dev/null) || continue
        while read -r _ kind _ mode pid place _; do
            [ "$kind $mode ${place##*:}" = "POSIX WRITE $inode" ] || continue
            case $(ls -l "/proc/$pid/fd" 2>/dev/null) in *"$lock"*) return 0 ;; esac
        done <"$system/proc/locks"
    done 2>/dev/null
    return 1
}

wait_for_packages() {
    waited=0 quiet=0 over=
    trap 'over=yes' TERM
    while [ -z "$over" ] && [ "$waited" -lt "$wait_s" ] && [ "$quiet" -lt "$settle_s" ]; do
        quiet=$((quiet + 1))
        ! at_work || quiet=0
        sleep 1
        waited=$((waited + 1))
    done
}

# By file and not by name: depmod may not have run, and Debian's name is an alias of modprobe's.
versions() { # RELEASE
    find "$system/lib/modules/$1" \( -name 'nvidia.ko*' -o -name 'nvidia-current.ko*' \
        -o -name 'nvidia-current-open.ko*' -o -name 'nvidia-open.ko*' \
        -o -name 'nvidia-tesla*.ko*' -o -name 'nvidia-legacy*.ko*' \) \
        ! -name '*-drm.ko*' ! -name '*-modeset.ko*' ! -name '*-uvm.ko*' ! -name '*-peermem.ko*' \
        2>/dev/null | while read -r file; do
        bounded "$ask_s" modinfo -F version "$file" 2>/dev/null
    done | sort -u
}

# Before version 3 DKMS puts a comma where it now puts a slash.
dkms_has() { # RELEASE VERSION
    bounded "$ask_s" dkms status 2>/dev/null | sed 's/^\([^/,]*\), /\1\//' |
        grep -F "/$2, $1, " | grep -q '^nvidia.*: installed'
}

has_module() { # RELEASE VERSION: else it sets others
    others=
    if command -v modinfo >/dev/null 2>&1; then
        for found in $(versions "$1"); do
            [ "$found" != "$2" ] || return 0
            others="${others:+$others, }$found"
        done
        return 1
    fi
    dkms_has "$1" "$2"
}

# The branch of modules that Ubuntu has built already: `535`, `535-server`, `570-open`.
prebuilt() {
    sed -n 's/^ *"linux-modules-nvidia-\([0-9]*\(-server\)\{0,1\}\(-open\)\{0,1\}\)-.*": .*/\1/p' \
        "$record" | head -n 1
}

advice() { # RELEASE
    branch=$(prebuilt)
    if [ -n "$branch" ]; then
        echo "Its modules come as a package: sudo apt install linux-modules-nvidia-$branch-$1"
    elif [ -e "$system/lib/modules/$1/build/include" ]; then
        echo "Its headers are there, so the module did not build. To try again and see why:" \
            "sudo dkms autoinstall -k $1"
    else
        echo "Its headers are missing, from which DKMS builds: sudo apt install linux-headers-$1" \
            "(and where that builds nothing: sudo dkms autoinstall -k $1)"
    fi
    running=$(uname -r)
    [ "$running" = "$1" ] || echo "Until then, boot the old kernel: $running"
}

tell() { # SUBJECT, with the text on stdin
    if [ -x "$notify" ]; then
        bounded "$notify_s" "$notify" "$1" >/dev/null 2>&1
    else
        bounded "$ask_s" logger -t rigops -p user.warning >/dev/null 2>&1
    fi
}

complain() { # RELEASE VERSION
    {
        echo "Kernel $1 was installed, and has no NVIDIA module $2:" \
            "the machine would boot without its cards."
        [ -z "$others" ] || echo "It has $others instead of the pinned one."
        advice "$1"
    } | tell "kernel $1 has no NVIDIA module $2"
}

build_own_modules() { # RELEASE
    [ -x "$own_modules" ] || return 0
    ls "$own_trees"/*.tar.gz >/dev/null 2>&1 || return 0
    error=$(bounded "$build_s" "$own_modules" build "$1" 2>&1 >/dev/null) && return
    {
        echo "Kernel $1 was installed, and your own NVIDIA modules were not built for it:"
        echo "${error:-the build took too long}"
        echo "It boots with the stock modules, without P2P. To try again: rigops apply"
    } | tell "kernel $1 has none of your own NVIDIA modules"
}

judge() { # RELEASE
    wait_for_packages
    [ -e "$system/boot/vmlinuz-$1" ] || return 0 # gone again, or nothing but its headers came
    version=$(pinned version)
    [ -n "$version" ] || return 0
    has_module "$1" "$version" || complain "$1" "$version"
    build_own_modules "$1"
}

finding() { # STATUS SUMMARY
    printf 'finding\t%s\tdrv.dkms\thost\t%s\n' "$1" "$2"
}

# The newest boots next, unless another one was chosen.
check() {
    version=$(pinned version)
    newest=$(
        for image in "$system"/boot/vmlinuz-[0-9]*; do
            [ ! -e "$image" ] || echo "${image##*/vmlinuz-}"
        done | sort -V | sed -n '$p'
    )
    if [ -z "$version" ]; then
        finding unknown 'no driver is pinned'
        return
    fi
    for release in $newest $(uname -r); do
        [ -d "$system/lib/modules/$release" ] || continue
        if ! has_module "$release" "$version"; then
            finding fail "kernel $release has no NVIDIA module $version${others:+, but $others}"
            return
        fi
    done
    if [ -n "$newest" ]; then
        finding ok "kernel $newest, the newest, has the NVIDIA module $version"
    else
        finding unknown 'no kernel was found in /boot'
    fi
}

kernel_hook() { # check | installed | judge RELEASE [FOLDER]: in tests FOLDER is what / is otherwise
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    LC_ALL=C
    export PATH LC_ALL
    cd / || :
    [ "$1" != check ] || set -- check - "${2:-}"
    system=${3:-}
    record=$system/var/lib/rigops/driver.json
    program=$system/usr/local/libexec/rigops/kernel_hook
    notify=$system/usr/local/libexec/rigops/notify
    own_modules=$system/usr/local/libexec/rigops/own_modules
    own_trees=$system/var/lib/rigops/driver-modules
    case ${2:-} in '' | *[!A-Za-z0-9.+~_-]*) exit 0 ;; esac
    case $1 in
        installed) [ -z "$(pinned version)" ] || start "$2" ;;
        judge) judge "$2" ;;
        check) check ;;
    esac
    exit 0
}

# Last, so that a program that arrives in part does nothing.
kernel_hook "$@"
