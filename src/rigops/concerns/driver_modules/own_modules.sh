#!/bin/sh
# own_modules build KERNEL…: builds the owner's modules from the tree that was sent last, for these.
# own_modules check: are they there and loaded? for the self-check.
# own_modules remove: ends all of it, but for what is loaded.
#
# The part that no kernel matters for is built once, DKMS builds the rest for each kernel, in folders
# of its own: nothing is ever installed over the stock modules, or built by itself in a run of apt.
# A set is put in place when it is whole. Make files of the tree run without a network, and can write
# to their own folders only.
set -u

lock_s=7200
most_s=5400 # of one build, on a slow machine
need_mb=1500 # while the first part is built; real trees take 1270
core_s=280   # of one processor for each of the two parts, as measured
package=rigops-nvidia
modules='nvidia nvidia-modeset nvidia-drm nvidia-uvm nvidia-peermem'

say() { echo "$@" || :; } 2>/dev/null

refuse() { # WORDS...
    echo "$*" >&2
    exit 1
}

# What builds for no kernel is not what the next kernels are built from: the tree before it is.
refuse_tree() { # WORDS...
    cat "$folder"/*/set 2>/dev/null | grep -q "^digest $digest\$" || rm -f "$tree"
    refuse "$*"
}

# Without an end it is to be seen that it goes on.
minutes() { # COMMAND...
    "$@" &
    child=$! passed=0
    while kill -s 0 "$child" 2>/dev/null; do
        sleep 1
        passed=$((passed + 1))
        [ "$((passed % 60))" != 0 ] || say "still building: $((passed / 60)) min"
    done
    wait "$child"
}

apart() { # WRITABLE COMMAND...: as a user of its own where there is no folder to write to
    writable=$1
    shift
    if [ ! -d "$system/run/systemd/system" ]; then
        "$@"
        return
    fi
    as=--property=DynamicUser=yes
    [ -z "$writable" ] || as="--property=ReadWritePaths=$writable"
    systemd-run --quiet --collect --wait --pipe "$as" --property=ProtectSystem=strict \
        --property=ProtectHome=yes --property=PrivateTmp=yes --property=PrivateNetwork=yes \
        --property=NoNewPrivileges=yes --property=Nice=10 --property=RuntimeMaxSec="$most_s" "$@"
}

# The tree arrives on stdin, and the object leaves on stdout.
object() { # FOLDER NAME
    # shellcheck disable=SC2016  # expanded there
    apart '' sh -c '
        work=$(mktemp -d /var/tmp/rigops.XXXXXX) && cd "$work" || exit
        tar -xzf - && make -j"$1" -C "src/$2" >&2 && cat "src/$2/_out/Linux_x86_64/$3.o"
        code=$?
        cd / && rm -rf "$work"
        exit $code' object "$jobs" "$1" "$2" <"$tree" >"$new/$1/$2.o_binary" 2>"$new.log"
}

first_error() { # LOG
    grep -m 1 -iE '(error|fatal)' "$1" | cut -c -300 | grep .
}

has_tools() {
    for tool in dkms make gcc g++; do
        command -v "$tool" >/dev/null ||
            refuse "$tool is not installed. fix: sudo apt-get install dkms build-essential"
    done
}

has_room() {
    free=$(df -Pk "$system/var/tmp" | awk 'NR == 2 { print $4 }')
    [ "$((free / 1000))" -ge "$need_mb" ] ||
        refuse "the build needs $need_mb MB, and /var/tmp has $((free / 1000)) MB free." \
            "fix: free some space there"
}

# The list that DKMS builds by, as of the .run file's folder kernel-open.
instructions() {
    echo "PACKAGE_NAME=\"$package\""
    echo "PACKAGE_VERSION=\"$named\""
    echo "MAKE[0]=\"'make' -j$jobs KERNEL_UNAME=\${kernelver} modules\""
    echo 'CLEAN="true"'
    number=0
    for module in $modules; do
        echo "BUILT_MODULE_NAME[$number]=\"$module\""
        echo "DEST_MODULE_LOCATION[$number]=\"/updates/dkms\""
        number=$((number + 1))
    done
}

# Sets source: the folder for DKMS, made once for a tree.
have_source() {
    source=$folder/build/$package-$named
    [ ! -e "$source/dkms.conf" ] || return 0
    has_room
    say "modules of your own $version: building the part for every kernel," \
        "about $((core_s / jobs / 60 + 1)) min"
    rm -rf "$folder/build"
    new=$folder/build/.new
    mkdir -p "$new"
    tar -xzf "$tree" -C "$new" --strip-components=1 --no-same-owner kernel-open ||
        refuse "$tree cannot be unpacked. fix: apply again"
    for part in nvidia:nv-kernel nvidia-modeset:nv-modeset-kernel; do
        minutes object "${part%:*}" "${part#*:}" ||
            refuse_tree "the modules $version do not build: $(first_error "$new.log" ||
                tail -n 1 "$new.log"). The stock modules stay in use; see $new.log"
    done
    rm -f "$new.log"
    instructions >"$new/dkms.conf"
    sync
    mv "$new" "$source"
}

compiled() { # KERNEL: by DKMS, whose tree is its own
    rm -rf "$folder/build/dkms"
    mkdir -p "$folder/build/dkms"
    apart "$folder/build -/var/lib/dkms" dkms build -m "$package" -v "$named" -k "$1" \
        --sourcetree "$folder/build" --dkmstree "$folder/build/dkms" </dev/null
} >"$folder/build/dkms.log" 2>&1

# Of Secure Boot: the number that a signature names DKMS's key by. Empty where none is needed.
required_key() {
    variable=$system/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c
    [ "$(od -An -tu1 -j4 -N1 "$variable" 2>/dev/null | tr -d ' ')" = 1 ] || return 0
    certificate=$(cat "$system/etc/dkms/framework.conf" "$system"/etc/dkms/framework.conf.d/*.conf \
        2>/dev/null | sed -n 's/^[[:blank:]]*mok_certificate=//p' | tail -n 1 | tr -d '\042\047')
    if [ -z "$certificate" ]; then
        certificate=/var/lib/dkms/mok.pub
        ! grep -q '^ID="*ubuntu"*$' "$system/etc/os-release" ||
            certificate=/var/lib/shim-signed/mok/MOK.der
    fi
    openssl x509 -inform DER -in "$system$certificate" -noout -serial 2>/dev/null |
        sed -n 's/^serial=0*//p' | grep . || echo unreadable
}

