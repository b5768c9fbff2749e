"""The program that builds the owner's modules, with a real tar and a DKMS of its own."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from rigops.concerns.driver_modules.record import PATH, FailedModules
from tests import own_tree
from tests.own_tree import MODULES
from tests.unit.hostside.small_host import SmallHost
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

KERNEL: Final = "6.1.0-50-amd64"
VERSION: Final = "535.309.01"
FOLDER: Final = "var/lib/rigops/driver-modules"
TREE: Final = own_tree.files(VERSION, 1)
DIGEST: Final = own_tree.digest(TREE)
NAMED: Final = f"{VERSION}+{DIGEST[:12]}"
STAYS: Final = "The stock modules stay in use"
# As the real one does with folders of the caller's: the modules, or a log with what is wrong.
DKMS: Final = r"""
while [ $# -gt 0 ]; do
    case $1 in
        -v) named=$2 ;; -k) kernel=$2 ;; --sourcetree) source=$2 ;; --dkmstree) tree=$2 ;;
    esac
    shift
done
at=$tree/rigops-nvidia/$named
cat "$source/rigops-nvidia-$named/dkms.conf" >@ROOT@/conf
cat "$source/rigops-nvidia-$named/nvidia/nv-kernel.o_binary" >@ROOT@/core
mkdir -p "$at/build" "$at/$kernel/x86_64/module"
if [ -e @ROOT@/fails ]; then
    printf 'make: entering\nos.c:7: error: too few\n  more\n' >"$at/build/make.log"
    exit 10
fi
for one in nvidia nvidia-modeset nvidia-drm nvidia-uvm nvidia-peermem; do
    echo "$one for $kernel" >"$at/$kernel/x86_64/module/$one.ko"
