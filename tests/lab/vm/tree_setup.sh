# Runs as root inside the new tree, once. KEY is the lab's public key; SOURCES are the lab's packages,
# which are in sight only now.

export DEBIAN_FRONTEND=noninteractive
mkdir /run/lab
printf %s "$SOURCES" > /run/lab/lab.sources
here() {
    apt-get -qq -o Dir::Etc::sourcelist=/run/lab/lab.sources -o Dir::Etc::sourceparts=- \
        -o APT::Sandbox::User=root -o Dpkg::Options::=--force-unsafe-io "$@"
}
here update
here -y --no-install-recommends install nvidia-smi libcuda1 libnccl2
rm -r /run/lab
# A machine has no way out, so what it has now is all that it can install.
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*

echo machine > /etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 machine\n' > /etc/hosts
echo 'nameserver 10.0.2.3' > /etc/resolv.conf
systemd-machine-id-setup

useradd --create-home --shell /bin/bash rig
echo 'rig ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/rig
chmod 440 /etc/sudoers.d/rig
for home in /root /home/rig; do
    owner=$(stat -c %U:%G "$home")
    install -d -m 700 "$home/.ssh"
    echo "$KEY" > "$home/.ssh/authorized_keys"
    chmod 600 "$home/.ssh/authorized_keys"
    chown -R "$owner" "$home/.ssh"
done
printf 'PasswordAuthentication no\nUseDNS no\n' > /etc/ssh/sshd_config.d/lab.conf
rm -f /etc/ssh/ssh_host_*
ssh-keygen -q -t ed25519 -N '' -C '' -f /etc/ssh/ssh_host_ed25519_key

# An address that is there at once: waiting for DHCP costs longer than the rest of the boot.
cat > /etc/systemd/network/lab.network <<'NETWORK'
[Match]
Type=ether

[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
LinkLocalAddressing=no
IPv6AcceptRA=no
NETWORK
systemctl --quiet enable systemd-networkd.service
systemctl --quiet disable systemd-networkd-wait-online.service

install -d -m 2755 -g systemd-journal /var/log/journal

# What a test machine does not need, and an emulated processor takes seconds for.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
    e2scrub_reap.service fstrim.timer getty.target man-db.timer systemd-binfmt.service \
    systemd-firstboot.service systemd-hwdb-update.service systemd-networkd-wait-online.service \
    systemd-pcrphase-initrd.service systemd-pcrphase-sysinit.service systemd-pcrphase.service \
    systemd-timesyncd.service systemd-tmpfiles-clean.timer grub-common.service \
    serial-getty@ttyS0.service; do
    ln -sf /dev/null "/etc/systemd/system/$unit"
done

# As an installation leaves it, but with a console that can be read from outside.
cat > /etc/default/grub <<'GRUB'
GRUB_DEFAULT=0
GRUB_TIMEOUT=1
GRUB_DISTRIBUTOR=`lsb_release -i -s 2> /dev/null || echo Debian`
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="console=ttyS0"
GRUB_TERMINAL="console serial"
GRUB_DISABLE_OS_PROBER=true
GRUB
echo 'grub-pc grub-pc/install_devices multiselect /dev/sda' | debconf-set-selections

rm -rf /usr/share/doc/* /usr/share/man/* /usr/share/locale/* /usr/share/info/* /var/log/*.log
