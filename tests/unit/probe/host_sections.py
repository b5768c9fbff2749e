"""What hosts say about memory, disks, the network, backups and NCCL."""

from __future__ import annotations

FIRMWARE = """\
== /sys/class/dmi/id/board_vendor
ASUSTeK COMPUTER INC.

== /sys/class/dmi/id/board_name
Pro WS WRX80E-SAGE SE WIFI

== grep vendor_id /proc/cpuinfo
vendor_id\t: AuthenticAMD
== ls /sys/firmware/acpi/tables
IVRS
== grep CONFIG_INTEL_IOMMU /boot/config
CONFIG_INTEL_IOMMU=y
# CONFIG_INTEL_IOMMU_DEFAULT_ON is not set
"""
MEMORY = """\
== /proc/meminfo
MemTotal:       131900412 kB
MemFree:         1000000 kB
MemAvailable:   120000000 kB
SwapTotal:       8388604 kB
SwapFree:        8388600 kB
HugePages_Total:       0

== ls /sys/devices/system/edac/mc
mc0 ce=3 ue=0 size=65536 label=F17h_M31h
mc0/dimm0 ce=3 ue=0 size=16384 label=mc#0csrow#0channel#0
== dmidecode -t memory
# dmidecode 3.4
Getting SMBIOS data from sysfs.
SMBIOS 3.3.0 present.

Handle 0x000A, DMI type 16, 23 bytes
Physical Memory Array
\tError Correction Type: Multi-bit ECC
\tMaximum Capacity: 512 GB
\tNumber Of Devices: 3

Handle 0x0012, DMI type 17, 92 bytes
Memory Device
\tTotal Width: 72 bits
\tData Width: 64 bits
\tSize: 32 GB
\tLocator: DIMM_A1
\tBank Locator: P0 CHANNEL A
\tType: DDR4
\tSpeed: 3200 MT/s
\tConfigured Memory Speed: 2133 MT/s

Handle 0x0013, DMI type 17, 92 bytes
Memory Device
\tTotal Width: Unknown
\tSize: No Module Installed
\tLocator: DIMM_A2
\tType: Unknown
\tSpeed: Unknown
\tConfigured Memory Speed: Unknown

Handle 0x0014, DMI type 17, 34 bytes
Memory Device
\tSize: Unknown
\tLocator: DIMM_B1
\tType: DDR5
\tSpeed: 1333 MHz
\tConfigured Clock Speed: 1066 MHz
"""

STORAGE = """\
== /proc/self/mounts
/dev/nvme0n1p2 / btrfs rw,noatime,ssd,subvolid=256,subvol=/@ 0 0
/dev/sda1 /mnt/big\\040disk ext4 ro,relatime 0 0
//nas/models /models cifs rw,username=me,password=*** 0 0

== /etc/fstab
# <file system> <mount point> <type> <options> <dump> <pass>
UUID=1-2 / btrfs noatime,subvol=@ 0 0
/dev/sda1\t/mnt/big\\040disk\text4\tdefaults\t0 2

== /proc/mdstat
Personalities : [raid1] [raid6]
md0 : active raid1 sdb1[1] sda1[0](F)
      976630464 blocks super 1.2 [2/1] [_U]
      bitmap: 0/8 pages [0KB], 65536KB chunk

md127 : inactive sdd1[0](S)
      1046528 blocks super 1.2

unused devices: <none>

== lsblk -Pb -o NAME,PKNAME,TYPE,SIZE,ROTA,TRAN,FSTYPE,MOUNTPOINT,MODEL
NAME="nvme0n1" PKNAME="" TYPE="disk" SIZE="2000398934016" ROTA="0" TRAN="nvme" FSTYPE="" MOUNTPOINT="" MODEL="Samsung SSD 980 PRO 2TB "
NAME="nvme0n1p2" PKNAME="nvme0n1" TYPE="part" SIZE="1999860826112" ROTA="0" TRAN="nvme" FSTYPE="btrfs" MOUNTPOINT="/" MODEL=""
== df -Pkl
Filesystem     1024-blocks       Used Available Capacity Mounted on
/dev/nvme0n1p2  1953502436 1855827314  97675122      95% /
/dev/sda1         10000000    1000000   8500000      11% /mnt/big disk
== df -Pil
Filesystem        Inodes IUsed    IFree IUse% Mounted on
/dev/sda1       61054976   200 61054776    1% /mnt/big disk
/dev/nvme0n1p2         0     0        0     - /
== zpool status -x
all pools are healthy
== btrfs device stats /
[/dev/nvme0n1p2].write_io_errs    0
[/dev/nvme0n1p2].corruption_errs  12
[devid:4].read_io_errs 0
== btrfs filesystem usage -b /
Overall:
    Device size:\t\t  2000000000000
    Device allocated:\t\t  1990000000000
    Device unallocated:\t\t    10000000000
    Device missing:\t\t              0
    Free (estimated):\t\t  20000000000\t(min: 10000000000)

Data,single: Size:1, Used:1 (50.00%)
   /dev/nvme0n1p2\t1
== btrfs scrub status /
UUID:             1-2
Scrub started:    Sun Nov  1 03:00:01 2026
Status:           finished
Duration:         0:05:00
Error summary:    csum=5
  Corrected:      3
  Uncorrectable:  2
  Unverified:     0
ERROR: there are 2 uncorrectable errors
== btrfs subvolume list -rs /
ID 257 gen 9 cgen 9 top level 5 otime 2026-11-20 10:00:00 path .snapshots/a path b
== blkid -p -s UUID
/dev/nvme0n1p2: UUID="5ed1c2a0-35a5-4f2f-b8ae-1a0b0e4ec8a1"
/dev/sda1: UUID="1E2A-77C0"
/dev/zram0:
"""  # noqa: E501 - one line for each disk is what lsblk prints