done
"""


class Rig(SmallHost):
    """A host with a tree, headers and everything that a build needs."""

    def __init__(self, root: Path, shell_name: str) -> None:
        super().__init__(root, shell_name)
        for name in ("cp", "cut", "df", "flock", "gzip", "sha256sum", "sync", "tail", "tar"):
            self.real(name)
        for name in ("chmod", "nproc", "openssl", "od"):
            self.real(name)
        self.tool(
            "make",
            'while [ "$1" != -C ]; do shift; done; mkdir -p "$2/_out/Linux_x86_64"\n'
            'for o in nv-kernel nv-modeset-kernel; do echo "$2" >"$2/_out/Linux_x86_64/$o.o"; done',
        )
        for name in ("gcc", "g++"):
            self.tool(name, "")
        self.tool("sleep", "")
        self.tool("dkms", DKMS.replace("@ROOT@", str(root)))
        self.tool("readelf", "echo '    Build ID: abcdef0123'")
        self.tool("modinfo", '[ "$2" != depends ] || echo video,nvidia')
        self.write("etc/os-release", "ID=debian\n")
        (root / "var/tmp").mkdir(parents=True)
        self.headers(KERNEL)
        self.send(TREE)

    def headers(self, kernel: str) -> None:
        (self.root / f"lib/modules/{kernel}/build").mkdir(parents=True)

    def send(self, tree: dict[str, str]) -> None:
        path = self.write(f"{FOLDER}/{own_tree.digest(tree)}.tar.gz", "")
        path.write_bytes(own_tree.archive(tree))

    def does(self, *words: str, **limits: int) -> tuple[int, str, str]:
        done = self.run(self.text("own_modules", {"need_mb": 0, **limits}), *words)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def refused(self, kernel: str = KERNEL, **limits: int) -> str:
        code, _, error = self.does("build", kernel, **limits)
        assert code == 1
        return error

    def set_of(self, kernel: str = KERNEL) -> list[str]:
        path = self.root / FOLDER / kernel / "set"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def files(self) -> set[str]:
        return {path.name for path in (self.root / FOLDER).iterdir()}


@pytest.fixture(params=SHELLS)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    return Rig(tmp_path / "host", request.param)


IN_DASH: Final = pytest.mark.parametrize("rig", ["dash"], indirect=True)


def test_a_whole_set_is_put_in_place_with_its_list_and_nothing_else_stays(rig: Rig) -> None:
    code, said, error = rig.does("build", KERNEL)

    assert (code, error) == (0, "")
    assert said.splitlines()[-1] == f"modules of your own {VERSION} for Linux {KERNEL}: built"
    found = rig.set_of()
    assert found[:2] == [f"digest {DIGEST}", f"version {VERSION}"]
    for name in MODULES:
        assert f"build-id {name} abcdef0123" in found
        assert f"depends {name} video,nvidia" in found
        path = rig.root / FOLDER / KERNEL / f"{name}.ko"
        assert path.read_text() == f"{name} for {KERNEL}\n"
    assert rig.files == {".lock", f"{DIGEST}.tar.gz", "build", KERNEL}
    assert [one.name for one in (rig.root / FOLDER / "build").iterdir()] == [
        f"rigops-nvidia-{NAMED}"
    ]
    assert (rig.root / "core").read_text() == "src/nvidia\n"


def test_dkms_is_told_of_five_modules_and_never_to_build_by_itself(rig: Rig) -> None:
    rig.does("build", KERNEL)

    conf = (rig.root / "conf").read_text()
    assert f'PACKAGE_NAME="rigops-nvidia"\nPACKAGE_VERSION="{NAMED}"\n' in conf
    assert [line for line in conf.splitlines() if line.startswith("BUILT_MODULE_NAME")] == [
        f'BUILT_MODULE_NAME[{number}]="{name}"' for number, name in enumerate(MODULES)
    ]
    assert "KERNEL_UNAME=${kernelver} modules" in conf
    assert "AUTOINSTALL" not in conf


@IN_DASH
def test_what_is_built_is_not_built_again_and_another_kernel_takes_the_same_objects(
    rig: Rig,
) -> None:
    rig.does("build", KERNEL)
    rig.tool("make", "exit 9")
    rig.headers("6.1.0-51-amd64")
    code, said, _ = rig.does("build", KERNEL, "6.1.0-51-amd64")

    assert code == 0
    assert f"for Linux {KERNEL}: there" in said
    assert "6.1.0-51-amd64: built" in said


@IN_DASH
def test_another_tree_takes_the_place_of_the_first_and_kernels_that_have_gone_lose_theirs(
    rig: Rig,
) -> None:
    rig.does("build", KERNEL)
    rig.write(f"{FOLDER}/5.10.0-1-amd64/set", f"digest {DIGEST}\n")
    other = own_tree.files(VERSION, 2)
    rig.send(other)
    code, _, error = rig.does("build", KERNEL)

    assert (code, error) == (0, "")
    assert rig.set_of()[0] == f"digest {own_tree.digest(other)}"
    assert rig.files == {".lock", f"{own_tree.digest(other)}.tar.gz", "build", KERNEL}


@IN_DASH
def test_a_build_that_fails_says_why_and_leaves_what_was_there(rig: Rig) -> None:
    rig.does("build", KERNEL)
    before = rig.set_of()
    rig.send(own_tree.files(VERSION, 2))
    rig.write("fails", "")

    error = rig.refused()
    assert f"{VERSION} do not build for Linux {KERNEL}: os.c:7: error: too few. {STAYS}" in error
    assert rig.set_of() == before


@IN_DASH
def test_a_tree_that_never_built_is_not_what_the_next_kernel_is_built_from(rig: Rig) -> None:
    rig.does("build", KERNEL)
    other = own_tree.files(VERSION, 2)
    rig.send(other)
    rig.write("fails", "")
    rig.refused()
    (rig.root / "fails").unlink()
    rig.headers("6.1.0-51-amd64")

    assert rig.does("build", "6.1.0-51-amd64")[0] == 0
    assert rig.set_of("6.1.0-51-amd64")[0] == f"digest {DIGEST}"
    rig.write("fails", "")
    rig.headers("6.1.0-52-amd64")
    rig.refused("6.1.0-52-amd64")  # of one that built for others, the tree stays
    assert f"{DIGEST}.tar.gz" in rig.files


@IN_DASH
def test_a_tree_whose_trial_failed_is_built_for_no_other_kernel(rig: Rig) -> None:
    failed = FailedModules(DIGEST, "a card was gone", "2026-11-28T06:00:00Z")
    rig.write(PATH.lstrip("/"), failed.to_json())
    rig.write(f"boot/vmlinuz-{KERNEL}", "")

    said = f"modules of your own {VERSION} were tried and failed: they are not built\n"
    assert rig.does("build", KERNEL) == (0, said, "")
    assert rig.set_of() == []
    assert checked(rig)[0] == "unknown"
    rig.write(PATH.lstrip("/"), replace(failed, digest="0" * 64).to_json())
    assert rig.does("build", KERNEL)[0] == 0
    assert rig.set_of()[0] == f"digest {DIGEST}"


@IN_DASH
def test_a_core_that_does_not_build_says_why(rig: Rig) -> None:
    rig.tool("make", "echo 'core.c:3: fatal error: no such header' >&2; exit 2")

    error = rig.refused()
    assert f"{VERSION} do not build: core.c:3: fatal error: no such header. {STAYS}" in error
    assert rig.set_of() == []


@IN_DASH
@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (f"lib/modules/{KERNEL}/build", f"fix: sudo apt-get install linux-headers-{KERNEL}"),
        ("bin/g++", "g++ is not installed. fix: sudo apt-get install dkms build-essential"),
        ("bin/dkms", "dkms is not installed. fix: sudo apt-get install dkms build-essential"),
        (f"{FOLDER}/{DIGEST}.tar.gz", "no whole tree of modules was sent to this machine"),
        (FOLDER, "no tree of modules was sent to this machine"),
    ],
)
def test_what_is_missing_is_named_before_anything_is_built(rig: Rig, lost: str, said: str) -> None:
    path = rig.root / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()

    assert said in rig.refused()
    assert not (rig.root / FOLDER / "build").exists()


@IN_DASH
def test_too_little_room_is_told_before_anything_is_built(rig: Rig) -> None:
    assert "MB free. fix: free some space there" in rig.refused(need_mb=10**9)


@IN_DASH
@pytest.mark.parametrize("kernel", ["", "build", "../x", "a b", "$(x)"])
def test_what_is_no_release_of_a_kernel_is_refused(rig: Rig, kernel: str) -> None:
    assert "is no release of a kernel" in rig.refused(kernel)


@IN_DASH
def test_with_secure_boot_only_modules_that_are_signed_with_dkms_key_count(rig: Rig) -> None:
    efi = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    (rig.write(efi, "")).write_bytes(b"\6\0\0\0\1")
    rig.tool("openssl", "echo serial=0AB12C")

    assert "it is signed with no key, not with AB12C" in rig.refused()
    assert rig.set_of() == []
    rig.tool("modinfo", '[ "$2" != sig_key ] || echo 0A:B1:2C')
    assert rig.does("build", KERNEL)[0] == 0


@IN_DASH
def test_with_systemd_make_files_run_without_a_network_and_write_nowhere_else(rig: Rig) -> None:
    (rig.root / "run/systemd/system").mkdir(parents=True)
    without_options = "while case $1 in --*) ;; *) false ;; esac; do shift; done"
    rig.tool("systemd-run", f'echo "$*" >>"{rig.root}/asked"\n{without_options}\nexec "$@"')
    assert rig.does("build", KERNEL)[0] == 0

    core, _, dkms = (line for line in (rig.root / "asked").read_text().splitlines() if "--" in line)
    for line in (core, dkms):
        assert "--property=PrivateNetwork=yes" in line
        assert "--property=ProtectSystem=strict" in line
    assert "--property=DynamicUser=yes" in core
    assert f"--property=ReadWritePaths={rig.root}/{FOLDER}/build -/var/lib/dkms" in dkms


@IN_DASH
def test_the_minutes_of_a_long_build_are_told(rig: Rig) -> None:
    naps = rig.root / "naps"
    rig.tool("sleep", f'echo >>"{naps}"')
    rig.tool("dkms", f': >"{naps}"; while [ $(wc -l <"{naps}") -lt 121 ]; do :; done; exit 1')
    _, said, _ = rig.does("build", KERNEL)

    assert "still building: 1 min\n" in said
    assert "still building: 2 min\n" in said


@IN_DASH
def test_removed_nothing_is_left(rig: Rig) -> None:
    rig.does("build", KERNEL)

    assert rig.does("remove") == (0, "", "")
    assert not (rig.root / FOLDER).exists()


def checked(rig: Rig) -> tuple[str, str]:
    code, said, error = rig.does("check")
    assert (code, error) == (0, "")
    what, status, name, subject, summary = said.rstrip("\n").split("\t")
    assert (what, name, subject) == ("finding", "drv.modules", "host")
    return status, summary


@IN_DASH
def test_a_check_wants_the_newest_kernels_set_and_the_owners_loaded(rig: Rig) -> None:
    rig.write(f"boot/vmlinuz-{KERNEL}", "")
    newest = f"kernel {KERNEL}, the newest, has no modules of your own: it boots with stock ones"
    assert checked(rig) == ("fail", newest)
    rig.does("build", KERNEL)
    assert checked(rig) == ("unknown", "your own modules are built, and not loaded")
    rig.write("run/rigops/nvidia-modules", "stock damaged\n")
    assert checked(rig) == ("fail", "the stock modules are loaded, not your own: damaged")
    rig.write("run/rigops/nvidia-modules", f"own {DIGEST}\n")
    assert checked(rig) == ("ok", f"your own modules {VERSION} are loaded")
    rig.does("remove")
    assert checked(rig) == ("unknown", "no modules of your own are on this machine")


@IN_DASH
def test_of_a_program_that_arrives_in_part_nothing_runs(rig: Rig) -> None:
    *before, last = rig.text("own_modules", {}).splitlines()
    assert last == 'own_modules "$@"'
    rig.run("\n".join(before), "remove")

    assert (rig.root / FOLDER).exists()
