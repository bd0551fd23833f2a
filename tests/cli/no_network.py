"""`python -m tests.cli.no_network COMMAND …`: run a command where there is no network but loopback (Linux).

Exits with 77 where this machine does not let an ordinary process make such a place.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

NOT_HERE = 77
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_SET_FLAGS, _UP = 0x8914, 0x1


def enter() -> bool:
    """Move this process into a new network namespace in which only loopback is up; False where that is refused."""
    if sys.platform != "linux":
        return False
    user, group = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_USER | _NEW_NET):
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
            fcntl.ioctl(handle, _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP))
    except OSError:
        return False
    return True


if __name__ == "__main__":
    if not enter():
        sys.exit(NOT_HERE)
    os.execvp(sys.argv[1], sys.argv[1:])