SMART = """\
== smartctl -n standby -j -a /dev/nvme0n1
{
  "smartctl": {"version": [7, 3], "exit_status": 8},
  "model_name": "Samsung SSD 980 PRO 2TB",
  "smart_status": {"passed": false},
  "nvme_smart_health_information_log": {
    "critical_warning": 4, "available_spare": 80, "available_spare_threshold": 10,
    "percentage_used": 93, "media_errors": 7, "unsafe_shutdowns": 51
  },
  "temperature": {"current": 61},
  "power_on_time": {"hours": 20000}
}

== smartctl -n standby -j -a /dev/sda
{
  "smartctl": {"exit_status": 0},
  "smart_status": {"passed": true},
  "ata_smart_attributes": {"table": [
    {"id": 5, "name": "Reallocated_Sector_Ct", "raw": {"value": 8}},
    {"id": 199, "raw": {"value": 120}}, {"id": 9, "raw": {"value": 1}}, "odd"
  ]}
}

== smartctl -n standby -j -a /dev/sdb
{"smartctl": {"exit_status": 2, "messages": [{"string": "Device is in STANDBY mode, exit(2)"}]}}

== nvme smart-log -o json /dev/nvme1n1
{"critical_warning": 0, "temperature": 310, "avail_spare": 100, "spare_thresh": 10,
 "percent_used": 3, "media_errors": 0, "power_on_hours": 55}
"""

NETWORK = """\
== ls /sys/class/net
enp5s0 address=0000:05:00.0 driver=r8169 mac=02:00:00:00:00:01 state=up kind=wired
lo address=- driver=- mac=00:00:00:00:00:00 state=unknown kind=virtual
== grep -Hn names of interfaces
/etc/network/interfaces:3:iface enp5s0 inet dhcp
/etc/network/interfaces:4:# iface enp9s0 inet dhcp
/etc/netplan/50-cloud-init.yaml:4:        enp5s0:
/etc/systemd/network/10-lan.link:2:MACAddress=02:00:00:00:00:01
"""

BACKUPS = """\
== date +%s
1795289293
== systemctl show
Id=borgmatic.timer
LoadState=loaded
ActiveState=active
UnitFileState=enabled
Result=success
LastTriggerUSec=Fri 2026-11-20 03:00:01 UTC
NextElapseUSecRealtime=Sun 2026-11-22 03:00:00 UTC

Id=borgmatic.service
LoadState=loaded
ActiveState=failed
UnitFileState=static
Result=exit-code
ExecMainStatus=2
ExecMainExitTimestamp=Fri 2026-11-20 03:00:09 UTC
== stat -c %Y %n
1795143609 /root/.config/borg/security/0123/manifest-timestamp
== grep -l borg restic /etc/cron*
/etc/cron.d/borg
== newest backup
2026-11-20T03:00:05Z
"""

