"""Users of a booted host beside root and rig, as shell commands that make them."""

from __future__ import annotations

PASSWORD = "Tr0ub4dor-and-3"


def added(*names: str) -> str:
    """They log in with the key that root takes."""
    return f"""
set -e
for user in {" ".join(names)}; do
    useradd --create-home --shell /bin/bash $user
    install -d -o $user -g $user /home/$user/.ssh
    install -o $user -g $user -m 600 /root/.ssh/authorized_keys /home/$user/.ssh
done
"""


# For a user of this name, whom sudo asks.
ASKS = f"""
echo 'asks:{PASSWORD}' | chpasswd
echo 'asks ALL=(ALL) ALL' >/etc/sudoers.d/asks
"""
