#!/bin/bash
# Runs tests/kernels_run.cpp on processors that this machine is not, in the emulator Bochs:
#
#     tools/emulate_kernels.sh [MODEL[:INSTRUCTIONS] ...]
#
# MODEL is one of `bochs --help cpu`; without any, one with AVX-512 VNNI and one with AVX-VNNI. Each
# takes some minutes. Needs `make chat`, Debian 13 on x86-64 (before Bochs 3, AVX-512 fails), and
#
#     apt-get install g++ bochs bochs-term bochsbios vgabios isolinux syslinux-common xorriso cpio \
#         busybox-static
#     apt-get download $(apt-cache depends linux-image-cloud-amd64 | awk '/Depends/ {print $2}')
#
# with that linux-image-*.deb in the current folder; it is not installed.

set -euo pipefail

root=$(realpath "$(dirname "$0")/..")
site=$(echo "$root"/.venv/lib/python3*/site-packages)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- tigerlake:avx512vnni arrow_lake:avxvnni

# The program, and every library that it loads.
mkdir -p "$work"/{iso,image/{bin,lib,lib64,proc,dev}}
libraries=("$site"/gemmachat/libgemmachat.so "$site"/llama_cpp/lib/lib{llama,ggml-cpu,ggml-base}.so.0)
g++ -std=c++17 -O2 -I "$root/native" -isystem "$site/include" \
    "$root/tests/kernels_run.cpp" "${libraries[@]}" \
    -Wl,-rpath-link,"$site/llama_cpp/lib" -o "$work/image/bin/kernels_run"
LD_LIBRARY_PATH=$site/gemmachat:$site/llama_cpp/lib ldd "$work/image/bin/kernels_run" |
    awk '$3 ~ /^\// {print $3}' | xargs cp -Lt "$work/image/lib"
cp /lib64/ld-linux-x86-64.so.2 "$work/image/lib64"
cp "$(command -v busybox)" "$work/image/bin"
dpkg -x linux-image-*.deb "$work/kernel"

# Linux with nothing but the program. Bochs fails in system management mode, which ACPI enters, and
# has FSRM (580) without ERMS, which breaks the kernel's memmove. A triple fault ends it.
cat > "$work/image/init" <<'END'
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox grep -m1 'model name' /proc/cpuinfo
LD_LIBRARY_PATH=/lib /bin/kernels_run $INSTRUCTIONS
/bin/busybox sleep 2
/bin/busybox reboot -f
END
chmod +x "$work/image/init"
cp "$work"/kernel/boot/vmlinuz-* "$work/iso/linux"
(cd "$work/image" && find . | cpio -o -H newc --quiet | gzip -1) > "$work/iso/initrd"
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$work/iso"

good=true
for model in "$@"; do
    name=${model%%:*} instructions=$(echo "$model" | cut -s -d: -f2)
    cat > "$work/iso/isolinux.cfg" <<END
DEFAULT linux
LABEL linux
 KERNEL /linux
 INITRD /initrd
 APPEND console=ttyS0 quiet acpi=off clearcpuid=580 mitigations=off reboot=t,force INSTRUCTIONS=$instructions
END
    xorriso -as mkisofs -quiet -o "$work/boot.iso" -b isolinux.bin -c boot.cat -no-emul-boot \
        -boot-load-size 4 -boot-info-table "$work/iso" 2> "$work/xorriso"
    cat > "$work/bochsrc" <<END
cpu: model=$name, ips=100000000, reset_on_triple_fault=0
memory: guest=512, host=512
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
display_library: rfb, options="timeout=0"
ata0-master: type=cdrom, path=boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=serial
log: log
panic: action=fatal
END
    echo c > "$work/go"
    (cd "$work" && : > serial && bochs -q -f bochsrc -rc go) > "$work/output" 2>&1 < /dev/null || true
    echo "== $model" && cat "$work/serial"
    grep -q '^good' "$work/serial" || good=false
done
$good
