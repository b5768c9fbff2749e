"""What is played of NVIDIA's installer: it brings a driver, and takes it away by its own log.

As far as it goes it does what the real one's published source does. From a folder with a .manifest
it installs; it goes on after an error, and says which. It builds no modules, and takes every loaded
one for one in use. Taking away ends with 0 even where it did nothing; it leaves what has another
checksum than in its log; it puts back what it had moved out of its way; its log goes last. It runs
in a host, as /usr/bin/nvidia-installer or from what a .run file holds.
"""

import os
import shutil
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

KEPT = Path("/var/lib/nvidia")
LOG, FOLDERS = KEPT / "log", KEPT / "dirs"
INSTALLED, UNINSTALLED = "/var/log/nvidia-installer.log", "/var/log/nvidia-uninstall.log"
HOOK = Path("/usr/lib/nvidia/post-uninstall")
# In the middle; with `reboot` in it the host goes down, and with `wait` it only takes so long.
FAILS = Path("/etc/rigsim/run-file-fails")
DESCRIPTION = "NVIDIA Accelerated Graphics Driver for Linux-x86_64"
LINK, FILE, EARLIER_LINK, EARLIER_FILE = 0, 1, 2, 100  # and every number above that
_ALTERNATIVES = Path("/usr/lib/nvidia")
_CHANGED = "{} have been changed since it was created!"
_POLYNOMIAL = 0x04C11DB7
_HEAD_OF_MANIFEST = 8  # lines

_LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
_OPENGL = "GLVND_EGL_ICD_JSON"
# Where files of a type go, and how many words stand between the type and a link's target.
_PLACES = {
    "UTILITY_BINARY": ("/usr/bin/", 0),
    "UTILITY_BIN_SYMLINK": ("/usr/bin/", 0),
    "INSTALLER_BINARY": ("/usr/bin/", 0),
    "CUDA_LIB": (_LIBRARIES, 2),
    "CUDA_SYMLINK": (_LIBRARIES, 2),
    "UTILITY_LIB": (_LIBRARIES, 1),
    "UTILITY_LIB_SYMLINK": (_LIBRARIES, 1),
    "FIRMWARE": ("/lib/firmware/nvidia/{}/", 1),
    "DOCUMENTATION": ("/usr/share/doc/NVIDIA_GLX-1.0/", 1),
    _OPENGL: ("/usr/share/glvnd/egl_vendor.d/", 0),
}

_SHORT = {"a": "accept-license", "j": "concurrency-level", "m": "kernel-module-build-directory",
          "M": "kernel-module-type", "q": "no-questions", "s": "silent", "z": "no-nouveau-check",
          "Z": "disable-nouveau"}  # fmt: skip
_FLAGS = {
    "accept-license", "no-backup", "no-check-for-alternate-installs", "no-kernel-module",
    "no-kernel-module-source", "no-kernel-modules", "no-nouveau-check", "no-nvidia-modprobe",
    "no-opengl-files", "no-questions", "no-x-check", "silent", "skip-depmod", "skip-module-load",
    "skip-module-unload", "uninstall",
}  # fmt: skip
_BOOLEAN = {
    "allow-installation-with-running-driver", "disable-nouveau", "dkms", "install-compat32-libs",
    "install-libglvnd", "rebuild-initramfs", "systemd",
}  # fmt: skip
_WITH_A_WORD = {"concurrency-level", "kernel-module-build-directory", "kernel-module-type",
                "kernel-name", "log-file-name", "tmpdir", "ui"}  # fmt: skip
_STAYS_LOADED = (545, 23, 6)  # since then it installs beside what is loaded, where it is allowed to
_SINCE = {
    "allow-installation-with-running-driver": _STAYS_LOADED,
    "rebuild-initramfs": _STAYS_LOADED,
    "skip-module-load": (550, 40, 7),
    "kernel-module-type": (555, 42, 2),
}

Options = dict[str, str]


class _UnknownError(Exception):
    """An option that this version does not have."""


