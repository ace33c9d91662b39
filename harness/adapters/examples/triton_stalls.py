#!/usr/bin/env python3
"""What do Triton's compilations cost a stream of token counts? Predicted first, then measured, the two side by side.

    python3 triton_stalls.py --moeproof build/moeproof --json stalls.json         (needs triton; a Hopper card and torch to measure)
    python3 triton_stalls.py --trace tokens.csv --launches 2000                   a stream of yours: a CSV with a column tokens

The kernel is triton_inv_rope.py's, launched once a step, in four forms, each in a process of its own on an empty cache:

    specialised     plain triton.jit
    num_tokens      do_not_specialize=["num_tokens"], as vLLM has it since its pull request 42849
    both            scale_stride_k too, what audit-jit says is left
    padded          plain triton.jit, every step's tokens padded to a multiple of 16

Predicted: the launches that compile (moeproof audit-jit), the kernel's time (moeproof predict), and what one compilation costs, from
one compilation on this machine before any stream runs (a stand-in driver says sm_90; linking the launcher and loading the code
are not in it). A step of the stream is launch and wait. Measured: compilations and their time by Triton's own hooks, every step's time
by the clock in a first pass (cold) and, with everything compiled, in a second (warm); a stall is a step that compiled. Without a
card kernels are compiled and counted but no step is timed.

The stream without --trace is a server's, a function of the seed alone: at each step a request arrives with probability 1/8 (always if
none runs) with a prompt of exp(N(5.5, 1)) tokens, clamped to 4..8192; the step has the prompt and one token for each running request;
each running request ends with probability 1/200; at most --sequences run.

Time to first token: for each arrival, the step's --layers layers of --model, tp 8, by moeproof's model, plus the stall
of its step (a stall is paid once, not a layer). Exit 1: Triton compiled at other launches than predicted.
"""
import argparse
import csv
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

FORMS = {"specialised": ([], 1), "num_tokens": (["num_tokens"], 1), "both": (["num_tokens", "scale_stride_k"], 1), "padded": ([], 16)}
GROUPS, HEADS_PER_GROUP = 1, 8  # DeepSeek-V4-Flash, one of eight ranks
LAUNCH_S = 30e-6  # Triton's Python launcher and the wait, an estimate: what a warm step takes when the kernel takes nothing


def server_stream(seed, launches, sequences):
    """[(tokens, whether a request arrived)] of the docstring's server."""
    draw, running, steps = random.Random(seed), 0, []
    for _ in range(launches):
        running -= sum(draw.random() < 1 / 200 for _ in range(running))
        arrives = running == 0 or (running < sequences and draw.random() < 1 / 8)
        prompt = min(max(int(math.exp(draw.gauss(5.5, 1))), 4), 8192) if arrives else 0
        steps.append((running + prompt, arrives))
        running += arrives
    return steps


def file_stream(path, launches):
    """The file's steps; one with more than twice the tokens of the step before counts as an arrival."""
    with open(path, newline="") as rows:
        tokens = [int(row["tokens"]) for row in csv.DictReader(rows)][:launches]
    return [(now, before is None or now > 2 * before) for before, now in zip([None] + tokens, tokens)]


