#!/bin/sh
# install.sh ROOT SCRIPT, in namespaces of its own: everything that is mounted here ends with it.
set -eu
root=$1

mount --rbind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"

chroot "$root" sh -euc "$2"
chroot "$root" env -u SOURCES apt-get -qq -o APT::Sandbox::User=root update
