#!/usr/bin/env python3
"""Does moeproof catch a broken Triton kernel that declares nothing? Plants each fault below into a copy of triton_fused_moe.py, one
at a time, has `moeproof check` judge it with random cases and shrink what fails, and prints the kill table. Exit 1 when a fault
lives, or when the kernel without a fault does not pass.

    python3 harness/adapters/examples/faulty/kill_table.py build/moeproof [--jobs 2] [--only k_tail_mask,..] [--markdown FILE]

Runs on a card, or with TRITON_INTERPRET=1 on a CPU.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES, ADAPTERS = HERE.parent, HERE.parents[1]
KERNEL = EXAMPLES / "triton_fused_moe.py"

ROUTED = "--op grouped_gemm --contract routed"
LAYER = "--op moe_layer"


class Fault(NamedTuple):
    name: str
    meaning: str
    old: str  # stands once in triton_fused_moe.py
    new: str
    cases: str  # options of `moeproof check`; trials where it does not say which case
    file: str = ""  # a faulty kernel of its own instead


FAULTS = [
    Fault("k_tail_mask", "columns of weights behind K are read: the next row's",
          "right = tl.load(w[None, :] + k[:, None], mask=(k < k_left)[:, None], other=0.0)",
          "right = tl.load(w[None, :] + k[:, None])", ROUTED + " --quant tensor_dynamic --data normal"),
    Fault("weight_scale_k", "every k-block takes the weight scale of the first",
          "w_s = tl.load(w_scale + step)", "w_s = tl.load(w_scale)", ROUTED + " --quant block128"),
    Fault("weight_scale_expert", "weight scales are those of the block's number, not of its expert",
          "w_scale = w_scale_ptr + expert * w_scale_expert", "w_scale = w_scale_ptr + block * w_scale_expert",
          ROUTED + " --quant block128"),
    Fault("activation_scale_row", "activation scales are indexed by pair, not by token",
          "a_scale = a_scale_ptr + row * a_scale_row", "a_scale = a_scale_ptr + pair * a_scale_row",
          ROUTED + " --quant block128"),
    Fault("int32_offset", "the offset of an expert's weights wraps at 2^31",
          "expert * w_expert + n.to(tl.int64) * w_row", "(expert.to(tl.int32) * w_expert).to(tl.int32) + n * w_row",
          ROUTED + " --quant tensor_dynamic --gemm 2 --hidden 4096 --intermediate 4096 --experts 192 --top-k 4 --tokens 3 "
          "--layout normal_mma"),
    Fault("expert_minus_one", "expert -1 of another rank's rows is taken for an index",
          "if expert == -1:", "if expert == -2:", ROUTED + " --quant block128"),
    Fault("stale_output", "another rank's rows are skipped, and keep what was there",
          "tl.store(c, tl.zeros((BLOCK_M, BLOCK_N), tl.bfloat16), mask=inside)\n        return", "return", ROUTED),
    Fault("gate_up_swapped", "the second half of GEMM 1 is taken for the gate",
          "gate = tl.load(h_ptr + pair * 2 * I + i, mask=there, other=0.0).to(tl.float32)\n"
          "        up = tl.load(h_ptr + pair * 2 * I + I + i, mask=there, other=0.0).to(tl.float32)",
          "up = tl.load(h_ptr + pair * 2 * I + i, mask=there, other=0.0).to(tl.float32)\n"
          "        gate = tl.load(h_ptr + pair * 2 * I + I + i, mask=there, other=0.0).to(tl.float32)", LAYER),
    Fault("no_amax_floor", "a group of zeros is divided by zero",
          "tl.maximum(tl.max(tl.abs(x)), 1e-10)", "tl.max(tl.abs(x))", LAYER + " --quant block128"),
    Fault("padding_stored", "rows of padding are stored, behind the last row",
          "inside = real[:, None] & (n < N)[None, :]", "inside = (real | True)[:, None] & (n < N)[None, :]", ROUTED),
    Fault("strides_as_sizes", "a sketch: strides as sizes in masks and grid, no loop over K", "", "",
          "--op grouped_gemm --contract masked --quant block128", "strides_as_sizes.py"),
]
NONE = Fault("(none)", "the kernel as it is", "", "", ROUTED)


def planted(fault):
    """The source with the fault in place."""
    source = KERNEL.read_text()
    if fault.file:
        return (HERE / fault.file).read_text()
    if fault.old and source.count(fault.old) != 1:
        raise SystemExit(f"{fault.name}: '{fault.old}' stands {source.count(fault.old)} times in {KERNEL.name}")
    return source.replace(fault.old, fault.new) if fault.old else source


def judge(fault, moeproof, trials, budget):
    """(verdicts of the failing cases, number of cases, exit code, last line of standard error)."""
    with tempfile.TemporaryDirectory() as folder:
        file, report = pathlib.Path(folder) / f"{fault.name.strip('()')}.py", pathlib.Path(folder) / "report.json"
        file.write_text(planted(fault))
        given = [] if "--tokens" in fault.cases else ["--trials", str(trials)]
        executor = f"process:{shlex.quote(sys.executable)} {file}"
        command = [moeproof, "check", "--executor", executor, "--quiet", "--case-timeout", "2m", "--time-budget", budget,
                   "--json", str(report), *given, *fault.cases.split()]
        path = os.pathsep.join([str(ADAPTERS), str(EXAMPLES)] + [p for p in [os.environ.get("PYTHONPATH")] if p])
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
        cases = json.loads(report.read_text())["cases"] if report.exists() else []
    verdicts = [c["verdict"] for c in cases]
    bad = [v for v in verdicts if v["correctness"] in ("failed", "crashed", "timed_out")]
    return bad, len(verdicts), done.returncode, (done.stderr.strip().splitlines() or [""])[-1]


def row(fault, outcome):
    bad, count, code, _ = outcome
    if not bad:
        return [fault.name, fault.meaning, f"0 of {count}", f"exit {code}", ""]
    replay = min((v["replay"] for v in bad), key=len)
    case = replay[replay.index("op="):].rstrip("'") if "op=" in replay else replay
    first = bad[0]
    return [fault.name, fault.meaning, f"{len(bad)} of {count}", first.get("fault_class") or first["correctness"], case]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("moeproof")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--only", default="")
    options.add_argument("--trials", type=int, default=40)
    options.add_argument("--budget", default="5m", help="of each fault")
    options.add_argument("--markdown")
    o = options.parse_args()
    only = set(o.only.split(",")) - {""}
    chosen = [f for f in [NONE] + FAULTS if not only or f.name in only]
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        outcomes = list(pool.map(lambda f: judge(f, os.path.abspath(o.moeproof), o.trials, o.budget), chosen))
    rows = [["fault", "what it does", "cases that failed", "looks like", "shrunk case"], ["---"] * 5]
    rows += [row(f, outcome) for f, outcome in zip(chosen, outcomes)]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in rows) + "\n"
    print(table, end="")
    if o.markdown:
        pathlib.Path(o.markdown).write_text(table)
    wrong = [f.name for f, (bad, count, _, _) in zip(chosen, outcomes) if bool(bad) == (f is NONE) or count == 0]
    for fault, (_, _, code, said) in zip(chosen, outcomes):
        if fault.name in wrong:
            print(f"{fault.name}: exit {code}: {said}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
