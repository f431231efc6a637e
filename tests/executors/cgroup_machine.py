"""A virtual machine with Debian's kernel, whose files are those of this machine, and a delegated cgroup v2 in it.

Nothing of this machine changes: its files are read-only there, below a file system in memory. QEMU uses KVM if
`OPENSKILL_TEST_KVM` is set, and is slow without.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
MODULES = (
    *("drivers/virtio/virtio_ring", "drivers/virtio/virtio", "drivers/virtio/virtio_pci_legacy_dev"),
    *("drivers/virtio/virtio_pci_modern_dev", "drivers/virtio/virtio_pci", "fs/netfs/netfs", "fs/fscache/fscache"),
    *("net/9p/9pnet", "net/9p/9pnet_virtio", "fs/9p/9p", "fs/overlayfs/overlay"),
)
TIMEOUT = 1800.0

_INIT = """#!/bin/busybox sh
for module in {modules}; do /bin/busybox insmod /modules/$module.ko; done
cd /bin
./busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=500000 host /low
./busybox mount -t tmpfs tmpfs /up
./busybox mkdir /up/upper /up/work
./busybox mount -t overlay -o lowerdir=/low,upperdir=/up/upper,workdir=/up/work overlay /new
for kind in proc sysfs:sys devtmpfs:dev tmpfs:tmp tmpfs:run cgroup2:sys/fs/cgroup; do
    ./busybox mount -t ${{kind%%:*}} none /new/${{kind##*:}}
done
for kind in tmpfs:dev/shm devpts:dev/pts; do
    ./busybox mkdir -p /new/${{kind##*:}}
    ./busybox mount -t ${{kind%%:*}} none /new/${{kind##*:}}
done
./busybox chmod 1777 /new/tmp /new/dev/shm
./busybox mkdir -p /new{repository}
./busybox mount -o bind /low{repository} /new{repository}
./busybox cp /work /new/run/work
exec ./busybox switch_root /new /bin/bash /run/work
"""
_WORK = """
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp CI= OPENSKILL_HOSTILE=
ip link set lo up
ln -sf /proc/self/fd /dev/fd
for directory in {closed}; do chmod a+x "$directory"; done
cd {repository}
echo "+memory +pids" > /sys/fs/cgroup/cgroup.subtree_control
group=/sys/fs/cgroup/delegated
mkdir $group
chown {user}:{user} $group $group/cgroup.procs $group/cgroup.subtree_control $group/cgroup.threads
{python} -c "import os; os.setxattr('$group', 'trusted.delegate', b'1')"
(
    echo $BASHPID > $group/cgroup.procs
    exec setpriv --reuid {user} --regid {user} --clear-groups {python} {arguments}
)
echo o > /proc/sysrq-trigger
sleep 9
"""


def run_in_machine(directory: Path, user: int, arguments: str) -> str:
    """What Python prints for these arguments as this user in such a machine."""
    _unpack_kernel(directory)
    (kernel,) = directory.glob("boot/vmlinuz-*")
    (modules,) = directory.glob("lib/modules/*/kernel")
    root = directory / "initial"
    for name in ("bin", "modules", "low", "up", "new", "proc", "dev"):
        (root / name).mkdir(parents=True)
    (root / "bin" / "busybox").write_bytes(Path("/usr/bin/busybox").read_bytes())
    for name in MODULES:
        (root / "modules" / f"{Path(name).name}.ko").write_bytes((modules / f"{name}.ko").read_bytes())
    names = " ".join(Path(name).name for name in MODULES)
    (root / "init").write_text(_INIT.format(modules=names, repository=REPOSITORY))
    places = {Path(sys.prefix), Path(sys.base_prefix), REPOSITORY}
    closed = {above for place in places for above in place.parents if not above.stat().st_mode & 1}
    text = " ".join(f"'{path}'" for path in closed)
    work = _WORK.format(closed=text, repository=REPOSITORY, user=user, python=sys.executable, arguments=arguments)
    (root / "work").write_text(work)
    for name in ("init", "bin/busybox"):
        (root / name).chmod(0o755)
    image = directory / "initial.cpio"
    pack = "find . | busybox cpio -o -H newc"
    image.write_bytes(subprocess.run(["sh", "-c", pack], cwd=root, capture_output=True, check=True).stdout)
    fast = bool(os.environ.get("OPENSKILL_TEST_KVM"))
    command = [
        *("qemu-system-x86_64", "-nodefaults", "-no-reboot", "-nographic", "-serial", "stdio", "-m", "2048"),
        *("-accel", "kvm" if fast else "tcg", "-cpu", "host" if fast else "max", "-kernel", str(kernel)),
        *("-initrd", str(image), "-append", "console=ttyS0 quiet panic=-1"),
        *("-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"),
        *("-device", "virtio-9p-pci,fsdev=host,mount_tag=host"),
    ]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=True)
    return ended.stdout.decode("utf-8", "replace").replace("\r", "")


def _unpack_kernel(directory: Path) -> None:
    """Download Debian's kernel and unpack it, without installing it."""
    if platform.machine() != "x86_64" or not Path("/etc/debian_version").exists():
        pytest.skip("needs Debian on x86_64")
    asking = ["apt-cache", "depends", "--important", "linux-image-amd64"]
    listed = subprocess.run(asking, capture_output=True, text=True, check=True).stdout
    package = next(line.split()[1] for line in listed.splitlines() if "Depends: linux-image-" in line)
    subprocess.run(["apt-get", "download", package], cwd=directory, capture_output=True, check=True)
    (file,) = directory.glob("linux-image-*.deb")
    subprocess.run(["dpkg-deb", "-x", str(file), str(directory)], check=True)
