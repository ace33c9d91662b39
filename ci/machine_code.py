#!/usr/bin/env python3
"""Is a copy that one lane should issue issued by that lane alone, in the machine code too?

    ci/machine_code.py NVDISASM CUBIN...      exit 1 and one line a finding; needs nvdisasm of CUDA 13

ci/compile_cubin asks it of every kernel of the build.

TMA and bulk copies are instructions of the warp: without a predicate, with operands in uniform registers. For `if (leader) copy(..)`
ptxas either branches around the copy, or, where the branch is short, gives predicates to the moves into uniform registers (R2UR) and
lets the whole warp issue the copy. That holds only while the warp is together. It is not behind a wait: the lanes of a warp meet at
BSYNC, but one that spins in a loop with YIELD is not waited for. The others then issue the copy with what was left in the uniform
registers, and the bytes of a barrier no longer add up (fixtures/measured/h200_gathered_hang.txt). Finding: such a copy whose uniform
registers come from R2UR under a predicate since the last branch, unless ELECT chose the lane there (the loop that ptxas makes of a
copy by several lanes). Mend it in the source: one branch for the wait and for all that its lane issues.
"""
import re
import subprocess
import sys

COPY = re.compile(r"\b(UBLKCP|UBLKRED|UTMALDG|UTMASTG|UTMAREDG)\b")
LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")


def findings(text):
    """(address, instruction) of each such copy in what nvdisasm -c prints; knows one function or several."""
    found, predicated, elected = [], False, False
    for line in text.splitlines():
        match = LINE.search(line)
        if not match:
            if line.lstrip().startswith(".L_x"):   # jumped to: what stands in front does not tell
                predicated = elected = False
            continue
        instruction = match[2]
        if COPY.search(instruction):
            if predicated and not elected:
                found.append((match[1], instruction))
            predicated = elected = False
        elif "ELECT" in instruction:
            elected = True
        elif re.match(r"@!?P\d R2UR", instruction):
            predicated = True
        elif re.search(r"\b(BRA|BSYNC|EXIT)\b", instruction):
            predicated = elected = False
    return found


def check(nvdisasm, cubin):
    """The findings of a cubin, a line each; ValueError when it cannot be read."""
    done = subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True, check=False)
    if done.returncode or "/*0000*/" not in done.stdout:
        raise ValueError(f"{nvdisasm} cannot read {cubin}: {(done.stderr.strip() or 'no code').splitlines()[0]}")
    return [f"{cubin}: 0x{address}: '{instruction}' is issued by every lane, its operands are one lane's (ci/machine_code.py)"
            for address, instruction in findings(done.stdout)]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        found = [line for cubin in sys.argv[2:] for line in check(sys.argv[1], cubin)]
    except (OSError, ValueError) as error:
        print(f"machine_code: {error}", file=sys.stderr)
        sys.exit(2)
    print("\n".join(found + [f"{len(sys.argv) - 2} cubins, {len(found)} findings"]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