class _Said:
    """Its log, which is written line by line, and its words to whoever called it."""

    def __init__(self, program: str, arguments: list[str], asked: Options) -> None:
        self.path = asked.get("log-file-name") or (
            UNINSTALLED if "uninstall" in asked else INSTALLED
        )
        self._log = Path(self.path).open("w", buffering=1)  # noqa: SIM115 - # until it ends
        self._is_silent = "silent" in asked
        self.log(f"nvidia-installer log file '{self.path}'")
        self.log(f"creation time: {time.ctime()}\n\nnvidia-installer command line:")
        for word in (program, *arguments):
            self.log(f"    {word}")
        self.log("")

    def log(self, line: str) -> None:
        self._log.write(f"{line}\n")

    def message(self, text: str) -> None:
        self.log(f"-> {text}")
        if not self._is_silent:
            sys.stdout.write(f"\n{text}\n\n")

    def warning(self, text: str) -> None:
        self._loud(f"WARNING: {text}")

    def error(self, text: str) -> None:
        self._loud(f"ERROR: {text}")

    def _loud(self, line: str) -> None:
        self.log(line)
        sys.stderr.write(f"\n{line}\n\n")
        sys.stderr.flush()


def checksum(content: bytes) -> int:
    """That of its log: cksum's polynomial, begun with ones."""
    if not content:
        return 0
    found = 0xFFFFFFFF
    for byte in content:
        found ^= byte << 24
        for _ in range(8):
            found = (found << 1) ^ (_POLYNOMIAL if found & 0x80000000 else 0)
            found &= 0xFFFFFFFF
    return found


def main(program: str, arguments: list[str]) -> int:
    os.umask(0o022)
    try:
        asked = _parsed(arguments, _version_beside(program))
    except _UnknownError as unknown:
        sys.stderr.write(
            f'{program}: unrecognized option: "{unknown}"\n\n'
            f"ERROR: Invalid commandline, please run `{program} --help` for usage information.\n\n"
        )
        return 1
    if Path(program).name == "nvidia-uninstall":
        asked["uninstall"] = ""
    said = _Said(program, arguments, asked)
    if "/" in program:
        os.chdir(Path(program).parent)
    return 0 if _run(asked, said) else 1


def _version_beside(program: str) -> str:
    """Empty where it stands alone: as it was installed, which then only takes away."""
    manifest = Path(program).parent / ".manifest"
    return manifest.read_text().splitlines()[1] if manifest.exists() else ""


def _parsed(arguments: list[str], version: str) -> Options:
    found: Options = {}
    rest = iter(arguments)
    for word in rest:
        if word == "--":
            break
        name, sign, value = word.lstrip("-").partition("=")
        name = _SHORT.get(name, name)
        is_on = not (name.startswith("no-") and name.removeprefix("no-") in _BOOLEAN)
        name = name if is_on else name.removeprefix("no-")
        known = name in _FLAGS | _BOOLEAN | _WITH_A_WORD and word.startswith("-")
        if not known or (version and _number(version) < _SINCE.get(name, ())):
            raise _UnknownError(word)
        if name in _WITH_A_WORD and not sign:
            value = next(rest, "")
        found[name] = value if is_on else "no"
    if "no-kernel-modules" in found:
        found["no-kernel-module"] = ""
    return found


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _run(asked: Options, said: _Said) -> bool:
    if os.geteuid() != 0:
        said.error("nvidia-installer must be run as root")
        return False
    if shutil.which("depmod") is None:
        said.error("Unable to find the system utility `depmod`")
        return False
    if "uninstall" in asked:
        _uninstall_what_is_there(asked, said)
        return True
    return _install(asked, said)


# ---- installing


@dataclass(frozen=True)
class _Entry:
    """A line of the manifest, of those that are installed."""

    path: Path
    source: Path
    mode: int
    target: str  # of a link

    def put(self) -> None:
        _make_folder(self.path.parent)
        if self.target:
            self.path.symlink_to(self.target)
            _note(f"{LINK}: {self.path}\n{self.target}")
            return
        self.path.unlink(missing_ok=True)
        shutil.copyfile(self.source, self.path)
        self.path.chmod(self.mode)
        _note(f"{FILE}: {self.path}\n{checksum(self.path.read_bytes())}")


