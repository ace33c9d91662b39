#!/usr/bin/env python3
"""What does Triton itself do? Writes fixtures/golden/triton: keys of arguments, compilations of streams of launches, the cache
folders and the log lines of those compilations. Needs the package triton (any GPU or none: a stand-in driver says sm_90; ptxas
comes with the package).

    python3 tests/jit/record_triton.py FOLDER          writes FOLDER new
"""
import datetime
import inspect
import os
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = pathlib.Path(tempfile.mkdtemp(prefix="moeproof-jit-"))
os.environ["TRITON_CACHE_DIR"] = str(WORK / "cache")
os.environ.pop("TRITON_INTERPRET", None)
shutil.copy(HERE / "kernels.py", WORK)
shutil.copy(ROOT / "harness/adapters/examples/triton_inv_rope.py", WORK)
sys.path.insert(0, str(WORK))

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton import knobs  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.backends.nvidia.compiler import CUDABackend  # noqa: E402
from triton.runtime import jit  # noqa: E402
from triton.runtime.driver import driver  # noqa: E402

import kernels  # noqa: E402
import triton_inv_rope  # noqa: E402

TARGET = GPUTarget("cuda", 90, 32)


class Hopper:
    """All that a compilation asks a driver."""

    def get_current_target(self):
        return TARGET

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


class Tensor:
    """All that a compilation asks a tensor."""

    def __init__(self, dtype, address=0):
        self.dtype, self.address = dtype, address

    def data_ptr(self):
        return self.address

    def ptr_range(self):
        return 1 << 40


# Token counts: each class of 16, the ends of a decode batch, a prefill, and one more of each.
TOKENS = [7, 16, 1, 13, 48, 2, 64, 15, 1, 4096, 4097, 8191, 31, 12]
VALUES = [0, 1, 2, 8, 15, 16, 17, -1, -15, -16, 4096, 2**31 - 1, 2**31, 2**31 - 16, 2**32 + 1, -2**31, -2**31 - 1, -2**31 - 16, 2**62,
          2**63 - 1, -2**63]


def bound(annotation, value, flags):
    """(type, key) of one argument, through the binder that a launch goes through."""
    names = {}
    exec(f"def kernel(a{annotation}): pass", {"tl": tl}, names)
    signature = inspect.signature(names["kernel"])
    parameter = jit.KernelParam(0, signature.parameters["a"], *flags)
    binder = jit.create_function_from_signature(signature, [parameter], CUDABackend(TARGET))
    return binder(value)[1][0]


def record_keys(out):
    lines = [f"# Triton {triton.__version__}: kind, annotation (- none), value, do_not_specialize, do_not_specialize_on_alignment,",
             "# then the pair (type, key). Written by tests/jit/record_triton.py."]
    for flags in ((False, False), (True, False), (False, True), (True, True)):
        mark = " ".join(str(int(flag)) for flag in flags)
        for value in VALUES:
            lines.append(f"integer - {value} {mark} {bound('', value, flags)}")
            for annotation in ("i64", "i32"):
                lines.append(f"integer {annotation} {value} {mark} {bound(': tl.int' + annotation[1:], value, flags)}")
        for address in (0, 16, 8, 4, 2, 1, 24, 256):
            lines.append(f"pointer *bf16 {address} {mark} {bound('', Tensor(tl.bfloat16, address), flags)}")
            lines.append(f"pointer *fp8e4nv {address} {mark} {bound('', Tensor(tl.float8e4nv, address), flags)}")
        for value in (0.0, 1.0, 3.5):
            lines.append(f"floating fp32 {value} {mark} {bound('', value, flags)}")
        for value in (False, True):
            lines.append(f"boolean u1 {int(value)} {mark} {bound('', value, flags)}")
    for value in (0, 1, 16, 128, -3):
        lines.append(f"constant - {value} 0 0 {bound(': tl.constexpr', value, (False, False))}")
    (out / "keys.txt").write_text("\n".join(lines) + "\n")


class Compilations:
    """Hears of every compilation through Triton's own hook."""

    def __init__(self):
        self.seen = []
        knobs.runtime.jit_post_compile_hook = self.heard

    def heard(self, **event):
        self.seen.append(event)


def cut(value):
    """As vLLM's monitor shortens a value: 120 characters at most."""
    text = neutral(repr(value))
    return text if len(text) <= 120 else text[:117] + "..."


