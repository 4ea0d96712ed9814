"""A machine whose first process is systemd, in namespaces of its own, with the network of this one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.deploy.dockerfile import ROOT
from tests.processes.support import until
from webhookhub.runner.notifier import QUEUE_LENGTH_FILE

from . import image as builder

UNITS = ROOT / "deploy" / "systemd"
# Units of Debian that need devices, a network of their own or a console.
MASKED = [
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "console-getty.service",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "getty.target",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-logind.service",
    "systemd-modules-load.service",
    "systemd-networkd.service",
    "systemd-remount-fs.service",
    "systemd-sysctl.service",
    "systemd-timesyncd.service",
    "systemd-udev-trigger.service",
    "systemd-udevd.service",
]
# $1: the root, $2: an empty folder, $3: the name of a new control group.
CONTROL_GROUP = 'mount -t cgroup2 none "$2"; mkdir "$2/$3"; echo $$ >"$2/$3/cgroup.procs"; umount "$2"'
REMOVE_CONTROL_GROUP = 'mount -t cgroup2 none "$1"; find "$1/$2" -depth -type d -exec rmdir {} +'
BOOT = """
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 none sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm dev/mqueue dev/hugepages
for device in null zero full random urandom tty; do touch dev/$device; mount --bind /dev/$device dev/$device; done
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -p oldroot
pivot_root . oldroot
umount -l /oldroot
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --log-target=journal
"""


class Machine:
    """Installed as docs/install.md says; boots inside its `with` block."""

    def __init__(self, image: builder.Image, folder: Path) -> None:
        self.root = folder / "root"
        self._folder, self._group = folder, f"webhookhub-{os.getpid()}"
        (folder / "groups").mkdir(parents=True)
        subprocess.run(["cp", "-a", str(builder.base()), str(self.root)], check=True)
        shutil.copyfile("/etc/resolv.conf", self.root / "etc" / "resolv.conf")
        self._inside("apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd libmariadb3")
        subprocess.run(["cp", "-a", str(image.root / "opt" / "webhookhub"), str(self.root / "opt")], check=True)
        etc = self.root / "etc"
        for kind in ("sysusers", "tmpfiles"):
            (etc / f"{kind}.d").mkdir(exist_ok=True)
            shutil.copy(UNITS / f"{kind}.conf", etc / f"{kind}.d" / "webhookhub.conf")
        shutil.copytree(UNITS, etc / "systemd" / "system", dirs_exist_ok=True)
        for name in MASKED:
            (etc / "systemd" / "system" / name).unlink(missing_ok=True)
            (etc / "systemd" / "system" / name).symlink_to("/dev/null")
        self._inside("systemd-sysusers && systemd-tmpfiles --create /etc/tmpfiles.d/webhookhub.conf")
        self._inside("install -m 0640 -g webhookhub /dev/null /etc/webhookhub/hub.env")

    def _inside(self, script: str) -> None:
        command = 'mount -t proc proc "$1/proc" && exec chroot "$1" sh -c "$2"'
        variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
        command_line = ["unshare", "--mount", "sh", "-euc", command, "sh", str(self.root), script]
        result = subprocess.run(command_line, env=variables, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout[-1000:] + result.stderr[-2000:]

    def configure(self, name: str, text: str) -> None:
        (self.root / "etc" / "webhookhub" / name).write_text(text)

    def override(self, unit: str, start: str) -> None:
        """As `systemctl edit` does."""
        folder = self.root / "etc" / "systemd" / "system" / f"{unit}.service.d"
        folder.mkdir()
        (folder / "override.conf").write_text(f"[Service]\nExecStart=\nExecStart={start}\n")

    def __enter__(self) -> Machine:
        self._queue_length = QUEUE_LENGTH_FILE.read_text()
        namespaces = ["unshare", "--cgroup", "--pid", "--fork", "--kill-child", "--uts", "--ipc"]
        outer = f'{CONTROL_GROUP}; exec {" ".join(namespaces)} sh -euc "$4" sh "$1"'
        groups = str(self._folder / "groups")
        command = ["unshare", "--mount", "sh", "-euc", outer, "sh", str(self.root), groups, self._group, BOOT]
        with (self._folder / "boot.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until(
            lambda: self.run("systemctl", "is-system-running").strip() in ("running", "degraded"), "systemd has booted"
        )
        return self

    def __exit__(self, *exception: Any) -> None:
        self._process.kill()
        self._process.wait()
        groups = str(self._folder / "groups")
        remove = ["unshare", "--mount", "sh", "-euc", REMOVE_CONTROL_GROUP, "sh", groups, self._group]
        until(lambda: subprocess.run(remove, capture_output=True).returncode == 0, "its processes have ended")
        # systemd sets it for its network, which is that of this machine.
        QUEUE_LENGTH_FILE.write_text(self._queue_length)

    def run(self, *command: str) -> str:
        """Standard output, whatever the exit code; empty while it does not run."""
        return self._run(command).stdout

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        pid = self._process.pid
        assert self._process.poll() is None, (self._folder / "boot.log").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        enter = ["nsenter", "-t", (children or ["0"])[0], "--mount", "--pid", "--uts", "--ipc", "--cgroup"]
        enter += ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]  # not the environment of the tests
        return subprocess.run([*enter, *command], capture_output=True, text=True)

    def hub(self, *arguments: str) -> str:
        """A command by hand, as the hub's user in its folder."""
        command = ["runuser", "-u", "webhookhub", "--", "/opt/webhookhub/bin/webhookhub", *arguments]
        result = self._run(["sh", "-c", 'cd /var/lib/webhookhub && exec "$@"', "sh", *command])
        assert result.returncode == 0, result.stderr
        return result.stdout

    def show(self, unit: str, *properties: str) -> list[str]:
        return self.run("systemctl", "show", "--value", *(f"-p{name}" for name in properties), unit).split()