@dataclass(frozen=True)
class _Package:
    version: str
    entries: tuple[_Entry, ...]

    def without_opengl(self) -> "_Package":
        place, _ = _PLACES[_OPENGL]
        kept = (one for one in self.entries if not str(one.path).startswith(place))
        return _Package(self.version, tuple(kept))


@dataclass(frozen=True)
class _Job:
    package: _Package
    asked: Options
    said: _Said


def _install(asked: Options, said: _Said) -> bool:
    package = _package()
    if package is None:
        said.error(
            "No package found for installation.  Please run this utility with the '--help' option "
            "for usage information."
        )
        return _failed(said)
    job = _Job(package, asked, said)
    steps = (_no_x_server, _nothing_loaded, _no_alternative, _no_nouveau, _no_modules, _lay_down)
    ended = next((step for step in steps if not step(job)), None)
    if ended is None:
        said.message(
            f"Installation of the {DESCRIPTION} (version: {package.version}) is now complete."
        )
        return True
    return False if ended is _no_alternative else _failed(said)


def _failed(said: _Said) -> bool:
    said.error(
        f"Installation has failed.  Please see the file '{said.path}' for details.  You may find "
        "suggestions on fixing installation problems in the README available on the Linux driver "
        "download page at www.nvidia.com."
    )
    return False


def _package() -> "_Package | None":
    manifest = Path(".manifest")
    if not manifest.exists():
        return None
    lines = manifest.read_text().splitlines()
    version, entries = lines[1], []
    for line in lines[_HEAD_OF_MANIFEST:]:
        file, mode, kind, *more = line.split()
        if kind in _PLACES:  # modules' source goes along with modules
            place, between = _PLACES[kind]
            path = Path(place.format(version), Path(file).name)
            entries.append(_Entry(path, Path(file), int(mode, 8), "".join(more[between:])))
    return _Package(version, tuple(sorted(entries, key=lambda one: bool(one.target))))


def _no_x_server(job: _Job) -> bool:
    for lock in map(Path, (f"/tmp/.X{number}-lock" for number in range(8))):
        if lock.exists() and Path("/proc", lock.read_text().strip()).exists():
            job.said.log(f"The file '{lock}' exists and appears to be of a running X server.")
            return "no-x-check" in job.asked
    return True


def _nothing_loaded(job: _Job) -> bool:
    if "no-kernel-module" in job.asked:
        job.said.log(
            'Not installing any kernel modules; skipping the "is an NVIDIA kernel module loaded?" '
            "test."
        )
        return True
    loaded = sorted(Path("/sys/module").glob("nvidia*"))
    if not loaded:
        return True
    text = f"An NVIDIA kernel module '{loaded[-1].name}' appears to "
    if _number(job.package.version) < _STAYS_LOADED:
        job.said.error(f"{text}already be loaded in your kernel.  It may be in use.")
        return False
    job.said.warning(f"{text}be already loaded in your kernel.  It may be in use.")
    return _may_stay_loaded(job)


def _may_stay_loaded(job: _Job) -> bool:
    return job.asked.get("allow-installation-with-running-driver", "no") != "no"


def _no_alternative(job: _Job) -> bool:
    """Of a package that is installed it says so; one that could be is no reason to end."""
    if "no-check-for-alternate-installs" in job.asked:
        return True
    if not (_ALTERNATIVES / "alternate-install-present").exists():
        return True
    job.said.error(
        "The installation was canceled due to the availability or presence of an alternate driver "
        f"installation. Please see {job.said.path} for more details."
    )
    return False


def _no_nouveau(job: _Job) -> bool:
    drivers = Path("/sys/bus/pci/devices").glob("*/driver")
    if "no-nouveau-check" in job.asked or all(one.resolve().name != "nouveau" for one in drivers):
        return True
    is_new = _number(job.package.version) >= _STAYS_LOADED
    (job.said.warning if is_new else job.said.error)(
        "The Nouveau kernel driver is currently in use by your system.  This driver is "
        "incompatible with the NVIDIA driver, and must be disabled before proceeding."
    )
    if job.asked.get("disable-nouveau", "" if is_new else "no") != "no":
        text = "# generated by nvidia-installer\nblacklist nouveau\noptions nouveau modeset=0\n"
        for folder in map(Path, ("/etc/modprobe.d", "/usr/lib/modprobe.d")):
            if folder.is_dir():
                (folder / "nvidia-installer-disable-nouveau.conf").write_text(text)
    return is_new and _may_stay_loaded(job)


