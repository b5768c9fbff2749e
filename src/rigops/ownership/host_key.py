"""The ssh key of a host's own. Pure."""

from __future__ import annotations

import posixpath
import shlex


def key_made(path: str, host: str) -> str:
    """Shell that has it and its public half, for root alone. One that is there stays."""
    new = f"{path}.rigops-new"
    make = shlex.join(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"rigops@{host}"))
    return f"""\
mkdir -p {posixpath.dirname(path)}
(
    umask 077
    if [ -s {path} ]; then
        chown 0:0 {path}
        chmod 0600 {path}
        ssh-keygen -y -f {path} >{path}.pub
    else
        rm -f {new} {new}.pub
        {make} -f {new} </dev/null >&2
        mv -f {new}.pub {path}.pub
        mv -f {new} {path}
    fi
)"""
