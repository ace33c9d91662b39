#!/usr/bin/env python3
"""Kernels in numpy through harness/adapters/moeproof_executor.py against the built program: right ones of every op and contract
pass, each fault of the wrong ones gets its verdict, and one line that replays it. Would catch an adapter that hands out wrong
tensors, a fault that the process executor lets pass, and a harness that fails what is right."""
import pathlib
import subprocess
import sys
import tempfile

from support import SIZES, Outcome, Tests

PROGRAM = sys.argv[1]
KERNELS = f"{sys.executable} {pathlib.Path(__file__).resolve().parent / 'numpy_kernels.py'}"
GEMM = SIZES + ["--op", "grouped_gemm"]
MASKED = GEMM + ["--contract", "masked", "--tokens", "9"]

RIGHT = [
    GEMM + ["--contract", "masked", "--tokens", "0,1,9", "--gemm", "2"],
    GEMM + ["--contract", "masked", "--tokens", "9", "--quant", "block128:row", "--data", "nasty"],
    GEMM + ["--contract", "masked", "--tokens", "9", "--quant", "token_channel"],
    GEMM + ["--contract", "contiguous", "--tokens", "0,9", "--load", "hot:0.9"],
    GEMM + ["--contract", "contiguous", "--tokens", "9", "--quant", "tensor_static", "--data", "exact"],
    GEMM + ["--contract", "offsets", "--tokens", "0,9", "--data", "coded"],
    GEMM + ["--contract", "offsets", "--tokens", "9", "--quant", "block128:row"],
    GEMM + ["--contract", "routed", "--tokens", "0,9"],
    GEMM + ["--contract", "routed", "--tokens", "9", "--gemm", "2", "--ep", "2", "--rank", "1", "--quant", "token_channel"],
    SIZES + ["--op", "quantize", "--tokens", "0,9"],
    SIZES + ["--op", "act_quant", "--tokens", "9", "--quant", "token_channel"],
    SIZES + ["--op", "topk", "--tokens", "0,9"],
    SIZES + ["--op", "align", "--tokens", "9", "--ep", "2", "--kernel", "align"],
    SIZES + ["--op", "combine", "--tokens", "0,9"],
    ["--op", "inv_rope_quant", "--heads", "4", "--head-groups", "2", "--tokens", "0,1,5"],
    ["--op", "inv_rope_quant", "--heads", "4", "--head-groups", "2", "--tokens", "5", "--quant", "block128:ue8m0"],
    SIZES + ["--tokens", "0,9", "--load", "zipf:1.2", "--kernel", "layer_stages"],
]

WRONG = [  # kernel, verdict, words of the reason
    ("expert_order", "failed", "of c are wrong"),
    ("transposed_scale", "failed", "of c are wrong"),
    ("dropped_token", "failed", "never written, due"),
    ("missing_tail", "failed", "of c are wrong"),
    ("crashes", "crashed", "ended by signal 11 (Segmentation fault); it wrote: about to read beyond"),
    ("raises", "crashed", "the kernel raised ValueError: no tile for this shape"),
    ("raises_unprintable", "crashed", "the kernel raised Unprintable: (its text raises ValueError)"),
    ("raises_surrogate", "crashed", "the kernel raised ValueError: tile ? of this shape"),
    ("reads_stdin", "passed", ""),
    ("asks_for_more", "crashed", "asks for 'workspace'"),
    ("prints", "passed", ""),
    ("another_type", "failed", "f16"),
    ("signed_words", "crashed", "signed_words gave int16 where bf16 (its words as uint16, or float32"),
    ("flags", "crashed", "flags gave bool where bf16 (its words as uint16, or float32"),
    ("misspelt", "crashed", "misspelt gave uint16 where none but c is due"),
    ("nested_lists", "crashed", "nested_lists returned 4 values (list, list, list, list); due is an array or a tensor for each of its outputs: c"),
    ("numbers", "crashed", "numbers returned 3 values (int, float, int); due is an array or a tensor for each of its outputs: c"),
    ("two_arrays", "crashed", "two_arrays returned 2 values (ndarray, ndarray); due is an array or a tensor for each of its outputs: c"),
    ("joined_rows", "passed", ""),
    ("longer_experts", "failed", "'c' is [4, 16, 256] where [4, 8, 256] is due"),
    ("turned_sides", "failed", "'c' is [4, 256, 8] where [4, 8, 256] is due"),
    ("another_size", "failed", ", 255] where [4, "),
    ("out_of_bounds", "failed", "out of bounds: 2 bytes behind the end of 'c'"),
    ("changes_input", "failed", "changed its input 'w'"),
    ("changes_scales", "failed", "changed its input 'a_scale'"),
    ("random", "failed", "two runs gave different bytes"),
    ("random_declared", "passed", ""),
    ("boasts", "failed", "of c are wrong"),
    ("refuses", "refused", "at most 2 rows an expert"),
]