def _no_modules(job: _Job) -> bool:
    if "no-kernel-module" not in job.asked:
        job.said.error("this stand-in builds no modules")
        return False
    job.said.warning(
        "You specified the '--no-kernel-modules' command line option, nvidia-installer will not "
        "install any kernel modules as part of this driver installation, and it will not remove "
        "existing NVIDIA kernel modules not part of an earlier NVIDIA driver installation.  Please "
        "ensure that NVIDIA kernel modules matching this driver version are installed separately."
    )
    return True


def _lay_down(job: _Job) -> bool:
    package, said = job.package, job.said
    said.log(f"Installing NVIDIA driver version {package.version}.")
    if "no-opengl-files" in job.asked:
        package = package.without_opengl()
    _take_away_what_is_there(job.asked, said)
    _begin(package.version)
    for number, path in enumerate(_in_the_way(package), EARLIER_FILE):
        _move_away(path, number, said)
    for number, entry in enumerate(package.entries):
        if number == len(package.entries) // 2 and FAILS.exists() and _fails(said):
            return False
        try:
            entry.put()
        except OSError as error:
            said.error(f"Cannot install {entry.path} ({error.strerror})")
    said.log("Driver file installation is complete.")
    _output("ldconfig")
    return True


def _fails(said: _Said) -> bool:
    word, _, seconds = FAILS.read_text().strip().partition(" ")
    if word == "wait":
        time.sleep(int(seconds))
        return False
    if word == "reboot":
        _output("sync")
        _output("reboot", "-ff")
        time.sleep(60)
    said.error("this one was asked to fail")
    return True


def _take_away_what_is_there(asked: Options, said: _Said) -> None:
    """By the uninstaller of whatever version that is; else by the log."""
    uninstaller = shutil.which("nvidia-uninstall")
    if uninstaller:
        log = Path(said.path).with_name(Path(UNINSTALLED).name)
        words = [uninstaller, "-s", f"--log-file-name={log}"]
        if subprocess.run(words, check=False, capture_output=True).returncode == 0:
            return
        said.log(f"{uninstaller} failed; see {log} for more details.")
    if LOG.exists():
        _uninstall_by_log(asked, said)


def _begin(version: str) -> None:
    if KEPT.exists():
        shutil.rmtree(KEPT)
    KEPT.mkdir(mode=0o700)
    LOG.touch(mode=0o600)
    _note(f"1.0-{version.replace('.', '')} ({version})")
    _note(DESCRIPTION)


def _in_the_way(package: _Package) -> list[Path]:
    """Libraries of other versions and of others anywhere, and what has a name that it needs."""
    begins = tuple({one.path.name.partition(".so.")[0] + ".so" for one in package.entries
                    if ".so." in one.path.name})  # fmt: skip
    found = [
        Path(folder, name)
        for top in ("/usr/lib", "/usr/lib32", "/usr/lib64")
        for folder, _, names in os.walk(top)
        for name in names
        if name.startswith(begins)
    ]
    found += [one.path for one in package.entries if os.path.lexists(one.path)]
    once = {(path.lstat().st_dev, path.lstat().st_ino): path for path in reversed(found)}
    return list(reversed(once.values()))


def _move_away(path: Path, number: int, said: _Said) -> None:
    about = path.lstat()
    owner = f"{about.st_mode:04o} {about.st_uid} {about.st_gid}"
    if path.is_symlink():
        target = path.readlink()
        path.unlink()
        _note(f"{EARLIER_LINK}: {path}\n{target}\n{owner}")
    elif path.is_file():
        known = checksum(path.read_bytes())
        shutil.move(path, KEPT / str(number))
        _note(f"{number}: {path}\n{known} {owner}")
    else:
        said.error(f"Unable to backup directory '{path}'.")