NCCL = """\
== grep -m 1 vendor_id /proc/cpuinfo
vendor_id\t: AuthenticAMD
== /etc/nccl.conf
# measured in May
NCCL_P2P_DISABLE=1 # hangs
NCCL_DEBUG = WARN

== homes that cannot be looked into
== grep -Hn NCCL_
/etc/environment:7:NCCL_IB_DISABLE="1"
/etc/systemd/system/vllm.service.d/env.conf:3:Environment="NCCL_P2P_LEVEL=LOC" NCCL_DEBUG=INFO
/home/me/.bashrc:120:# export NCCL_SHM_DISABLE=1
/home/me/.bashrc:121:export NCCL_SOCKET_IFNAME='enp5s0'
== stat -c %Y %n gpu_p2p_access_cache_for_*.json
1714557600 /home/me/.cache/vllm/gpu_p2p_access_cache_for_0,1.json
== ls libnccl
/usr/lib/x86_64-linux-gnu/libnccl.so.2
/usr/lib/x86_64-linux-gnu/libnccl.so.2.18.5
/home/me/env/lib/python3.11/site-packages/nvidia_nccl_cu12-2.26.2.post1.dist-info
"""
UPS = """\
== upsc main@localhost
ups.load: 31
ups.realpower: 312
ups.realpower.nominal: 900
ups.status: OL CHRG
== upsc rack@nas
Error: Data stale
"""

GPU_CGROUPS = """\
== cat /proc/[0-9]*/cgroup
/system.slice/docker-{vllm}.scope
/machine.slice/libpod-{comfy}.scope/container
/docker/{plain}
/user.slice/user-1000.slice/user@1000.service/app.slice/snap.firefox.firefox-1.scope
== /proc/devices
195 nvidia-frontend
234 nvidia-nvlink
235 nvidia-caps
510 nvidia-uvm
== systemctl --version
systemd 252 (252.39-1~deb12u1)
+PAM +AUDIT
== systemctl show
DevicePolicy=strict
DeviceAllow=/dev/char/1:3 rwm
DeviceAllow=char-pts rwm
ActiveEnterTimestamp=Sat 2026-11-28 06:40:00 UTC
Id=docker-{vllm}.scope

DevicePolicy=strict
DeviceAllow=/dev/nvidiactl rw
DeviceAllow=/dev/char/195:0 rwm
DeviceAllow=char-nvidia-uvm rw
DeviceAllow=/dev/nvidia-caps/nvidia-cap2 r
ActiveEnterTimestamp=Sat 2026-11-28 06:41:00 UTC
Id=libpod-{comfy}.scope

DevicePolicy=auto
ActiveEnterTimestamp=Sat 2026-11-28 06:00:00 UTC
Id=user@1000.service
== device programs
generator 1795848360
engine=docker name=vllm runtime=195:0=rw,195:255=rw,510:0=rw systemd= /system.slice/docker-{vllm}.scope
engine=podman name=comfy runtime=195:0=rw,195:255=rw,235:2=r systemd=195:0=rw,195:255=rw,235:2=r /machine.slice/libpod-{comfy}.scope/container
engine=docker name=plain runtime=195:0=rw systemd=195:0=rw,195:255=rw,510:0=rw /docker/{plain}
unread a device program has instructions that rigops does not know
engine= name= runtime=? systemd=? /user.slice/user-1000.slice/user@1000.service/app.slice/snap.firefox.firefox-1.scope
""".format(vllm="1a2b" * 16, comfy="3c4d" * 16, plain="5e6f" * 16)  # noqa: E501 - one line for each group
OWN_MODULES = f"""\
== ls OWN MODULES
/etc/modprobe.d/00-rigops-nvidia-modules.conf
/var/lib/rigops/driver-modules/{"d" * 64}.tar.gz
== /run/rigops/nvidia-modules
own {"d" * 64}

== /var/lib/rigops/driver-modules/6.1.0-18-amd64/set
digest {"d" * 64}
version 535.309.01
sha256 nvidia {"5" * 64}
build-id nvidia {"ab" * 20}
depends nvidia drm_kms_helper,video
build-id nvidia-uvm {"cd" * 20}

== od -An -tx1 /sys/module/nvidia*/notes/.note.gnu.build-id
nvidia 04 00 00 00 14 00 00 00 03 00 00 00 47 4e 55 00 {" ".join(["ab"] * 20)}
nvidia_uvm 04 00 00 00 14 00 00 00 03 00 00 00 47 4e 55 00 {" ".join(["cd"] * 20)}
"""

ALL = {
    "own-modules": OWN_MODULES,
    "gpu-cgroups": GPU_CGROUPS,
    "firmware": FIRMWARE,
    "memory": MEMORY,
    "storage": STORAGE,
    "smart": SMART,
    "ups": UPS,
    "network": NETWORK,
    "backups": BACKUPS,
    "nccl": NCCL,
}