def rotation(t):
    """Bounds alone tell a rotation in the wrong direction."""
    forward = Outcome(PROGRAM, KERNELS, ["--op", "inv_rope_quant", "--heads", "4", "--head-groups", "2", "--tokens", "5", "--kernel",
                                         "turns_forward"])
    t.expect(forward, "failed", "of o_codes are wrong", "turns_forward")


def out_alone(t):
    """A layer that shows only `out` and whose roundings no probe knows: real data prove nothing, and are not said to; exact data
    behind a trace tell right from wrong to the bit."""
    t.expect(Outcome(PROGRAM, KERNELS, SIZES + ["--tokens", "9", "--kernel", "layer"]), "mistrusted",
             "show the stages (outputs=STAGES in the adapter; STAGES[2:] where topk_ids is an input)", "layer: the remedy")
    larger = Outcome(PROGRAM, KERNELS, SIZES + ["--tokens", "9", "--kernel", "half_larger"])
    t.hold(larger.word in ("mistrusted", "failed"), "half_larger: no pass", larger)
    differs = Outcome(PROGRAM, KERNELS, SIZES + ["--tokens", "9", "--kernel", "random_layer"])
    t.expect(differs, "failed", "two runs gave different bytes", "random_layer: run twice though no bound passes it")
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as trace:
        trace.write("token,slot,expert\n" + "".join(f"{n},0,{n % 4}\n{n},1,{(n + 1) % 4}\n" for n in range(9)))
        trace.flush()
        for kernel, word, reason in (("layer", "passed", "cannot show the activation"),
                                     ("dropped_slot", "failed", "every correct kernel gives one answer")):
            exact = SIZES + ["--tokens", "9", "--data", "exact", "--load", f"trace:{trace.name}", "--kernel", kernel]
            outcome = Outcome(PROGRAM, KERNELS, exact)
            t.expect(outcome, word, reason, f"{kernel} on exact data")
            t.hold(outcome.verdict.get("judged_by") == "bits" or word == "failed", f"{kernel}: to the bit", outcome)


def lanes(t):
    """Failures are named and shrunk in the order of the cases, not in that in which lanes come to them."""
    words = "--trials 4 --op grouped_gemm --contract masked --quant block128 --kernel missing_tail --allow mistrusted".split()
    one, two = (Outcome(PROGRAM, KERNELS, words + ["--jobs", jobs]) for jobs in ("1", "2"))
    said = [[line for line in o.err.splitlines() if line.startswith(("failed: ", "further"))] for o in (one, two)]
    t.hold(one.status == two.status == 1 and said[0] == said[1] and said[0], "the same failures from two lanes", two)
    t.hold([c["verdict"] for c in one.cases] == [c["verdict"] for c in two.cases], "the same verdicts from two lanes", two)


