#!/usr/bin/env python3
"""A process with several kernels: which one is judged is said, what all agree in is taken, and what is open is asked for. And cases that a
kernel refuses: counted once a reason, under the kernel's own name. Would catch a first kernel that is judged in silence, an op that is
guessed where kernels differ, a report that names the built-in kernel, and a thousand refusals that hide one failure.

usage: several_test.py MOEPROOF SOURCE_ROOT"""
import json
import pathlib
import subprocess
import sys

from support import SIZES, Tests

PROGRAM = sys.argv[1]
CHILD = f"process:{sys.executable} {pathlib.Path(__file__).resolve().parent / 'several_kernels.py'} "


class Run:
    def __init__(self, kernels, *words):
        self.done = subprocess.run([PROGRAM, "check", "--executor", CHILD + kernels, *words], capture_output=True, text=True, timeout=120)
        self.status, self.out, self.err = self.done.returncode, self.done.stdout, self.done.stderr

    def __str__(self):
        return f"exit {self.status}\n{self.out[:3000]}\n{self.err[:3000]}"


def check_choice(t):
    tokens = [*SIZES, "--tokens", "2"]
    alike = Run("alike", *tokens)
    t.hold("(kernel first: op grouped_gemm, contract masked, quant block128; the first of first, second: --kernel chooses)" in alike.out
           and "kernel=first " in alike.out, "the first is judged, and named", alike)
    second = Run("alike", *tokens, "--kernel", "second")
    t.hold("(kernel second: op grouped_gemm, contract masked, quant block128)" in second.out and "kernel=second " in second.out,
           "--kernel picks", second)
    given = Run("ops", *tokens, "--op", "grouped_gemm")
    t.hold("(kernel first: contract masked, quant block128)" in given.out, "an op picks", given)
    contract = Run("contracts", *tokens, "--contract", "offsets", "--op", "grouped_gemm")
    t.hold("kernel=by_offset " in contract.out, "a contract picks", contract)
    scheme = Run("schemes", *tokens)
    t.hold("kernel=by_block " in scheme.out, "the default scheme picks", scheme)
    trials = Run("schemes", "--trials", "1", "--quiet", "--json", "-", "--allow", "mistrusted")
    kernels = {c["case"].split("kernel=")[1].split()[0] for c in json.loads(trials.out)["cases"]} if trials.out else set()
    t.hold(kernels == {"by_channel"}, "random cases are the first kernel's", trials)
    for kernels, words, text in (
            ("ops", [], "serves 2 kernels of several ops: first (grouped_gemm), combine (combine); name one by --kernel, or say --op"),
            ("contracts", [], "serves 2 kernels of several contracts: by_mask, by_offset; name one by --kernel, or say --contract"),
            ("alike", ["--kernel", "frist"], "has no kernel 'frist'; it has first (grouped_gemm), second (grouped_gemm)"),
            ("many", ["--kernel", "x"], "k7 (grouped_gemm) and 12 more")):
        run = Run(kernels, *tokens, *words)
        t.hold(run.status == 2 and text in run.err and run.err.count("\n") == 1, f"{kernels}: {text}", run)


def check_refusals(t):
    odd = [*SIZES, "--tokens", "1,2,3,5"]
    table = Run("odd", *odd)
    t.hold(table.out.count("even tokens only") == 1 and "1 tokens and 2 more" in table.out, "one reason, once", table)
    quiet = Run("odd", *odd, "--quiet")
    t.hold(quiet.err.count("even tokens only") == 1 and "3 of 4 cases did not run; the first: odd swap_ab" in quiet.err, "and counted", quiet)
    t.hold("1 of 512" not in quiet.err and "2 tokens\n  failed: " in quiet.err and quiet.status == 1, "the failure stands", quiet)
    all_refused = Run("refused", *SIZES, "--tokens", "1,2,3,4,5,6", "--quiet", "--json", "-")
    t.hold(all_refused.status == 77 and all_refused.err.count("\n") == 1 and "none of 6 cases could run" in all_refused.err,
           "where nothing ran one line says so", all_refused)
    cases = json.loads(all_refused.out)["cases"]
    t.hold(len(cases) == 6 and all("kernel=combine " in c["case"] for c in cases), "the refused case names the kernel", all_refused)
    shown = Run("refused", *SIZES, "--tokens", "1,2,3,4,5,6")
    t.hold(shown.out.count("rows\n") == 4 and "2 more refused, for 2 other reasons" in shown.out, "many reasons end", shown)
    absent = Run("absent", *SIZES, "--tokens", "1", "--json", "-")
    t.hold(absent.status == 77 and "op=grouped_gemm contract=masked" in absent.out and "kernel=on_a_card " in absent.out,
           "a kernel that cannot run here is named too", absent)
    large = Run("refused", "--hidden", "1048576", *SIZES[2:], "--tokens", "50000", "--op", "combine", "--quiet", "--json", "-")
    t.hold("kernel=combine " in large.out and "kernel=moeproof" not in large.out, "and where memory refuses", large)


def main():
    t = Tests()
    check_choice(t)
    check_refusals(t)
    t.finish()


main()
