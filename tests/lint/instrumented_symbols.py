#!/usr/bin/env python3
"""Rules of the kernel units of the emulated SM, read from their object files with nm. Exit 1 on a breach.

- a weak function (inline, template) belongs to an `emulated` namespace or to EmulatedVariant: one that host code shares
  would be merged with an uninstrumented copy by the linker, and the checker would not see its loads and stores
- no call of memcpy, memmove or memset: the checker sees loads and stores, not library calls
- no other library code: what is called is the emulated SM (moe::hopper::engine), its hooks, or exact arithmetic
"""
import re
import subprocess
import sys

ALLOWED_CALLS = re.compile(r"^(__tsan_\w+|__ubsan_handle_type_mismatch_v1|moe::hopper::engine::.*|sqrtf|fmaf|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail)$")


def breaches(path):
    listed = subprocess.run(["nm", "-C", path], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        kind, name = line[17:18], line[19:]
        if kind == "W" and "::emulated::" not in name and "::emulated_planted::" not in name and \
                "::EmulatedVariant<" not in name:
            yield f"{path}: {name} is weak and not in an emulated namespace: make it MOE_HD or move it"
        if kind == "U" and not ALLOWED_CALLS.match(name) and "::emulated" not in name:
            yield f"{path}: calls {name}, which the checker cannot see into"


def main():
    found = [breach for path in sys.argv[1:] for breach in breaches(path)]
    print("\n".join(found) if found else f"{len(sys.argv) - 1} instrumented objects hold the rules")
    return 1 if found or len(sys.argv) < 2 else 0


sys.exit(main())
