#!/usr/bin/env python3
"""The progress line of commands that may take longer than two seconds, on a terminal (a pty) and not on one. Would catch a command that is
silent for minutes, a line that stays behind in front of the table, and control characters in a log.

usage: progress_line.py MOEPROOF MOEPROOF_FAULTY SOURCE_ROOT"""
import os
import pathlib
import pty
import re
import shlex
import subprocess
import sys
import tempfile

MOEPROOF, FAULTY, ADAPTER = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve() / "harness/adapters"
KERNEL = f"""
import sys, time
sys.path.insert(0, {str(ADAPTER)!r})
from moeproof_executor import Refused, bf16_to_f32, kernel, serve

@kernel(op="combine")
def slow(gemm2, topk_weights, problem):
    time.sleep(float(sys.argv[1]) * (problem["tokens"] == 9))
    tokens, k = topk_weights.shape
    return (bf16_to_f32(gemm2).reshape(tokens, k, -1) * topk_weights[:, :, None]).sum(axis=1)

serve()
"""


def on_terminal(words):
    """What the command writes to a terminal that is its standard error."""
    main_end, end = pty.openpty()
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=end) as run:
        os.close(end)
        text = b""
        while True:
            try:
                more = os.read(main_end, 4096)
            except OSError:  # the other end is closed
                break
            if not more:
                break
            text += more
    os.close(main_end)
    return text.decode(), run.returncode


def screen_of(text):
    """What stands on the screen behind it: a line that is drawn over counts as drawn last."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part):]
        lines.append(shown.rstrip())
    return [line for line in lines if line]


def check(name, words, drawn, codes, left=(), log=False):
    text, code = on_terminal(words)
    assert code in codes, f"{name}: exit {code}\n{text}"
    assert re.search(drawn, text), f"{name}: no progress on the terminal: {text!r}"
    rest = [line for line in screen_of(text) if not any(re.search(pattern, line) for pattern in left)]
    assert not rest, f"{name}: it leaves {rest}"
    if not log:
        return
    log = subprocess.run(words, capture_output=True, text=True)
    assert "\r" not in log.stderr and not re.search(drawn, log.stderr), f"{name}: a log with a drawn line: {log.stderr!r}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        kernel = pathlib.Path(folder) / "slow.py"
        kernel.write_text(KERNEL)
        child = f"process:{shlex.quote(sys.executable)} {shlex.quote(str(kernel))} "
        sizes = "--op combine --hidden 256 --intermediate 128 --experts 4 --top-k 2 --tokens 8,9".split()
        check("upstream-check", [MOEPROOF, "upstream-check", "--before", child + "0.7", "--after", child + "0.8", *sizes],
              r"1 of 2, [0-9.e+]+ a (second|minute), about", (0,), log=True)
        check("check", [MOEPROOF, "check", "--executor", child + "1.3", *sizes], r"1 of 2, [0-9.e+]+ a (second|minute), about", (0,))
        check("check --self-test", [MOEPROOF, "check", "--self-test", FAULTY, "--faults", "V01", "--fault-seeds", "2", "--trials", "10"],
              r"[0-9] of 4, [0-9.e+]+ a (second|minute)", (0, 1), left=(r"^V01 ",))
    print("three commands draw and wipe their line")


main()
