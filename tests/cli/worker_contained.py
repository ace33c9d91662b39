#!/usr/bin/env python3
"""Misfortunes of the emulated SM's worker (--isolate) at random moments: killed, crashed, aborted, stopped (a hang), out of memory. Every
case has a verdict, at most one of them is lost for each misfortune, and all others are as without: the next case gets a new worker. Would
catch a run that ends with its worker, waits for it, or blames the case behind.

usage: worker_contained.py MOEPROOF [MISFORTUNES = 5]"""
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

MOEPROOF, MISFORTUNES = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
CASES = 7 * MISFORTUNES
KINDS = ("killed", "crash", "abort", "hang", "memory")
SIGNALS = {"killed": signal.SIGKILL, "crash": signal.SIGSEGV, "abort": signal.SIGABRT, "hang": signal.SIGSTOP}
PATIENCE = 6  # seconds: what a hang costs, and more than a case takes on a loaded machine


def worker_of(run):
    """The worker's process id; None between two."""
    listed = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children")
    try:
        children = [int(pid) for pid in listed.read_text().split()]
    except OSError:
        return None
    for pid in children:
        try:
            if "worker" in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
                return pid
        except OSError:
            pass
    return None


def strike(run, kind):
    """True where a worker was there to be struck."""
    pid = worker_of(run)
    if pid is None:
        return False
    try:
        if kind == "memory":
            resource.prlimit(pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))
        else:
            os.kill(pid, SIGNALS[kind])
    except ProcessLookupError:
        return False
    return True


def main():
    moments, met, left = random.Random(11), dict.fromkeys(KINDS, 0), MISFORTUNES
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "r.json")
        tokens = ",".join(str(33 + n % 50) for n in range(CASES))
        run = subprocess.Popen([MOEPROOF, "check", "--executor", "emulated", "--isolate", "--case-timeout", f"{PATIENCE}s", "--hidden", "512",
                                "--intermediate", "256", "--experts", "8", "--top-k", "2", "--tokens", tokens, "--quiet", "--json", report],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while left > 0 and run.poll() is None:
            time.sleep(moments.uniform(0.02, 0.3))
            kind = KINDS[(MISFORTUNES - left) % len(KINDS)]
            if strike(run, kind):
                met[kind] += 1
                left -= 1
                time.sleep(PATIENCE + 0.5 if kind == "hang" else 0.05)  # one at a time
        said = run.communicate(timeout=600)[1]
        assert report.exists() and run.returncode in (0, 1), f"exit {run.returncode}: {said[-2000:]}"
        verdicts = [c["verdict"] for c in json.loads(report.read_text())["cases"]]
    lost = [v for v in verdicts if v["correctness"] in ("crashed", "timed_out")]
    assert len(verdicts) == CASES, f"{len(verdicts)} cases have a verdict"
    assert left == 0, f"the run was over before {left} of the misfortunes"
    assert lost and len(lost) <= MISFORTUNES, f"{len(lost)} cases were lost: {[v['reason'][:90] for v in lost]}"
    assert all(v["correctness"] == "passed" for v in verdicts if v not in lost), "another verdict than without misfortunes"
    print(f"{MISFORTUNES} of {MISFORTUNES} contained: {met}; {len(lost)} cases were in flight and lost, {len(verdicts) - len(lost)} passed")


main()