unpacked() { # MODULE: what DKMS built of it, which may be compressed
    built=$folder/build/dkms/$package/$named/$kernel
    for file in "$built"/*/module/"$1".ko*; do
        case $file in
            *.ko) cat "$file" ;;
            *.gz) gzip -cd "$file" ;;
            *.xz) xz -cd "$file" ;;
            *.zst) zstd -qcd "$file" ;;
        esac && return
    done
    return 1
}

build_id() { # FILE
    id=$(readelf -n "$1" 2>/dev/null | sed -n 's/^ *Build ID: //p')
    echo "${id:-none}"
}

# Puts the list beside the modules: what the chooser goes by.
listed() { # FOLDER
    echo "digest $digest"
    echo "version $version"
    for module in $modules; do
        file=$1/$module.ko
        sum=$(sha256sum <"$file") || return
        echo "sha256 $module ${sum%% *}"
        echo "build-id $module $(build_id "$file")"
        echo "depends $module $(modinfo -F depends "$file")"
    done
}

is_built() { # KERNEL
    [ -e "$folder/$1/set" ] && [ "$(sed -n 's/^digest //p' "$folder/$1/set")" = "$digest" ] &&
        sed -n 's/^sha256 \(nvidia[a-z-]*\) \([0-9a-f]*\)$/\2  \1.ko/p' "$folder/$1/set" |
        (cd "$folder/$1" && sha256sum -c - >/dev/null 2>&1)
}

build_for() { # KERNEL
    kernel=$1
    if is_built "$kernel"; then
        say "modules of your own $version for Linux $kernel: there"
        return
    fi
    [ -e "$system/lib/modules/$kernel/build/." ] ||
        refuse "the headers of Linux $kernel are not installed, from which modules are built." \
            "fix: sudo apt-get install linux-headers-$kernel"
    has_tools
    have_source
    say "modules of your own $version for Linux $kernel: building," \
        "about $((core_s / jobs / 60 + 1)) min"
    place=$folder/.new
    rm -rf "$place"
    mkdir "$place"
    if ! minutes compiled "$kernel"; then
        log=$folder/build/dkms/$package/$named/build/make.log
        [ -e "$log" ] || log=$folder/build/dkms.log
        refuse_tree "the modules $version do not build for Linux $kernel: $(first_error "$log" ||
            tail -n 1 "$log"). The stock modules stay in use; see $log"
    fi
    key=$(required_key)
    for module in $modules; do
        unpacked "$module" >"$place/$module.ko" ||
            refuse "the build for Linux $kernel brought no $module.ko. The stock modules stay in use."
        [ -z "$key" ] || {
            signed=$(modinfo -F sig_key "$place/$module.ko" | tr -d ':' | sed 's/^0*//')
            [ "$signed" = "$key" ] || refuse "Secure Boot would refuse $module.ko for Linux $kernel:" \
                "it is signed with ${signed:-no key}, not with $key, the key of DKMS." \
                "The stock modules stay in use."
        }
    done
    listed "$place" >"$place/set" || exit
    chmod 644 "$place"/*
    sync
    rm -rf "$folder/.old"
    [ ! -e "$folder/$kernel" ] || mv "$folder/$kernel" "$folder/.old"
    mv "$place" "$folder/$kernel"
    sync
    rm -rf "$folder/.old" "$folder/build/dkms" "$folder/build/dkms.log"
    say "modules of your own $version for Linux $kernel: built"
}

# The tree that came last; sets tree, digest, version and named.
have_tree() {
    # shellcheck disable=SC2012  # digests
    tree=$(ls -t "$folder"/*.tar.gz 2>/dev/null | head -n 1)
    [ -n "$tree" ] || return
    digest=${tree##*/}
    digest=${digest%.tar.gz}
    version=$(tar -xzOf "$tree" version.mk 2>/dev/null |
        sed -n 's/^NVIDIA_VERSION *= *\([0-9][0-9.]*\) *$/\1/p' | head -n 1)
    named=$version+$(echo "$digest" | cut -c -12)
    [ -n "$version" ]
}

