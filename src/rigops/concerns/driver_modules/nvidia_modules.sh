#!/bin/sh
# nvidia_modules MODULE STOCK OPTIONS: how modprobe loads one of NVIDIA's modules.
#
# The owner's own set where the kernel was started with rigops.nvidia=own and all of the set is fit
# for this boot, else the stock one, whose name is STOCK. Which, is decided with the first module and
# recorded, so that no two sets are ever mixed. OPTIONS is one word: those of modprobe's files.
#
# It runs while the machine boots, for several cards at once, before there is a log or a network.
set -uf

wait_s=120 # for another one that loads the first module

say() { { echo "<4>rigops: $1" >>"$system/dev/kmsg"; } 2>/dev/null; }

entry() { # WORD MODULE: from the set's list
    sed -n "s/^$1 $2 //p" "$own/set"
}

# Sets why: empty where the owner's set is what to load.
judge_own_set() {
    why=not-asked
    read -r arguments <"$system/proc/cmdline"
    case " $arguments " in *' rigops.nvidia=own '*) ;; *) return ;; esac
    why=not-mounted
    [ -d "$system/var/lib/rigops" ] || return
    why=not-built
    [ -e "$own/set" ] || return
    version=$(sed -n 's/^version //p' "$own/set")
    digest=$(sed -n 's/^digest //p' "$own/set")
    why=damaged
    sums=$(sed -n 's/^sha256 \(nvidia[a-z-]*\) \([0-9a-f]*\)$/\2  \1.ko/p' "$own/set")
    [ "$(echo "$sums" | grep -c .)" = 5 ] || return
    (cd "$own" && echo "$sums" | sha256sum -c - >/dev/null 2>&1) || return
    why=other-version
    installed=$(modinfo -F version "$stock" 2>/dev/null)
    [ "${installed:-$version}" = "$version" ] || return
    why=no-firmware
    [ -d "$system/lib/firmware/nvidia/$version" ] || return
    why=
}

# modprobe knows the module's own name only, and the files may have options of the stock one's.
load_own() { # an error's text is its last line
    of_stock=
    [ "$stock" = "$module" ] ||
        of_stock=$(modprobe -c 2>/dev/null |
            sed -n "/^# End of conf/q; s/^options $(echo "$stock" | tr - _) //p" | tr '\n' ' ')
    for needed in $(entry depends "$module" | tr , ' '); do
        case $needed in nvidia*) ;; *) modprobe -q "$needed" ;; esac
    done
    # shellcheck disable=SC2086  # a word each
    insmod "$own/$module.ko" $of_stock $options
}

load_stock() {
    # shellcheck disable=SC2086  # a word each
    exec modprobe -i "$stock" $options
}

load_first() {
    mkdir -p "${record%/*}"
    exec 9>"$record.lock"
    flock -w "$wait_s" 9 9>&9 # a ksh passes a descriptor on only when told to
    [ ! -e "$system/sys/module/nvidia" ] || exit 0
    judge_own_set
    if [ -z "$why" ]; then
        if error=$(load_own 2>&1); then
            echo "own $digest" >"$record"
            exit 0
        fi
        why=refused
        say "${error##*
}"
    fi
    echo "stock $why" >"$record"
    [ "$why" = not-asked ] || say "the stock nvidia modules are loaded, not the owner's: $why"
    load_stock
}

load_next() {
    before=nvidia
    [ "$module" != nvidia-drm ] || before=nvidia-modeset
    modprobe "$before" || exit
    chosen=
    [ ! -e "$record" ] || read -r chosen _ <"$record"
    [ "$chosen" = own ] || load_stock
    error=$(load_own 2>&1) && exit
    [ ! -e "$system/sys/module/$(echo "$module" | tr - _)" ] || exit 0 # by another one meanwhile
    say "${error##*
}"
    exit 1
}

nvidia_modules() { # MODULE STOCK OPTIONS [FOLDER]: in tests FOLDER is what / is otherwise
    PATH=/usr/sbin:/usr/bin:/sbin:/bin
    LC_ALL=C
    export PATH LC_ALL
    umask 022
    module=$1 stock=$2 options=$3 system=${4:-}
    record=$system/run/rigops/nvidia-modules
    read -r kernel <"$system/proc/sys/kernel/osrelease"
    own=$system/var/lib/rigops/driver-modules/$kernel
    if [ "$module" = nvidia ]; then load_first; else load_next; fi
}

# Last, so that a program that arrives in part does nothing.
nvidia_modules "$@"