def log_line(event, at):
    """The line that vLLM's JIT monitor writes of a compilation with --jit-monitor-verbose (vllm/utils/jit_monitor.py)."""
    info, parameters = event["compile"], event["fn"].jit_function.params
    constants = sorted((parameters[path[0]].name, cut(value)) for path, value in info["constants"].items())
    signature = sorted((name, cut(kind)) for name, kind in info["signature"].items())
    more = [(name, cut(value)) for name, value in sorted(info.items()) if name not in ("constants", "signature", "key", "fn", "name")]
    braces = lambda pairs: "{" + ", ".join(f"{name}={text}" for name, text in pairs) + "}"  # noqa: E731
    return (f"(Worker_TP0 pid=57) WARNING {at:%m-%d %H:%M:%S} [jit_monitor.py:103] Triton kernel JIT compilation during inference: "
            f"{event['fn'].name} (constexprs={braces(constants)}; signature={braces(signature)}; "
            f"extra_compile_info={braces(more)}; key={cut(info['key'])}). This causes a latency spike; consider extending warmup "
            "to cover this shape/config.")


def launch_small():
    aligned = [Tensor(tl.float32), Tensor(tl.float32)]
    for n in (1, 16, 17, 33):
        kernels.by_value.warmup(*aligned, n, grid=(1,))
    for address in (0, 4, 8):
        kernels.by_pointer.warmup(Tensor(tl.float32, address), aligned[1], grid=(1,))
    for stride in (1, 3, 2**33):
        kernels.by_width.warmup(*aligned, stride, grid=(1,))
    for warps in (4, 8):
        kernels.by_option.warmup(*aligned, grid=(1,), num_warps=warps)
    for block in (64, 128):
        kernels.by_constexpr.warmup(*aligned, block, grid=(1,))
    kernels.once.warmup(*aligned, 40, grid=(1,))


def fresh_cache(name):
    os.environ["TRITON_CACHE_DIR"] = str(WORK / name)
    knobs.cache.dir = str(WORK / name)


def neutral(text):
    """Without this machine's folders."""
    return text.replace(str(pathlib.Path(triton.__file__).parent), "TRITON").replace(str(WORK), "KERNELS")


def keep_cache(name, out):
    """Descriptions and the first stage's text, without code."""
    for folder in sorted((WORK / name).iterdir()):
        for path in sorted(folder.iterdir()):
            if path.suffix not in (".json", ".ttir") or path.name.startswith("__grp__"):
                continue
            (out / name / folder.name).mkdir(parents=True, exist_ok=True)
            (out / name / folder.name / path.name).write_text(neutral(path.read_text()))


def record_streams(out, compilations):
    """Which launches of TOKENS made Triton compile inv_rope_quant, by annotation: token count and key."""
    tensors = [Tensor(kind) for kind in (tl.bfloat16, tl.int64, tl.float32, tl.float8e4nv, tl.float32)]
    lines = [f"# Triton {triton.__version__}: for each list of do_not_specialize, `launch ROW TOKENS KEY` where it compiled inv_rope_quant.",
             "# Written by tests/jit/record_triton.py."]
    log = []
    clock = datetime.datetime(2026, 1, 1, 12)
    lines.append("tokens " + " ".join(map(str, TOKENS)))
    for annotated in ([], ["num_tokens"], ["num_tokens", "scale_stride_k"]):
        name = "inv_rope_" + ("plain" if not annotated else "annotated" if len(annotated) == 1 else "both")
        fresh_cache(name)
        kernel = triton_inv_rope.inv_rope_kernel(annotated)
        lines.append("do_not_specialize " + (",".join(annotated) or "-"))
        for row, tokens in enumerate(TOKENS, 1):
            before = len(compilations.seen)
            kernel.warmup(grid=(1,), num_warps=1, num_stages=1, **triton_inv_rope.arguments(tokens, tensors))
            clock += datetime.timedelta(seconds=1)
            for event in compilations.seen[before:]:
                lines.append(f"launch {row} {tokens} {event['compile']['key'].split(']{')[0]}]")
                log.append(log_line(event, clock))
        if len(annotated) < 2:
            keep_cache(name, out)
    (out / "streams.txt").write_text("\n".join(lines) + "\n")
    (out / "monitor.log").write_text("INFO 01-01 12:00:00 [jit_monitor.py:70] Kernel JIT monitor activated; monitored JIT "
                                     "compilations during inference will use mode=warn.\n" + "\n".join(log) + "\n")


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for old in ("small", "inv_rope_plain", "inv_rope_annotated"):
        shutil.rmtree(out / old, ignore_errors=True)
    driver.set_active(Hopper())
    record_keys(out)
    compilations = Compilations()
    record_streams(out, compilations)
    fresh_cache("small")
    launch_small()
    keep_cache("small", out)
    shutil.rmtree(WORK)
    print(f"Triton {triton.__version__}: {len(compilations.seen)} compilations recorded in {out}")


main()
