"""What the host's apt has of the NVIDIA driver, and from where: asked without touching anything."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.facts import FactBase

from rigops.facts import apt_beside, driver_offered
from rigops.facts.driver_offered import Offered
from rigops.probe import reading
from rigops.probe.script import script
from rigops.probe.section import Section

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME: Final = "driver-offers"
_APT_S: Final = 60  # it reads all lists anew, four times, on a slow machine too

# Of modules that were built for kernels beforehand only what leads to them: there is one for each
# kernel that ever was.
_OF_THE_DRIVER: Final = (
    r"^((lib)?nvidia-.*|libcuda1|libcudadebugger1|libnvcuvid1|libnvoptix1|firmware-nvidia-.*"
    r"|xserver-xorg-video-nvidia.*|lib(gl1|egl|gles|gles1|gles2|glx)-nvidia.*|cuda-drivers.*"
    r"|linux-modules-nvidia-[0-9]+(-server)?(-open)?-generic.*)$"
)
_APART: Final = (
    r"^((lib)?nvidia-container.*|nvidia-(docker|cudnn|nsight|visual-profiler|profiler|opencl-dev"
    r"|dcgm|gds|fs|mig)(-.*|[0-9].*)?|nvidia-cuda-(toolkit|dev|doc|gdb|samples).*)$"
)

_ASK: Final = rf"""{apt_beside.BESIDE}
asked() {{
    apt-cache -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o Acquire::Languages=en "$@" 2>/dev/null
}}
offers() {{
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
        /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] || continue
        echo "== file $file"; head -c 100000 "$file" | hide; echo
    done
    echo "== trouble"; echo "$trouble"
    echo "== lists"; find "$lists" -name '*_Packages*' | wc -l
    echo "== releases"; asked policy | grep -A 1 ' Packages$' | hide
    known=$(asked pkgnames)
    names=$(echo "$known" | grep -E '{_OF_THE_DRIVER}' | grep -v -E '{_APART}'
        for release; do
            case $release in
                signed:*) echo "$known" | grep '^linux-[a-z]*-nvidia-' |
                    grep -F -e "-${{release#signed:}}" ;;
                *) echo "$known" | grep -F -x "linux-headers-$release" ;;
            esac
        done)
    [ -n "$names" ] || return 0
    # shellcheck disable=SC2086  # several names
    set -- $names
    echo "== places"
    asked madison "$@" | hide | awk '$NF == "Packages" {{
        place = index($(NF - 1), "/") ? $(NF - 1) : $(NF - 2)
        row = $1 " " $3 " " place
        sub(/^[^|]*\|[^|]*\| */, "")
        row = row " " $0
        if (!(row in seen)) print row
        seen[row] = 1
    }}'
    echo "== records"
    asked show -a "$@" | awk '
        function over() {{
            if (match(said, /tested up to Linux [0-9]+(\.[0-9]+)*/))
                print "Tested: " substr(said, RSTART + 19, RLENGTH - 19)
            print ""
            said = ""
        }}
        /^[ \t]*$/ {{ over(); next }}
        /^[^ \t]/ {{
            kept = /^(Package|Version|Source|Depends|Pre-Depends|Provides):/
            told = /^Description/
        }}
        kept {{ print }}
        told {{ gsub(/[ \t]+/, " "); said = said " " $0; gsub(/ +/, " ", said) }}
        END {{ over() }}'
    return 0
}}
"""

_OF_ALL_KERNELS: Final = """\
set --
for image in /boot/vmlinuz-* /boot/vmlinux-*; do
    [ -e "$image" ] || continue
    release=$(echo "${image##*/vmlinu[xz]-}" | tr '[:upper:]' '[:lower:]')
    set -- "$@" "$release" "signed:$release"
done
offers "$@"
"""


def offers_section(
    source: str = "", headers: Sequence[str] | None = (), signed: Sequence[str] = ()
) -> Section[Offered]:
    """As one section of a probe, for those who want to ask together with other things.

    `headers`: of these kernels; None: of every kernel that is in /boot. `signed`: the kernels whose
    modules the distribution may have built.
    """
    asks = _OF_ALL_KERNELS
    if headers is not None:
        asks = shlex.join(("offers", *headers, *(f"signed:{one}" for one in signed)))
    call = "\n".join((apt_beside.beside(source), asks))
    snippet = (
        f"{_ASK}if [ -s /var/lib/dpkg/status ] && command -v apt-cache >/dev/null; then\n"
        f"{call}\nfi\nexit 0\n"
    )
    return Section(
        name=_NAME,
        snippet=snippet,
        parse=driver_offered.parse,
        timeout_s=_APT_S + (apt_beside.LONGEST_S if source else 0),
        wants_root=True,
    )


class DriverOffers(FactBase[Offered]):
    """Every version of every package of the driver, and what these kernels need with it.

    With a source, which is the text of a file of them, as if that were there already.
    """

    def command(  # type: ignore[mutable-override]  # as all of pyinfra's do
        self, *, source: str = "", headers: tuple[str, ...] = (), signed: tuple[str, ...] = ()
    ) -> StringCommand:
        section = offers_section(source, headers, signed)
        return StringCommand("sh", "-c", QuoteString(script([section])))

    def process(self, output: list[str]) -> Offered:
        bundle = reading.read("\n".join([*output, ""]).encode())
        collected = bundle.sections.get(_NAME) if bundle else None
        return driver_offered.parse(collected.text if collected else "")

    @staticmethod
    def default() -> Offered:
        return Offered()
