#!/usr/bin/env python3
"""The program runs on Debian 12+, Ubuntu 22.04+ with nothing installed: needs only the C library's own shared objects and
no symbol of a glibc newer than 2.35. Prints what breaks that; exit 1. Headers of a newer glibc (2.38 on) name newer symbols
whatever the sources say: a machine that has them builds for itself, and the rule of symbols is skipped there; exit 77."""
import platform
import re
import subprocess
import sys

LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "librt.so.1"}
NEWEST = (2, 35)
NEWEST_HEADERS = (2, 36)   # Debian 12, where releases are built


def main():
    binary = sys.argv[1]
    dynamic = subprocess.run(["objdump", "-p", binary], capture_output=True, text=True, check=True).stdout
    found = [f"needs {lib}" for lib in re.findall(r"NEEDED\s+(\S+)", dynamic) if lib not in LIBRARIES]
    here = tuple(map(int, (platform.libc_ver()[1] or "0.0").split(".")[:2]))
    if here > NEWEST_HEADERS:
        print("\n".join(found) or f"built with the headers of glibc {here[0]}.{here[1]}: which symbols it needs was not judged")
        return 1 if found else 77
    for version in sorted(set(re.findall(r"GLIBC_(\d+\.\d+)", dynamic))):
        if tuple(map(int, version.split("."))) > NEWEST:
            symbols = subprocess.run(["objdump", "-T", binary], capture_output=True, text=True, check=True).stdout
            names = [line.split()[-1] for line in symbols.splitlines() if f"GLIBC_{version}" in line]
            found.append(f"needs GLIBC_{version} for {', '.join(names)}")
    print("\n".join(found) if found else "the binary needs only an old C library")
    return 1 if found else 0


sys.exit(main())