# Of kernels that have gone, and trees before the last one.
forget_old() {
    for old in "$folder"/*.tar.gz; do
        [ "$old" = "$tree" ] || rm -f "$old"
    done
    for old in "$folder"/*/set; do
        old=${old%/set}
        [ -d "$system/lib/modules/${old##*/}" ] || rm -rf "$old"
    done
}

# By a run of rigops whose boot or preflight with this tree failed.
was_given_up() {
    grep -q "^ *\"digest\": \"$digest\"" "$system/var/lib/rigops/failed_modules.json" 2>/dev/null
}

build() { # KERNELS
    [ -d "$folder" ] || refuse 'no tree of modules was sent to this machine. fix: apply again'
    exec 9>"$folder/.lock"
    # A ksh passes a descriptor on only when told to.
    flock -w "$lock_s" 9 9>&9 || refuse 'another build of the modules does not end'
    trap '' HUP PIPE
    have_tree || refuse 'no whole tree of modules was sent to this machine. fix: apply again'
    if was_given_up; then
        say "modules of your own $version were tried and failed: they are not built"
        return
    fi
    for one in $1; do
        build_for "$one"
    done
    forget_old
}

finding() { # STATUS SUMMARY
    printf 'finding\t%s\tdrv.modules\thost\t%s\n' "$1" "$2"
}

# The newest boots next, unless another one was chosen.
check() {
    if ! have_tree; then
        finding unknown 'no modules of your own are on this machine'
        return
    fi
    if was_given_up; then
        finding unknown "your own modules $version were tried and failed: they are not tried again"
        return
    fi
    newest=$(
        for image in "$system"/boot/vmlinuz-[0-9]*; do
            [ ! -e "$image" ] || echo "${image##*/vmlinuz-}"
        done | sort -V | sed -n '$p'
    )
    chosen=
    [ ! -e "$system/run/rigops/nvidia-modules" ] || read -r chosen <"$system/run/rigops/nvidia-modules"
    if [ -n "$newest" ] && ! is_built "$newest"; then
        finding fail "kernel $newest, the newest, has no modules of your own: it boots with stock ones"
    elif [ "${chosen%% *}" = stock ] && [ "$chosen" != 'stock not-asked' ]; then
        finding fail "the stock modules are loaded, not your own: ${chosen#* }"
    elif [ "$chosen" = "own $digest" ]; then
        finding ok "your own modules $version are loaded"
    else
        finding unknown 'your own modules are built, and not loaded'
    fi
}

own_modules() { # build KERNEL… | check | remove, and in tests a folder that is what / is otherwise
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    LC_ALL=C
    export PATH LC_ALL
    unset CDPATH
    umask 022
    cd / || exit
    command=$1 kernels='' system=''
    shift
    for word; do
        case $word in
            /*) system=$word ;;
            '' | .* | build | *[!A-Za-z0-9.+~_-]*) refuse "$word is no release of a kernel" ;;
            *) kernels="$kernels $word" ;;
        esac
    done
    folder=$system/var/lib/rigops/driver-modules
    jobs=$(nproc)
    case $command in
        build) build "$kernels" ;;
        check) check ;;
        remove) rm -rf "$folder" ;;
    esac
}

# Last, so that a program that arrives in part does nothing.
own_modules "$@"