def _make_folder(path: Path) -> None:
    for folder in reversed((path, *path.parents)):
        if not folder.exists():
            folder.mkdir(mode=0o755)
            with FOLDERS.open("a") as made:
                made.write(f"{folder}\n")


def _note(lines: str) -> None:
    with LOG.open("a") as log:
        log.write(f"{lines}\n")


# ---- taking away


def _uninstall_what_is_there(asked: Options, said: _Said) -> None:
    if LOG.exists():
        _uninstall_by_log(asked, said)
    else:
        said.message("There is no NVIDIA driver currently installed.")


def _uninstall_by_log(asked: Options, said: _Said) -> None:
    for path, mode in ((KEPT, 0o700), (LOG, 0o600)):
        if stat.S_IMODE(path.stat().st_mode) != mode:
            said.error(f"The permissions of {_CHANGED.format(path)}")
            said.error("Uninstallation failed.")
            return
    lines = LOG.read_text().splitlines()
    version = lines[0].partition("(")[2].rstrip(")")
    if shutil.which("dkms") and _output("dkms", "status", "-m", "nvidia", "-v", version):
        _output("dkms", "remove", "-m", "nvidia", "-v", version, "--all")
    entries = [one for one in _entries(lines[2:]) if _is_as_logged(*one, said)]
    for kind, path, _ in entries:
        if kind in (LINK, FILE):
            path.unlink()
    for kind, path, about in entries:
        if kind not in (LINK, FILE):
            _put_back(kind, path, about, said)
    _clear(asked, said)
    said.message(f"Uninstallation of existing driver: {lines[1]} ({version}) is complete.")
    if os.access(HOOK, os.X_OK):
        _output(str(HOOK))


def _entries(lines: list[str]) -> list[tuple[int, Path, str]]:
    found, rest = [], iter(lines)
    for line in rest:
        kind, _, path = line.partition(": ")
        about = next(rest)
        if int(kind) == EARLIER_LINK:
            next(rest)
        found.append((int(kind), Path(path), about))
    return found


def _is_as_logged(kind: int, path: Path, about: str, said: _Said) -> bool:
    if kind == EARLIER_LINK:
        return True
    at = KEPT / str(kind) if kind >= EARLIER_FILE else path
    if not at.exists():  # a link that leads nowhere as well
        is_ours = False
    elif kind == LINK:
        is_ours = at.is_symlink() and str(at.readlink()) == about
    else:
        is_ours = checksum(at.read_bytes()) == int(about.split(maxsplit=1)[0])
    if not is_ours:
        said.log(f"-> The installed file '{path}' is no longer as it was; it is left alone.")
    return is_ours


def _put_back(kind: int, path: Path, about: str, said: _Said) -> None:
    try:
        if kind == EARLIER_LINK:
            path.symlink_to(about)
            return
        shutil.move(KEPT / str(kind), path)
        _, mode, user, group = about.split()
        os.chown(path, int(user), int(group))
        path.chmod(int(mode, 8) & 0o7777)
    except OSError as error:
        said.log(f"Unable to restore '{path}' ({error.strerror}).")


def _clear(asked: Options, said: _Said) -> None:
    folders = map(Path, FOLDERS.read_text().splitlines()) if FOLDERS.exists() else ()
    for folder in sorted(folders, key=lambda one: len(str(one)), reverse=True):
        _remove_folder(folder, said)
    shutil.rmtree(KEPT)
    if "skip-module-unload" not in asked and Path("/sys/module/nvidia").exists():
        _output("modprobe", "-r", "nvidia")
    if "uninstall" in asked:
        lines = ["depmod -a"] if "skip-depmod" not in asked else []
        for line in (*lines, "ldconfig", "systemctl daemon-reload"):
            _output(*line.split())


def _remove_folder(folder: Path, said: _Said) -> None:
    try:
        folder.rmdir()
    except OSError as error:
        said.log(f"Failed to delete the directory '{folder}' ({error.strerror}).")


def _output(*words: str) -> str:
    return subprocess.run(words, check=False, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[0], sys.argv[1:]))
