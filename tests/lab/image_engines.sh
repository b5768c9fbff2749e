# Runs as root inside the new tree, once, while it still has Debian's sources of packages.

# What some test installs again: a package whose maintainer's script reloads systemd.
install -d /srv/debs
cd /srv/debs
apt-get -q -o APT::Sandbox::User=root download podman
cd /

# What containers are made of, of which no registry is asked.
install -d /srv/container/bin /srv/container/dev /srv/container/proc /srv/container/sys
cp /bin/busybox /srv/container/bin/
for applet in $(busybox --list); do
    [ "$applet" = busybox ] || ln -s busybox "/srv/container/bin/$applet"
done

# Hosts share the machine's network, which no engine may change, and a disk that is an overlay itself.
install -d /etc/docker /etc/containers
cat > /etc/docker/daemon.json <<'DOCKER'
{
  "bridge": "none", "iptables": false, "ip6tables": false, "ip-forward": false,
  "storage-driver": "vfs", "runtimes": {"crun": {"path": "/usr/lib/rigsim/bin/crun"}},
  "features": {"cdi": true}
}
DOCKER
cat > /etc/containers/storage.conf <<'STORAGE'
[storage]
driver = "vfs"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
STORAGE
cat > /etc/containers/containers.conf <<'CONTAINERS'
[containers]
netns = "none"
pids_limit = 0
[engine.runtimes]
crun = ["/usr/lib/rigsim/bin/crun"]
CONTAINERS

# The legacy way of nvidia-container-toolkit: Docker looks for this program by its name, Podman is
# told of it.
ln -s /usr/lib/rigsim/bin/nvidia-container-runtime-hook /usr/bin/nvidia-container-runtime-hook
install -d /usr/share/containers/oci/hooks.d
cat > /usr/share/containers/oci/hooks.d/oci-nvidia-hook.json <<'HOOK'
{
  "version": "1.0.0",
  "hook": {
    "path": "/usr/bin/nvidia-container-runtime-hook",
    "args": ["nvidia-container-runtime-hook", "prestart"]
  },
  "when": {"always": true, "commands": [".*"]},
  "stages": ["prestart"]
}
HOOK
