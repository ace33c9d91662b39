#!/usr/bin/env python3
"""30 misfortunes of a worker in one run (crashes, aborts, kills, exits, hangs, memory that ends, sticky errors), each between two good
cases: every one is the verdict of its own case alone. Would catch a worker that is not replaced, a sticky error that spoils the next
case, a hang that holds the run up, a run that ends with its worker.

usage: contained.py MOEPROOF SOURCE_ROOT"""
import json
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
MOEPROOF, CHILD = sys.argv[1], pathlib.Path(sys.argv[2]) / "tests/adapters/unlucky_child.py"
KINDS = ("crash", "abort", "killed", "exit", "hang", "memory", "sticky")
MISFORTUNES = 30


def main():
    tokens = range(1, 2 * MISFORTUNES + 2)
    words = ["--op", "topk", "--experts", "8", "--top-k", "2", "--hidden", "256", "--intermediate", "128", "--tokens",
             ",".join(map(str, tokens)), "--case-timeout", "2s", "--quiet", "--json", "-"]
    done = subprocess.run([MOEPROOF, "check", "--executor", f"process:{sys.executable} {CHILD}", *words], capture_output=True, text=True)
    assert done.returncode == 1, f"exit {done.returncode}: {done.stderr}"
    cases = {int(c["case"].split("tokens=")[1].split()[0]): c["verdict"] for c in json.loads(done.stdout)["cases"]}
    assert sorted(cases) == list(tokens), "a case is missing"
    wrong, met = [], dict.fromkeys(KINDS, 0)
    for n, verdict in cases.items():
        word = verdict["correctness"]
        kind = None if n % 2 else KINDS[n // 2 % len(KINDS)]
        due = ("passed",) if kind is None else ("timed_out",) if kind == "hang" else ("crashed", "failed")
        if kind:
            met[kind] += word in due
        if word not in due:
            wrong.append(f"{n} tokens ({kind or 'good'}): {word}: {verdict.get('reason')}")
    assert not wrong, "\n".join(wrong)
    print(f"{sum(met.values())} of {MISFORTUNES} contained: {met}; {len(cases) - MISFORTUNES} good cases between them passed")


main()
