# Runs as root inside the new tree, once. KERNEL is the release of the machine's own kernel, which is
# what `uname -r` says in a host.

useradd --create-home --shell /bin/bash rig
echo 'rig ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/rig
chmod 440 /etc/sudoers.d/rig
install -d -m 700 /root/.ssh
install -d -m 700 -o rig -g rig /home/rig/.ssh

# Each host has its own.
rm -f /etc/ssh/ssh_host_*_key* /etc/hostname
: > /etc/machine-id
rm -f /var/lib/dbus/machine-id

# A host's only source of packages is the lab's repository.
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/* /var/cache/apt/*.bin
install -d /usr/lib/rigsim /srv/rigsim-apt /etc/rigsim

# A login before systemd-user-sessions is refused to all but root.
install -d /etc/systemd/system/ssh.service.d
printf '[Unit]\nAfter=systemd-user-sessions.service\n' > /etc/systemd/system/ssh.service.d/lab.conf

# What a test host does not need. The path units also cost an inotify instance each, of which a machine
# allows all its hosts together 128.
for unit in apt-daily.timer apt-daily-upgrade.timer console-getty.service dpkg-db-backup.timer \
    e2scrub_all.timer e2scrub_reap.service fstrim.timer getty.target \
    systemd-ask-password-console.path systemd-ask-password-wall.path systemd-binfmt.service \
    systemd-firstboot.service systemd-hwdb-update.service systemd-networkd-wait-online.service \
    systemd-pcrphase-sysinit.service systemd-pcrphase.service systemd-pstore.service \
    systemd-random-seed.service systemd-timesyncd.service systemd-tmpfiles-clean.timer; do
    ln -sf /dev/null "/etc/systemd/system/$unit"
done

: > "/boot/vmlinuz-$KERNEL"
: > "/boot/initrd.img-$KERNEL"
install -d "/lib/modules/$KERNEL"
depmod "$KERNEL"

# grub-mkconfig asks what disk and file system it is on, and an overlay is neither: the answers are
# those of a usual installation, or of /etc/rigsim/disk.
dpkg-divert --quiet --local --rename --add /usr/sbin/grub-probe
cat > /usr/sbin/grub-probe <<'PROBE'
#!/bin/sh
device=/dev/nvme0n1p2
fs=ext2
fs_uuid=7c1d2f0e-5f0b-4a52-9a3c-2f6f0c1e9b77
partuuid=3f9a6a54-02
partmap=gpt
[ ! -r /etc/rigsim/disk ] || . /etc/rigsim/disk
target=fs
while [ $# -gt 0 ]; do
    case $1 in
        --target=*) target=${1#--target=} ;;
        -t) shift; target=$1 ;;
    esac
    shift
done
case $target in
    device) echo "$device" ;;
    fs) echo "$fs" ;;
    fs_uuid) echo "$fs_uuid" ;;
    partuuid) echo "$partuuid" ;;
    partmap) echo "$partmap" ;;
    drive) echo "(hd0,${partmap}2)" ;;
    hints_string) echo "--hint-bios=hd0,${partmap}2 --hint-efi=hd0,${partmap}2" ;;
    compatibility_hint) echo "hd0,${partmap}2" ;;
    abstraction) echo ;;
    *) exit 1 ;;
esac
PROBE
chmod 755 /usr/sbin/grub-probe
# The simulated cards' modules are not ones that this machine's kernel could load. kmod looks at the
# name it is called by, so the real program keeps its name and gets another folder.
kmod=$(dpkg -L kmod | grep '/sbin/modprobe$')
program=$(readlink -f "$kmod")
install -d /usr/lib/kmod
dpkg-divert --quiet --local --rename --divert /usr/lib/kmod/modprobe --add "$kmod"
ln -sfn "$program" /usr/lib/kmod/modprobe # a relative link would lead nowhere from here
cat > /usr/sbin/modprobe <<'MODPROBE'
#!/bin/sh
# The modules of the simulated cards go to the simulation, all else to the real modprobe.
real=/usr/lib/kmod/modprobe
rigsim=/usr/lib/rigsim/bin/rigsim

remove=
all=
first=
wanted=
held=
has() { case $2 in *"$1"*) return 0 ;; esac; return 1; }
for word; do
    case $word in
        --remove) remove=yes ;;
        --all) all=yes ;;
        --force | --force-modversion | --force-vermagic | --ignore-install | --ignore-remove | \
            --first-time | --quiet | --use-blacklist | --verbose | --syslog | --) ;;
        --* | -*[!abfiqrsv]*) exec "$real" "$@" ;;
        -*)
            if has r "$word"; then remove=yes; fi
            if has a "$word"; then all=yes; fi
            ;;
        *)
            # What follows a single module is its parameters.
            [ -z "$first" ] || [ -n "$all$remove" ] || continue
            first=$word
            case $(echo "$word" | tr - _) in
                nvidia | nvidia_current | nvidia_current_open) wanted=yes held=yes ;;
                nvidia_uvm | nvidia_modeset | nvidia_drm | nvidia_peermem) wanted=yes ;;
                nvidia_current_*) wanted=yes ;;
                nouveau) wanted=${wanted:-nouveau} ;;
                *) exec "$real" "$@" ;;
            esac
            ;;
    esac
done
if [ -z "$wanted" ] || [ ! -x "$rigsim" ]; then
    exec "$real" "$@"
fi
if [ "$(id -u)" != 0 ]; then
    echo "modprobe: ERROR: '$first': Operation not permitted" >&2
    exit 1
fi
case $wanted,$remove in
    nouveau,) exit 0 ;;
    # Only what holds the cards can let go of them.
    nouveau,yes) [ -e /proc/driver/nvidia/version ] || exec "$rigsim" driver unload ;;
    yes,) exec "$rigsim" driver load ;;
    # Without its helpers the driver itself stays.
    yes,yes) [ -z "$held" ] || exec "$rigsim" driver unload ;;
esac
MODPROBE
chmod 755 /usr/sbin/modprobe

cp /usr/share/grub/default/grub /etc/default/grub
install -d /boot/grub
grub-editenv /boot/grub/grubenv create
update-grub

rm -rf /usr/share/doc/* /usr/share/man/* /usr/share/locale/* /usr/share/info/* /var/log/*.log