def padded(tokens, to):
    return -(-tokens // to) * to


def percentiles(seconds):
    """Median, 99 % and 99.9 %: the smallest value that so many steps do not exceed."""
    ordered = sorted(seconds)
    pick = lambda share: ordered[max(math.ceil(share * len(ordered)) - 1, 0)]  # noqa: E731
    return {"p50": pick(.5), "p99": pick(.99), "p99.9": pick(.999), "max": ordered[-1]}


# ---- predicted

def ask(program, *words):
    done = subprocess.run([program, *words, "--json", "-", "--quiet"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{program} {words[0]}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def predicted_rows(program, tokens, annotated):
    """Launches (from 1) that compile, by audit-jit; for more than its own annotation the count of the last change alone."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as trace:
        trace.write("\n".join(["tokens", *map(str, tokens)]) + "\n")
        trace.flush()
        told = ask(program, "audit-jit", "--kernel", "inv_rope_quant", "--trace", trace.name, "--size", f"groups={GROUPS}")
    if len(annotated) < 2:
        return [variant["row"] for variant in told["after" if annotated else "before"]]
    left = [change["on_top"] for change in told["annotations"]
            if change["annotation"] == "do_not_specialize" and change["argument"] == annotated[1]]
    if left != [1]:
        sys.exit(f"audit-jit leaves {left} variants with {annotated}; 1 was expected")
    return [1]


def predicted_seconds(program, tokens, *problem):
    """{tokens: seconds} by the model."""
    distinct = sorted(set(tokens))
    told = {}
    for first in range(0, len(distinct), 64):
        some = distinct[first:first + 64]
        cases = ask(program, "predict", *problem, "--tokens", ",".join(map(str, some)))["cases"]
        told.update(zip(some, (case["prediction"]["seconds"] for case in cases)))
    return told


def kernel_seconds(program, tokens):
    return predicted_seconds(program, tokens, "--op", "inv_rope_quant", "--heads", str(GROUPS * HEADS_PER_GROUP), "--head-groups",
                             str(GROUPS))


# ---- measured, in a process of its own

class Heard:
    """Triton's own hooks: when a compilation began and ended, of which launch."""

    def __init__(self, runtime):
        self.row, self.began, self.compiled = 0, 0.0, []
        runtime.jit_cache_hook, runtime.jit_post_compile_hook = self.begins, self.ended

    def begins(self, **event):
        self.began = time.perf_counter()

    def ended(self, **event):
        self.compiled.append((self.row, time.perf_counter() - self.began))


class StandInDriver:
    """All that a compilation asks a driver where there is no card."""

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


class StandInTensor:
    def __init__(self, dtype):
        self.dtype = dtype

    def data_ptr(self):
        return 0

    def ptr_range(self):
        return 1 << 40


def card():
    try:
        import torch
        return torch if torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0) else None
    except ImportError:
        return None


def launcher(torch, kernel, most):
    """launch(tokens): one step. On a card it returns when the kernel has ended."""
    import triton.language as tl
    import triton_inv_rope
    options = dict(num_warps=1, num_stages=1)
    if torch is None:
        from triton.runtime.driver import driver
        driver.set_active(StandInDriver())
        tensors = [StandInTensor(kind) for kind in (tl.bfloat16, tl.int64, tl.float32, tl.float8e4nv, tl.float32)]
        return lambda tokens: kernel.warmup(grid=(1,), **options, **triton_inv_rope.arguments(tokens, tensors, GROUPS, HEADS_PER_GROUP))
    heads = GROUPS * HEADS_PER_GROUP
    tensors = (torch.randn(most, heads, 512, device="cuda", dtype=torch.bfloat16), torch.arange(most, device="cuda"),
               torch.rand(most, 64, device="cuda"), torch.empty(most * heads * 512, device="cuda", dtype=torch.float8_e4m3fn),
               torch.empty(padded(most, 4) * heads * 4, device="cuda"))

    def launch(tokens):
        kernel[(padded(tokens, 4), heads)](**options, **triton_inv_rope.arguments(tokens, tensors, GROUPS, HEADS_PER_GROUP))
        torch.cuda.synchronize()

    return launch


def warm_triton(torch):
    """What a process pays once whatever its kernels (LLVM, the driver's own code) is not a stall of the stream."""
    import triton
    import warm_kernel
    if torch is None:
        warm_kernel.nothing.warmup(StandInTensor(triton.language.float32), grid=(1,))
    else:
        warm_kernel.nothing[(1,)](torch.zeros(1, device="cuda"))
        torch.cuda.synchronize()


def run_form(tokens, annotated, passes, on):
    """Steps of one form on the cache that TRITON_CACHE_DIR names, as JSON on standard output. `on`: card or stand-in."""
    from triton import knobs
    import triton
    import triton_inv_rope
    torch = card() if on == "card" else None
    launch = launcher(torch, triton_inv_rope.inv_rope_kernel(annotated), max(tokens))
    warm_triton(torch)
    heard, seconds = Heard(knobs.runtime), []
    for _ in range(passes if torch else 1):
        for count in tokens:
            heard.row = len(seconds) + 1
            began = time.perf_counter()
            launch(count)
            seconds.append(time.perf_counter() - began)
    told = {"triton": triton.__version__, "device": torch.cuda.get_device_name() if torch else None,
            "compiled": heard.compiled, "seconds": seconds}
    print(json.dumps(told))


def measured(tokens, annotated, passes=2, on="card"):
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "warm_kernel.py").write_text("import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef nothing(x):\n"
                                             "    tl.store(x, 1.0)\n")
        (work / "tokens.json").write_text(json.dumps(tokens))
        environment = dict(os.environ, TRITON_CACHE_DIR=str(work / "cache"), PYTHONPATH=f"{work}:{HERE}")
        environment.pop("TRITON_INTERPRET", None)
        done = subprocess.run([sys.executable, __file__, "--run-form", ",".join(annotated), str(work / "tokens.json"), str(passes), on],
                              env=environment, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"the process of do_not_specialize={annotated} ended with {done.returncode}")
        return json.loads(done.stdout.splitlines()[-1])


# ---- side by side

def compare_form(name, stream, program, compile_s):
    annotated, pad = FORMS[name]
    tokens = [padded(count, pad) for count, _ in stream]
    rows = predicted_rows(program, tokens, annotated)
    kernel = kernel_seconds(program, tokens)
    expected = [LAUNCH_S + kernel[count] + compile_s * (row in rows) for row, count in enumerate(tokens, 1)]
    told = measured(tokens, annotated)
    cold, warm = told["seconds"][:len(tokens)], told["seconds"][len(tokens):]
    compiled = [row for row, _ in told["compiled"]]
    form = {"do_not_specialize": annotated, "pad_to": pad, "predicted": {"rows": rows, "variants": len(rows), "step": percentiles(expected),
                                                                       "lost_s": compile_s * len(rows)},
            "measured": {"rows": compiled, "variants": len(compiled), "compile_s": [s for _, s in told["compiled"]],
                         "triton": told["triton"], "device": told["device"]}, "equal": compiled == rows}
    if warm:
        stalls = [cold[row - 1] - warm[row - 1] for row in rows]
        form["measured"].update(step=percentiles(cold), warm_step=percentiles(warm), stall_s=stalls, lost_s=sum(stalls))
    return form, expected, cold if warm else None, warm


def first_tokens(stream, layers, steps, launch_steps):
    """Seconds to the first token of each arrival: the layers' time and what the kernel's step took beyond its warm time."""
    return [layers[count] + extra for (count, arrives), extra in zip(stream, [s - w for s, w in zip(steps, launch_steps)]) if arrives]


def print_table(report):
    print(f"stream {report['stream']}: {report['launches']} steps, {report['distinct']} token counts; one compilation predicted "
          f"{report['predicted_compile_s'] * 1e3:.0f} ms")
    print(f"{'form':12} {'':9} {'variants':>8} {'p50 us':>8} {'p99 us':>8} {'p99.9 us':>9} {'max ms':>8} {'lost ms':>8} {'ttft ms: mean':>13} {'max':>8}")
    for name, form in report["forms"].items():
        for side in ("predicted", "measured"):
            told = form[side]
            cells = f"{name if side == 'predicted' else '':12} {side:9} {told['variants']:8}"
            if "step" in told:
                p, first = told["step"], told["ttft_s"]
                cells += (f" {p['p50'] * 1e6:8.1f} {p['p99'] * 1e6:8.1f} {p['p99.9'] * 1e6:9.1f} {p['max'] * 1e3:8.1f} "
                          f"{told['lost_s'] * 1e3:8.1f} {first['mean'] * 1e3:13.2f} {first['max'] * 1e3:8.1f}")
            print(cells)
        print(f"{'':12} launches that compile: {form['measured']['rows']} "
              + ("as predicted" if form["equal"] else f"BUT predicted {form['predicted']['rows']}"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moeproof", default="moeproof", help="the program (default: on PATH)")
    parser.add_argument("--trace", help="a CSV with a column tokens; else the documented generator")
    parser.add_argument("--launches", type=int, default=1000)
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="deepseek-v4-flash")
    parser.add_argument("--layers", type=int, default=43)
    parser.add_argument("--json", help="file for everything that was predicted and measured")
    given = parser.parse_args()
    stream = file_stream(given.trace, given.launches) if given.trace else server_stream(given.seed, given.launches, given.sequences)
    if not stream:
        sys.exit("the stream has no step")
    counts = [count for count, _ in stream]
    compile_s = measured_compilation(counts[0])
    arrivals = [count for count, arrives in stream if arrives]
    layer = predicted_seconds(given.moeproof, arrivals, "--model", given.model, "--tp", "8", "--layout", "swap_ab")
    rope = kernel_seconds(given.moeproof, arrivals)
    layers = {count: given.layers * (layer[count] + rope[count]) for count in layer}
    report = {"stream": given.trace or f"server, seed {given.seed}, {given.sequences} sequences", "launches": len(stream),
              "distinct": len(set(counts)), "arrivals": len(arrivals), "model": given.model, "layers": given.layers,
              "predicted_compile_s": compile_s, "predicted_launch_s": LAUNCH_S, "forms": {}}
    for name in FORMS:
        form, expected, cold, warm = compare_form(name, stream, given.moeproof, compile_s)
        rows = set(form["predicted"]["rows"])
        without = [s - compile_s * (row in rows) for row, s in enumerate(expected, 1)]
        for side, steps, base in (("predicted", expected, without), ("measured", cold, warm)):
            if steps:
                first = first_tokens(stream, layers, steps, base)
                form[side]["ttft_s"] = {"mean": statistics.fmean(first), "max": max(first)}
        report["forms"][name] = form
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(report, indent=1) + "\n")
    print_table(report)
    sys.exit(0 if all(form["equal"] for form in report["forms"].values()) else 1)


def measured_compilation(tokens):
    """Seconds of one compilation here, without a card's driver: the first launch of the plain form."""
    return measured([tokens], [], 1, "stand-in")["compiled"][0][1]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run-form"]:
        words, file, count, machine = sys.argv[2:]
        run_form(json.loads(pathlib.Path(file).read_text()), [word for word in words.split(",") if word], int(count), machine)
    else:
        main()
