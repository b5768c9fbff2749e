# In a Debian with a kernel, its headers and DKMS: two sets of modules are built by the program that
# hosts have, one becomes the stock set as Debian has it, and both go into a ramdisk with kmod.
set -eu
lab=/lab folder=/var/lib/rigops/driver-modules ramdisk=/lab/ramdisk
kernel=$(ls /lib/modules)

built() { # DIGEST
    mkdir -p "$folder"
    cp "$lab/$1.tar.gz" "$folder/"
    sh "$lab/own_modules" build "$kernel"
}
has() { # PROGRAM…: with its libraries
    for program; do
        file=$(command -v "$program")
        cp -L "$file" "$ramdisk/usr/bin/"
        ldd "$file" 2>/dev/null | sed -n 's/^[^/]*\(\/[^ ]*\) .*/\1/p' | while read -r library; do
            cp -L --parents "$library" "$ramdisk"
        done
    done
}

stock=/lib/modules/$kernel/updates/dkms
built "$1"
mkdir -p "$stock"
for file in "$folder/$kernel"/*.ko; do
    name=${file##*/nvidia}
    cp "$file" "$stock/nvidia-current$name"
done
sh "$lab/own_modules" remove
[ ! -e "$folder" ]
built "$2"
depmod "$kernel"

mkdir -p "$ramdisk/usr/bin" "$ramdisk/usr/lib" "$ramdisk/usr/lib64" "$ramdisk/proc" "$ramdisk/sys" \
    "$ramdisk/dev" "$ramdisk/run" "$ramdisk/etc/modprobe.d" "$ramdisk/usr/lib/modules/$kernel"
ln -s usr/bin "$ramdisk/bin"
ln -s usr/bin "$ramdisk/sbin"
ln -s bin "$ramdisk/usr/sbin"
ln -s usr/lib "$ramdisk/lib"
ln -s usr/lib64 "$ramdisk/lib64"
has sh cat cp dmesg flock grep kmod mkdir mount mv sed sha256sum sleep tr uname
for name in modprobe insmod modinfo; do ln -s kmod "$ramdisk/usr/bin/$name"; done
cp "/lib/modules/$kernel"/modules.* "$ramdisk/lib/modules/$kernel/"
cp --parents -r "$stock" "$ramdisk"
cp --parents -r "$folder/$kernel" "$ramdisk"
mkdir -p "$ramdisk/lib/firmware/nvidia/$3"
cp "$lab"/modprobe.d/* "$ramdisk/etc/modprobe.d/"
mkdir -p "$ramdisk/usr/local/libexec/rigops"
cp "$lab/nvidia_modules" "$ramdisk/usr/local/libexec/rigops/"
cp "$lab/init" "$ramdisk/init"
chmod 755 "$ramdisk/init" "$ramdisk/usr/local/libexec/rigops/nvidia_modules"
(cd "$ramdisk" && find . | cpio --quiet -o -H newc) >"$lab/ramdisk.cpio"
cp "/boot/vmlinuz-$kernel" "$lab/vmlinuz"