def main():
    t = Tests()
    for words in RIGHT:
        outcome = Outcome(PROGRAM, KERNELS, words)
        t.hold(outcome.cases and all(c["verdict"]["correctness"] == "passed" for c in outcome.cases), " ".join(words), outcome)
    bits = Outcome(PROGRAM, KERNELS, SIZES + ["--op", "quantize", "--tokens", "9"])
    t.hold(bits.verdict.get("judged_by") == "bits", "a kernel that declares its roundings is judged to the bit", bits)
    for kernel, word, reason in WRONG:
        t.expect(Outcome(PROGRAM, KERNELS, MASKED + ["--kernel", kernel]), word, reason, kernel)
    for kernel in ("swapped_gate", "unweighted"):
        t.expect(Outcome(PROGRAM, KERNELS, SIZES + ["--tokens", "9", "--kernel", kernel]), "failed", "of out are wrong", kernel)
    foreign = Outcome(PROGRAM, KERNELS, SIZES + ["--op", "align", "--tokens", "9", "--ep", "2", "--kernel", "forgets_foreign"])
    t.expect(foreign, "failed", "never written, due -1", "the -1 of another rank's blocks is written, not left from before")
    unused = Outcome(PROGRAM, KERNELS, GEMM + ["--contract", "masked", "--tokens", "1", "--kernel", "writes_unused"])
    t.expect(unused, "failed", "changed its input 'w'", "writes_unused")
    sorts = Outcome(PROGRAM, KERNELS, SIZES + ["--tokens", "9", "--kernel", "sorts_routing"])
    t.expect(sorts, "failed", "changed its input 'topk_", "sorts_routing")
    small = Outcome(PROGRAM, KERNELS, SIZES + ["--op", "combine", "--tokens", "70", "--kernel", "crashes_when_small"])
    t.expect(small, "crashed", "this case passes, another of the same op does not (probe combine: tokens 6", "a crash in a probe")
    again = subprocess.run(small.verdict.get("replay", "false"), shell=True, capture_output=True, text=True)
    t.hold(again.returncode == 1 and "ended by signal 11" in again.stderr, "its line asks the probes again", again)
    combine = SIZES + ["--op", "combine", "--tokens", "70", "--kernel"]
    t.expect(Outcome(PROGRAM, KERNELS, combine + ["zeros_when_small"]), "failed", "of out are wrong", "zeros in a probe")
    t.expect(Outcome(PROGRAM, KERNELS, combine + ["returns_more"]), "passed", "not judged: 'junk', which op combine does not have", "more")
    t.expect(Outcome(PROGRAM, KERNELS, combine + ["returns_more", "--data", "coded"]), "passed",
             "coded data cannot show a sum", "one slot a token in coded data")
    divides = Outcome(PROGRAM, KERNELS, SIZES + ["--op", "quantize", "--tokens", "70", "--kernel", "divides_when_small"])
    t.expect(divides, "passed", "quant_formula multiply_inverse where probes gave divide", "another rounding at another size")
    forgets = Outcome(PROGRAM, KERNELS, GEMM + ["--tokens", "9", "--kernel", "forgets_contract"])
    t.expect(forgets, "crashed", "does its @kernel lack a contract=?", "a forgotten contract")
    exact = Outcome(PROGRAM, KERNELS, MASKED + ["--data", "exact", "--kernel", "masked"])
    t.expect(exact, "passed", "all known roundings give these bits, so that such data cannot tell them apart", "exact data")
    t.hold("bounds judge" not in exact.reason and exact.verdict.get("judged_by") == "bits", "which no bounds judge", exact)
    slots = Outcome(PROGRAM, KERNELS, ["--case", "op=combine tokens=9 hidden=256 inter=128 experts=4 top_k=2 ids=none layout=swap_ab "
                                       "kernel=counts_no_expert"])
    t.hold("slots of no expert" in slots.verdict.get("fault_class", ""), "a slot of -1 that was computed", slots)
    ids = Outcome(PROGRAM, KERNELS, SIZES + ["--op", "topk", "--tokens", "9", "--kernel", "no_expert"])
    t.hold("ids of no expert: 18 of 18" in ids.verdict.get("fault_class", ""), "-1 where an expert is due", ids)
    rotation(t)
    out_alone(t)
    hung = Outcome(PROGRAM, KERNELS, MASKED + ["--kernel", "hangs", "--case-timeout", "2s"])
    t.expect(hung, "timed_out", "no answer within 2 s", "hangs")
    ep = Outcome(PROGRAM, KERNELS, SIZES + ["--tokens", "9", "--ep", "2"])
    t.expect(ep, "refused", "one rank of ep=2", "what a kernel does not declare is refused")
    # Random cases, shrunk; the line that a failure prints fails again in a shell.
    ok = Outcome(PROGRAM, KERNELS, "--trials 12 --op grouped_gemm --contract routed --allow mistrusted".split())
    words = {c["verdict"]["correctness"] for c in ok.cases}
    t.hold(ok.status == 0 and "passed" in words, "random cases of a right kernel", ok)
    bad = Outcome(PROGRAM, KERNELS,
                  "--trials 2 --op grouped_gemm --contract masked --quant block128 --kernel missing_tail --allow mistrusted".split())
    failed = [line.split(": ", 1)[1] for line in bad.err.splitlines() if line.startswith("failed: ")]
    t.hold(bad.status == 1 and failed, "random cases of a wrong kernel", bad)
    if failed:
        again = subprocess.run(failed[0], shell=True, capture_output=True, text=True)
        t.hold(again.returncode == 1 and "failed" in again.stdout, "its replay line fails again", again)
    lanes(t)
    t.finish()


main()
