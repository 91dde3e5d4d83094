"""Starts LibreOffice so that a hostile document reaches nothing. A program of its own:

    python -I office_jail.py SECONDS MEMORY LARGEST FOLDER COMMAND...

COMMAND has no network. It can read the system's programs and fonts, read and write FOLDER, and open no other
file. Processor time, memory and the size of files are limited, and it ends with whoever started it. Where
Linux cannot promise that (before 5.13, or with neither a network of its own nor Landlock's rules for the
network), nothing is started.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys

NOT_KEPT_APART = 77
"""The exit status where nothing was started."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38
_RUN, _WRITE_FILE, _READ_FILE, _READ_FOLDER, _MAKE_SOCKET = 1, 2, 4, 8, 1 << 9
_RULES_OF_ABI = {1: 1 << 13, 2: 1 << 14, 3: 1 << 15}
"""Of each version, one more than its last right to files."""
_SYSTEM = (
    "/usr", "/lib", "/lib64", "/bin", "/etc/fonts", "/etc/libreoffice", "/etc/ld.so.cache",
    "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime", "/etc/passwd",
    "/etc/nsswitch.conf", "/var/cache/fontconfig", "/var/lib/libreoffice", "/var/spool/libreoffice",
)  # fmt: skip
_DEVICES = ("/dev/null", "/dev/urandom", "/dev/random", "/dev/zero")


def landlock_version() -> int:
    """0: this kernel has none."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def _refuse(why: str) -> None:
    print(f"LibreOffice is not started: {why} ({os.strerror(ctypes.get_errno())}).", file=sys.stderr)
    sys.exit(NOT_KEPT_APART)


def _without_network() -> bool:
    """By an empty network of its own; false where this system allows no such thing."""
    return any(_LIBC.unshare(kinds) == 0 for kinds in (_NEW_NET, _NEW_USER | _NEW_NET))


def _within(folder: str, program: str, apart: bool) -> None:
    version = landlock_version()
    if not version:
        _refuse("this kernel has no Landlock")
    if not apart and version < 4:
        _refuse("it cannot be kept from the network")
    every = _RULES_OF_ABI.get(version, 1 << 15) - 1
    # Rights to files; from version 4 on also those to listen and to connect, none of which is given.
    ruleset = struct.pack("=QQ", every, 3) if version >= 4 else struct.pack("=Q", every)
    rules = _LIBC.syscall(_CREATE_RULESET, ruleset, ctypes.c_size_t(len(ruleset)), 0)
    if rules < 0:
        _refuse("no rules for files can be made")
    for path in (*_SYSTEM, os.path.dirname(os.path.dirname(os.path.realpath(program)))):
        _allow(rules, path, _RUN | _READ_FILE | _READ_FOLDER)
    for path in _DEVICES:
        _allow(rules, path, _READ_FILE | _WRITE_FILE)
    _allow(rules, folder, every & ~_RUN)
    _allow(rules, "/tmp", _MAKE_SOCKET)  # it does not start without its own; who started it removes that
    if _LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or _LIBC.syscall(_RESTRICT_SELF, rules, 0):
        _refuse("the rules for files do not hold")
    os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not on this system
    if not os.path.isdir(path):
        rights &= _RUN | _WRITE_FILE | _READ_FILE
    if _LIBC.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", rights, place), 0):
        _refuse(f"no rule for {path} can be made")
    os.close(place)


def main() -> None:
    seconds, memory, largest = map(int, sys.argv[1:4])
    folder, command = sys.argv[4], sys.argv[5:]
    _LIBC.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    for kind, most in (
        (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, largest),
        (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    _within(folder, command[0], _without_network())
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
