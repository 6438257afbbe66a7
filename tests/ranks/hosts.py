"""Two hosts for tests, which are network namespaces joined by a cable."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

ADDRESSES = ("10.213.77.1", "10.213.77.2")
NOT_RUN = 77


def _ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True).returncode


class Hosts:
    """Removed at the end, with the cable."""

    def __init__(self):
        self.names = [f"autotrain-{os.getpid()}-{host}" for host in range(2)]
        self.ends = [f"at{os.getpid() % 100000}{end}" for end in "ab"]

    def __enter__(self):
        for name in self.names:
            _ip("netns", "add", name)
        _ip("link", "add", self.ends[0], "type", "veth", "peer", "name", self.ends[1])
        for name, end, address in zip(self.names, self.ends, ADDRESSES):
            _ip("link", "set", end, "netns", name)
            _ip("-n", name, "address", "add", address + "/24", "dev", end)
            _ip("-n", name, "link", "set", "lo", "up")
        self.cable("up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            _ip("netns", "delete", name, check=False)

    def cable(self, state):
        for name, end in zip(self.names, self.ends):
            _ip("-n", name, "link", "set", end, state)

    def start(self, host, command, log, environment):
        """A process on one of the hosts that writes its output to the file `log`, without a GPU."""
        with open(log, "w", encoding="utf-8") as file:
            return subprocess.Popen(["ip", "netns", "exec", self.names[host], *command], stdout=file, stderr=file,
                                    env={**os.environ, "CI": "1", "CUDA_VISIBLE_DEVICES": "", **environment},
                                    cwd=Path(log).parent)

    def listening(self, host):
        """The ports on which somebody listens there."""
        table = subprocess.run(["ip", "netns", "exec", self.names[host], "cat", "/proc/net/tcp"], check=True,
                               capture_output=True, text=True).stdout
        rows = [line.split() for line in table.splitlines()[1:]]
        return {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A"}


def leave_if_there_can_be_none():
    if os.geteuid() != 0 or not shutil.which("ip"):
        sys.exit(NOT_RUN)
    probe = f"autotrain-probe-{os.getpid()}"
    if _ip("netns", "add", probe, check=False) != 0:
        sys.exit(NOT_RUN)
    _ip("netns", "delete", probe)
