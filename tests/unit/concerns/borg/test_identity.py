"""What is in every archive beside the declared paths, and what never is."""

from __future__ import annotations

import pytest

from rigops.concerns.borg.host.borg_settings import BorgSettings
from rigops.concerns.borg.host.identity import identity_excludes, identity_paths

DECLARED = BorgSettings("rig", "/b/rig", ("/home", "/etc"))
HOST_KEYS = "sh:/etc/ssh/ssh_host_*"


def test_a_path_that_is_declared_itself_is_not_taken_twice() -> None:
    assert identity_paths(DECLARED) == ["/var/lib/rigops"]
    assert identity_paths(DECLARED._replace(paths=("/home",))) == ["/etc", "/var/lib/rigops"]
    assert identity_paths(DECLARED._replace(identity=False)) == []


@pytest.mark.parametrize("identity", [False, True])
def test_the_keys_of_the_host_are_left_out_unless_they_are_asked_for(*, identity: bool) -> None:
    settings = DECLARED._replace(identity=identity)

    assert HOST_KEYS in identity_excludes(settings)
    assert HOST_KEYS not in identity_excludes(settings._replace(host_keys=True))


@pytest.mark.parametrize("host_keys", [False, True])
def test_what_opens_the_repository_is_never_in_it(*, host_keys: bool) -> None:
    excludes = identity_excludes(DECLARED._replace(host_keys=host_keys))

    assert "pf:/etc/rigops/borg_passphrase" in excludes
    assert "pf:/etc/rigops/borg_key" in excludes
    assert "pp:/b/rig" in excludes
