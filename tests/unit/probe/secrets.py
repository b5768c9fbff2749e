"""Lines of host's files with something secret in them, and lines that only look so."""

from __future__ import annotations

from typing import Final

SECRET: Final = "S3cr3tValue"
MIXED: Final = "aB3dEfGhIjKlMnOpQrStUvWxYz012345"
JWT: Final = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"

# A line, and what is left of it.
HIDDEN: Final = (
    (f"ds=nocloud;s=http://me:{SECRET}@h/x ro", "ds=nocloud;s=http://***@h/x ro"),
    (f"netroot=iscsi:me:{SECRET}@10.0.0.1 ro", "netroot=iscsi:***@10.0.0.1 ro"),
    (f"rootpw={SECRET} iommu=pt", "rootpw=*** iommu=pt"),
    (f"rd.iscsi.PASSWORD={SECRET} ro", "rd.iscsi.PASSWORD=*** ro"),
    (f'my_token="{SECRET} with blanks" ro', "my_token=*** ro"),
    (f"systemd.set_credential=a:{SECRET} ro", "systemd.set_credential=*** ro"),
    (f"rd.luks.key={SECRET} ro quiet", "rd.luks.key=*** ro quiet"),
    (f'GRUB_CMDLINE_LINUX="pass={SECRET} iommu=pt"', 'GRUB_CMDLINE_LINUX="pass=*** iommu=pt"'),
    (f"password_pbkdf2 root grub.pbkdf2.{SECRET}", "password_pbkdf2 ***"),
    (f'    "splunk-token": "{SECRET}",', '    "splunk-token": "***",'),
    (f'{{"a-token":"x\\"{SECRET}","gpus": 4}}', '{"a-token":"***","gpus": 4}'),
    (f'"api_tokens": ["{SECRET}", "{SECRET}"], "gpus": 4', '"api_tokens": [***], "gpus": 4'),
    (f"passwords: [{SECRET}, '{SECRET}']", "passwords: [***]"),
    (f"passwords = [ '{SECRET}' ]", "passwords = [***]"),
    (f"password: {SECRET}", "password: ***"),
    (f"api_key: '{SECRET} {SECRET}'", "api_key: ***"),
    (f"Environment=OPENAI_KEY={SECRET} X=1", "Environment=OPENAI_KEY=*** X=1"),
    (f'Environment="GITHUB_PAT={SECRET}" X=1', 'Environment="GITHUB_PAT=***" X=1'),
    (f"export AUTH={SECRET} BEARER={SECRET}", "export AUTH=*** BEARER=***"),
    (f"AWS_ACCESS_KEY_ID={SECRET}", "AWS_ACCESS_KEY_ID=***"),
    (f"AWS_SECRET_ACCESS_KEY={SECRET}/+", "AWS_SECRET_ACCESS_KEY=***"),
    (f"HF_TOKEN={SECRET}", "HF_TOKEN=***"),
    (f"//nas/x /mnt cifs user=b%{SECRET},uid=1 0 0", "//nas/x /mnt cifs user=b%***,uid=1 0 0"),
    (f"//nas/x /mnt cifs rw,pass={SECRET} 0 0", "//nas/x /mnt cifs rw,pass=*** 0 0"),
    (f"cifspass={SECRET}", "cifspass=***"),
    (f"PrivateKey = {SECRET}=", "PrivateKey = ***"),
    (
        f'curl -H "Authorization: Bearer {SECRET}" https://x',
        'curl -H "Authorization: ***" https://x',
    ),
    (f"authorization: Basic {SECRET}==", "authorization: ***"),
    (f"sent Bearer {SECRET} to x", "sent Bearer *** to x"),
    (f"sshpass -p {SECRET} ssh x", "sshpass -p *** ssh x"),
    (f"mysql -u root -p{SECRET} db", "mysql -u root -p*** db"),
    (f"docker login -u me -p {SECRET} x", "docker login -u me -p *** x"),
    (f"server --passwd {SECRET} --port 80", "server --passwd *** --port 80"),
    (f"vllm --api-key {SECRET} --port 80", "vllm --api-key *** --port 80"),
    (f"vllm --api-key={SECRET}", "vllm --api-key=***"),
    (f'"-----BEGIN PRIVATE KEY-----\\n{SECRET}\\n"', '"-----BEGIN PRIVATE KEY-----***'),
    ("x ghp_abcdefghijklmnopqrstuvwxyz0123456789 y", "x *** y"),
    ("x github_pat_11ABCDEFG0abcdefghijkl y", "x *** y"),
    ("x hf_abcdefghijklmnopqrstuvwx y", "x *** y"),
    ("x sk-proj-abcdefghijklmnopqrst y", "x *** y"),
    ("x glpat-abcdefghijklmnopqrst y", "x *** y"),
    ("x xoxb-123456789012-abcdefghijkl y", "x *** y"),
    ("x AKIAIOSFODNN7EXAMPLE y", "x *** y"),
    (f"x {JWT} y", "x *** y"),
    (
        f'Environment="BORG_PASSPHRASE=correct {SECRET}-battery staple" "X=1"',
        'Environment="BORG_PASSPHRASE=***" "X=1"',
    ),
    (f"curl -s -u me:{SECRET} https://x", "curl -s -u me:*** https://x"),
    (f"ipmitool -H bmc -U me -P {SECRET} power on", "ipmitool -H bmc -U me -P *** power on"),
    (
        "me:$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC.5i5rd.RhAtQ7:19000:0",
        "me:***:19000:0",
    ),
    ("x AIzaSyA0123456789abcdefghijklmnopqrstuv y", "x *** y"),
    ("x npm_abcdefghijklmnopqrstuvwxyz0123456789 y", "x *** y"),
    ("x pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAw y", "x *** y"),
    (f"PresharedKey = {SECRET}=", "PresharedKey = ***"),
    (f"WHATEVER={MIXED} y", "WHATEVER=*** y"),
    (f'{{"whatever": "{MIXED}"}}', '{"whatever": "***"}'),
)
KEPT: Final = (
    "the kernel has 3 keys: [ 12.0 ] of it",
    "root=UUID=5c1d5a4e-93f7-4b0a-8a5b-0d2a1f6e7c11 iommu.passthrough=1 quiet",
    "pass= iommu=pt",
    'Environment="PATH=/usr/local/bin:/usr/bin" "LANG=C"',
    "npm_config_registry=https://x",
    "curl -fsSL https://nvidia.github.io/x | sh -s -- -u",
    "docker run -p 8080:80 x",
    "systemctl show -p Id,LoadState",
    "CUDA_VISIBLE_DEVICES=GPU-6F1c9f0e-2a41-8c55-0e3a-6b7b1e1f2d3c",
    "sig_key:        57:20:8E:BB:AF:24",
    "author:         NVIDIA",
    "BOOT_IMAGE=/boot/vmlinuz-6.1.0-18-amd64 root=/dev/mapper/vg-root",
    'NVreg_RegistryDwords="ForceP2P=0x11;RMForceP2PType=1"',
    "deb [signed-by=/usr/share/keyrings/nvidia.gpg] https://x stable main",
    '"digest": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"',
    "Loaded X.509 cert 'Debian Secure Boot CA: 6ccece7e4c6c0d1f6149f3dd27dfcc5cbb419ea1'",
    "[   12.000000] NVRM: Xid (PCI:0000:0a:00): 79, pid='<unknown>', name=<unknown>",
    "07940a50-a863-475b-8d58-ba4ed6b08cf0",
    "0000:0a:00.0 vendor=0x10de device=0x2204 path=/sys/devices/pci0000:00/0000:00:01.0",
)
# Lines of which the middle ones are secret.
KEY_BLOCK: Final = f"""\
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
{SECRET}AACS
-----END OPENSSH PRIVATE KEY-----
iommu=pt
"""
