"""Shows a kernel of yours to moeproof: one file, to copy or to put on PYTHONPATH. Needs Python 3.8 and numpy; torch only for
kernels that take torch tensors. `moeproof check --executor "process:python3 my_kernel.py" ...` runs a file that ends with
serve(); assert_moe() does the same from a test. The lines behind it: README.md beside this file.

    from moeproof_executor import kernel, serve
    @kernel(op="grouped_gemm", contract="masked", quant="block128")
    def my_gemm(a, a_scale, w, w_scale, masked_m, out): ...
    if __name__ == "__main__":
        serve()

A kernel is called with the tensors whose names its parameters bear (table in README.md; ALIASES) and with `problem`, a dict of the
case. It writes outputs that it has parameters for in place, or returns them: one, a tuple in the order of `outputs`, or a dict."""
import importlib.util
import inspect
import json
import mmap
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

if importlib.util.find_spec("numpy") is None:
    sys.exit(f"{sys.executable} has no numpy: install it there, or name another Python in --executor process:CMD")
import numpy as np  # noqa: E402

STAGES = ("topk_ids", "topk_weights", "x_codes", "x_scale", "gemm1", "act_codes", "act_scale", "gemm2", "out")
OUTPUTS = {"topk": STAGES[0:2], "quantize": STAGES[2:4], "act_quant": STAGES[5:7], "combine": ("out",), "grouped_gemm": ("c",),
           "moe_layer": ("out",), "inv_rope_quant": ("o_codes", "o_scale"), "align": ("sorted_token_ids", "expert_ids", "num_tokens_post_padded")}
ALIASES = {"a": "a_codes", "masked_m": "counts", "m_indices": "group_of_row", "expert_offsets": "offsets", "out": "c",
           "output": "out", "x": "hidden", "hidden_states": "hidden", "w1": "w13", "w1_scale": "w13_scale", "gating": "router_logits"}
# Numpy has neither FP8 nor bf16: their bytes come as unsigned integers of the same width; the functions below convert.
NUMPY_TYPES = {"F8_E4M3": "u1", "F8_E5M2": "u1", "F8_E8M0": "u1", "U8": "u1", "BOOL": "?", "I8": "i1", "BF16": "<u2", "F16": "<f2",
               "I16": "<i2", "F32": "<f4", "I32": "<i4", "F64": "<f8", "I64": "<i8"}
WORDS = {"BF16": "bf16 (its words as uint16, or float32, rounded here)", "F8_E4M3": "e4m3 (codes as uint8)", "F8_E8M0": "e8m0 (as uint8)"}
TORCH_TYPES = {"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "U8": "uint8", "BF16": "bfloat16", "F16": "float16",
               "F32": "float32", "F64": "float64", "I32": "int32", "I64": "int64"}
GUARD_BYTES, CHUNK, NAN_BYTES, NO_INTEGER = 1024, 1 << 28, 0xFF, 0xA5  # in guards and unwritten floats; in unwritten integers
WARM_UP, FEWEST_RUNS, MOST_SETS = 3, 8, 32  # as moeproof times its own kernels (fixtures/measured/README.md)
_kernels = []


class Refused(Exception):
    """Raise it in a kernel that does not take the case; the text says why and what it would take."""


def bf16_to_f32(bits):
    return (np.asarray(bits, dtype=np.uint32) << 16).view(np.float32)


def f32_to_bf16(values):
    """Nearest even, as the hardware rounds; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def _e4m3_table():
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    values = np.where(exponent == 0, mantissa * 2.0**-9, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0))
    values[(codes & 0x7F) == 0x7F] = np.nan
    return np.where(codes & 0x80, -values, values).astype(np.float32)


E4M3 = _e4m3_table()


def e4m3_to_f32(codes):
    return E4M3[codes]


def f32_to_e4m3(values):
    """Nearest even, beyond 448 saturated (cvt.rn.satfinite)."""
    values = np.asarray(values, dtype=np.float32)
    size = np.minimum(np.abs(values).astype(np.float64), 448.0)
    known = E4M3[:0x7F].astype(np.float64)
    above = np.clip(np.searchsorted(known, size), 1, 0x7E)
    low, high = size - known[above - 1], known[above] - size
    code = np.where((low < high) | ((low == high) & (above % 2 == 1)), above - 1, above)
    return np.where(np.isnan(values), 0x7F, code | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)


def read_tensors(path):
    """Name -> writable numpy array over the shared bytes of a safetensors file; and which groups of sparse weights hold
    anything (name -> "1011..")."""
    with open(path, "r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    length = int.from_bytes(memory[:8], "little")
    header = json.loads(memory[8:8 + length])
    filled = {name[len("filled."):]: bits for name, bits in header.pop("__metadata__", {}).items()}
    entries = {name: entry for name, entry in header.items() if not name.startswith("guard.")}
    tensors = {name: np.ndarray(entry["shape"], NUMPY_TYPES[entry["dtype"]], memory, 8 + length + entry["data_offsets"][0])
               for name, entry in entries.items()}
    return tensors, {name: entry["dtype"] for name, entry in entries.items()}, filled


def own_file(arrays, types):
    """A file of this process, for outputs of other types or shapes than are due: moeproof says what is wrong with them."""
    header, at, order = {}, 0, sorted(arrays, key=lambda name: -arrays[name].itemsize)
    for name in order:
        header[name] = {"dtype": types[name], "shape": arrays[name].shape, "data_offsets": [at, at + arrays[name].nbytes]}
        at += arrays[name].nbytes
    text = json.dumps(header).encode()
    file, text = open(os.memfd_create("outputs"), "wb"), text + b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text + b"".join(arrays[name].tobytes() for name in order))
    file.flush()
    return file


class Kernel:
    """A function and what it takes. Everything left out is refused, so that moeproof never judges a case that the kernel was not
    made for; an empty `quant` means any."""

    def __init__(self, function, op, contract=None, quant=(), outputs=None, on="numpy", scale_layout="row", name=None,
                 activations=("silu_mul",), routers=(), ep=False, weight_on_input=False, ue8m0=False, deterministic=True,
                 graph=None, semantics=None, family=None, stages=None, warps=None):
        for what, word, known in (("op", op, OUTPUTS), ("on", on, ("numpy", "torch", "cuda")),
                                  ("scale_layout", scale_layout, ("row", "mn_major"))):
            if word not in known:
                raise ValueError(f"{what}='{word}' is none of {', '.join(known)}")
        on = "torch" if on == "cuda" and os.environ.get("TRITON_INTERPRET") == "1" else on  # which computes on the CPU
        self.function, self.op, self.on, self.scale_layout = function, op, on, scale_layout
        self.name = name or function.__name__
        self.contracts, self.quants, self.outputs, self.activations, self.routers = (
            (words,) if isinstance(words, str) else tuple(words or ())
            for words in (contract, quant, outputs or OUTPUTS[op], activations, routers))
        self.ep, self.weight_on_input, self.ue8m0 = ep, weight_on_input, ue8m0
        self.deterministic, self.semantics, self.model = deterministic, semantics, (family, stages, warps)
        self.graph = on == "cuda" if graph is None else graph
        self.parameters = inspect.signature(function).parameters

    def hello(self):
        return {"name": self.name, "ops": [self.op], "contracts": self.contracts, "quants": self.quants, "outputs": self.outputs,
                "deterministic": self.deterministic, "semantics": self.semantics,
                **{key: word for key, word in zip(("family", "stages", "warps"), self.model) if word is not None}}

    def takes(self, *names):
        return any(name in names or ALIASES.get(name) in names for name in self.parameters)

    def check(self, p):
        """Refuses what was not declared."""
        layer, op, me = self.op == "moe_layer", self.op, self.name
        routes = op == "topk" or (layer and self.takes("router_logits"))
        for wrong, reason in (
                ((layer or op == "act_quant") and p["activation"] not in self.activations,
                 f"{me} computes {', '.join(self.activations)}, not {p['activation']}"),
                (p["bias"] and (layer or op == "grouped_gemm") and not self.takes("w_bias", "w13_bias"), f"{me} takes no bias"),
                (p["weight_on_input"] and op in ("moe_layer", "quantize", "combine") and not self.weight_on_input,
                 f"{me} does not put the routing weight on its input"),
                (p["ep"] > 1 and op in ("moe_layer", "align") and not self.ep,
                 f"{me} computes all experts; this case is one rank of ep={p['ep']}"),
                (p["scale_format"] == "ue8m0" and op in ("moe_layer", "quantize", "act_quant", "inv_rope_quant") and not self.ue8m0,
                 f"{me} makes f32 scales, not powers of two"),
                (routes and self.routers and p["router"]["kind"] not in self.routers,
                 f"{me} routes by {', '.join(self.routers)}, not by {p['router']['kind']}")):
            if wrong:
                raise Refused(reason)


def kernel(**declared):
    """Decorator: declares the function below it as a kernel. Arguments are those of Kernel."""
    def register(function):
        _kernels.append(Kernel(function, **declared))
        function.__dict__.setdefault("moeproof_kernel", _kernels[-1])
        return function
    return register


def scales_as(layout, a_scale, a_codes, problem):
    """The scales in the kernel's layout: `row`: one, or K/128, for each row of a_codes; `mn_major`: [K/128, rows padded to 4]."""
    rows, given = a_codes.shape[:-1], problem["scale_layout"]
    if problem["quant"] != "block128":
        return a_scale.reshape(rows) if problem["quant"] == "token_channel" else a_scale
    if layout == given == "mn_major":
        return a_scale
    by_row = a_scale[:, :int(np.prod(rows))].T if given == "mn_major" else a_scale
    if layout == "row":
        return np.ascontiguousarray(by_row).reshape(rows + by_row.shape[1:])
    return np.ascontiguousarray(np.pad(by_row, ((0, -len(by_row) % 4), (0, 0))).T)


class Call:
    """One case that is open: the kernel, its inputs, and how it is run on numpy arrays. TorchCall does it on torch tensors."""

    def __init__(self, kernel, problem):
        self.kernel, self.problem = kernel, problem

    def bind(self, path):
        self.inputs, self.types, self.filled = read_tensors(path)
        if self.kernel.op == "grouped_gemm":
            self.inputs["a_scale"] = scales_as(self.kernel.scale_layout, self.inputs["a_scale"], self.inputs["a_codes"], self.problem)
            self.scales = self.inputs["a_scale"].tobytes()

    def canonical(self, name):
        while name not in self.inputs and name not in self.kernel.outputs and name in ALIASES:
            name = ALIASES[name]
        return name

    def arguments(self, outputs):
        values, chosen = {**self.inputs, **outputs, "problem": self.problem}, {}
        for name, parameter in self.kernel.parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            if self.canonical(name) in values:
                chosen[name] = values[self.canonical(name)]
            elif parameter.default is parameter.empty:
                under = "" if self.kernel.contracts or self.kernel.op != "grouped_gemm" else ": does its @kernel lack a contract=?"
                raise TypeError(f"{self.kernel.name} asks for '{name}'; op {self.kernel.op} has {', '.join(values)}{under}")
        return chosen

    def by_name(self, returned):
        if returned is None or isinstance(returned, dict):
            return {self.canonical(name): value for name, value in (returned or {}).items()}
        values, outputs = returned if isinstance(returned, (tuple, list)) else [returned], self.kernel.outputs
        if len(values) != len(outputs) or not all(hasattr(value, "dtype") for value in values):
            held = ", ".join(type(value).__name__ for value in values[:4]) + (", .." if len(values) > 4 else "")
            raise TypeError(f"{self.kernel.name} returned {len(values)} values ({held or 'none'}); due is an array or a tensor for each of "
                            f"its outputs: {', '.join(outputs)}")
        return dict(zip(outputs, values))

    def run(self, path, mode):
        """Calls the kernel. The file at `path` is filled; where the kernel gave other types or shapes: a file of its own."""
        due, types, _ = read_tensors(path)
        outputs = self.places(due, types)
        returned = self.by_name(self.execute(self.arguments(outputs), outputs, mode))
        given = {name: self.as_array(value, types.get(name)) for name, value in {**outputs, **returned}.items()}
        arrays, stored = ({name: pair[i] for name, pair in given.items()} for i in (0, 1))
        reports = self.findings()
        if stored == types and all(arrays[name].shape == due[name].shape for name in due):
            for name, array in arrays.items():
                due[name][...] = array
            return {"reports": reports}
        self.own = own_file(arrays, stored)
        return {"outputs": f"/proc/{os.getpid()}/fd/{self.own.fileno()}", "reports": reports}

    def places(self, due, types):
        return due

    def execute(self, arguments, outputs, mode):
        return self.kernel.function(**arguments)

    def as_array(self, value, due):
        """(array, the type's name in safetensors); `due` is the type it should have."""
        value = np.asarray(value)
        if due == "BF16" and value.dtype in (np.float32, np.float64):
            return f32_to_bf16(value), due  # numpy has no bf16 of its own: rounded once, here
        if due and value.dtype == np.dtype(NUMPY_TYPES[due]):
            return value, due
        plain = {np.dtype(numpy): name for name, numpy in NUMPY_TYPES.items() if name[:2] not in ("F8", "BF")}
        if value.dtype not in plain or (due in WORDS and value.dtype.kind in "biu"):
            raise TypeError(f"{self.kernel.name} gave {value.dtype} where {WORDS.get(due, due or 'none but ' + ', '.join(self.kernel.outputs))} is due")
        return value, plain[value.dtype]

    def findings(self):  # moeproof itself looks at the shared bytes; a_scale may be a copy
        gemm = self.kernel.op == "grouped_gemm"
        return ["the kernel changed its input 'a_scale'"] if gemm and self.scales != self.inputs["a_scale"].tobytes() else []

    def time(self, plan):
        return None  # a CPU says nothing about a card


def hello(kernels, refusal):
    answer = {"protocol": 1, "name": pathlib.Path(sys.argv[0]).name, "kernels": [k.hello() for k in kernels],
              "graph": all(k.graph for k in kernels), "crowded": all(k.on == "cuda" for k in kernels), "ids": True}
    if any(k.on != "numpy" for k in kernels):
        found = importlib.util.find_spec("torch") is not None
        answer.update(torch_call().device(kernels) if found else {"refusal": "torch is not installed here"})
    return {**answer, **({"refusal": refusal} if refusal else {})}


def words_of(error):  # whatever they are: they may not be printable, or raise themselves
    try:
        return str(error).encode("utf-8", "replace").decode()
    except Exception as another:
        return f"(its text raises {type(another).__name__})"


def serve(kernels=None, refusal=None):
    """Answers moeproof's lines until it goes away. Serves all declared kernels, or those given; with `refusal`, why none runs here."""
    lines, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a kernel prints is no answer: it goes to standard error
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # and what it reads is no request
    kernels, call = {k.name: k for k in kernels or [k for k in _kernels if k.function.__module__ == "__main__"] or _kernels}, None
    for line in lines:
        q, answer = json.loads(line), {}
        try:
            if q["do"] == "hello":
                answer = hello(kernels.values(), refusal)
            elif q["do"] == "open":
                chosen, call = kernels[q["kernel"]], None  # the last case's memory goes first
                chosen.check(q["problem"])
                call = (Call if chosen.on == "numpy" else torch_call())(chosen, q["problem"])
            elif q["do"] == "bind":
                call.bind(q["inputs"])
            elif q["do"] in ("run", "time"):
                answer = call.run(q["outputs"], q["mode"]) if q["do"] == "run" else {"measurement": call.time(q)}
        except Refused as reason:
            answer = {"refusal": words_of(reason)}
        except Exception as error:  # whatever a kernel raises is its verdict
            traceback.print_exc()
            answer = {"error": "kernel", "message": f"{type(error).__name__}: {words_of(error)}"}
        sys.stderr.flush()
        print(json.dumps({**answer, "id": q.get("id")}), file=answers, flush=True)


def torch_call():
    TorchCall.torch = importlib.import_module("torch")
    return TorchCall


class TorchCall(Call):
    """Inputs and outputs as torch tensors, each between guards of its own, since moeproof does not see a card's memory."""
    torch = None

    @classmethod
    def device(cls, kernels=()):
        if not cls.torch.cuda.is_available():
            reason = "torch sees no CUDA device here; Triton's interpreter needs none (TRITON_INTERPRET=1)"
            return {"refusal": reason} if any(k.on == "cuda" for k in kernels) else {}
        card = cls.torch.cuda.get_device_properties(0)
        return {"device": {"name": card.name, "driver": f"CUDA {cls.torch.version.cuda}", "sms": card.multi_processor_count}}

    def place(self, array, stored, filled=None):
        """(tensor, the buffer around it) on the kernel's device; groups that hold nothing are zero."""
        torch, device = self.torch, "cuda" if self.kernel.on == "cuda" else "cpu"
        buffer = torch.full((array.nbytes + 2 * GUARD_BYTES,), NAN_BYTES, dtype=torch.uint8, device=device)
        inner = buffer[GUARD_BYTES:GUARD_BYTES + array.nbytes]
        if filled:
            inner.zero_()
        for begin, part in self.parts(array, filled):
            inner[begin:begin + part.nbytes].copy_(torch.from_numpy(part))
        return inner.view(getattr(torch, TORCH_TYPES[stored])).view(array.shape), buffer

    @staticmethod
    def parts(array, filled=None, wanted="1"):
        """Bytes of the groups that hold something ("0": nothing), in pieces: (where they begin, their bytes)."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        size = flat.size // len(filled or "1")
        for group, bit in enumerate(filled or "1"):
            for begin in range(group * size, (group + 1) * size, CHUNK) if bit == wanted else ():
                yield begin, flat[begin:min(begin + CHUNK, (group + 1) * size)]

    def bind(self, path):
        super().bind(path)
        self.host = self.inputs
        placed = {name: self.place(array, self.types[name], self.filled.get(name)) for name, array in self.host.items()}
        self.inputs, self.buffers = ({name: pair[i] for name, pair in placed.items()} for i in (0, 1))

    def places(self, due, types):
        placed = {name: self.place(array, types[name]) for name, array in due.items()}
        self.outputs, self.output_buffers = ({name: pair[i] for name, pair in placed.items()} for i in (0, 1))
        return self.outputs

    def findings(self):
        for name, buffer in {**self.buffers, **self.output_buffers}.items():
            for part, where in ((buffer[:GUARD_BYTES], "in front of"), (buffer[-GUARD_BYTES:], "behind the end of")):
                if bool((part != NAN_BYTES).any()):
                    return [f"the kernel wrote out of bounds: {int((part != NAN_BYTES).sum())} bytes {where} '{name}'"]
        for name, array in self.host.items():
            inner, filled, torch = self.buffers[name][GUARD_BYTES:-GUARD_BYTES], self.filled.get(name), self.torch
            if (any(bool(inner[begin:begin + part.nbytes].any()) for begin, part in self.parts(array, filled, "0")) or
                    any(not torch.equal(inner[begin:begin + part.nbytes], torch.from_numpy(part).to(inner.device))
                        for begin, part in self.parts(array, filled))):
                return [f"the kernel changed its input '{name}'"]
        return []

    def capture(self, calls):
        """A graph of `calls`, warmed up on a stream of its own as torch's documentation asks for."""
        cuda, stream = self.torch.cuda, self.torch.cuda.Stream()
        stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            [calls() for _ in range(WARM_UP)]
        cuda.current_stream().wait_stream(stream)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            returned = calls()
        return graph, returned

    def execute(self, arguments, outputs, mode):
        if mode == "crowded":  # about a millisecond of work on a second stream, beside the kernel
            with self.torch.cuda.stream(self.torch.cuda.Stream()):
                [self.torch.ones(4096, 4096, device="cuda").cos_() for _ in range(32)]
        if mode != "graph" or self.kernel.on != "cuda":
            return self.kernel.function(**arguments)
        captured, returned = self.capture(lambda: self.kernel.function(**arguments))
        for tensor in outputs.values():  # what is judged comes from the replay, not from the warm-up
            tensor.view(self.torch.uint8).fill_(NAN_BYTES if tensor.is_floating_point() else NO_INTEGER)
        captured.replay()
        return returned

    def as_array(self, value, due):
        torch = self.torch
        stored = {getattr(torch, name): key for key, name in TORCH_TYPES.items()}.get(getattr(value, "dtype", None))
        if stored is None:
            raise TypeError(f"{self.kernel.name} gave {getattr(value, 'dtype', type(value).__name__)} where {due} is due")
        bits = {1: torch.uint8, 2: torch.int16}.get(value.element_size(), value.dtype)  # numpy lacks FP8 and bf16
        array = value.detach().contiguous().view(bits).cpu().numpy()  # waits for the kernel
        return array.view(NUMPY_TYPES[stored]), stored

    def weight_sets(self):
        """Copies of the weights that together exceed L2 twice, so that every run finds its own cold."""
        weights = {name: tensor for name, tensor in self.inputs.items() if name in ("w", "w13", "w2")}
        size = sum(tensor.nbytes for tensor in weights.values())
        l2 = getattr(self.torch.cuda.get_device_properties(0), "L2_cache_size", 60_000_000)
        copies = min(-(-2 * l2 // size), MOST_SETS - 1) if size else 0
        return [weights] + [{name: tensor.clone() for name, tensor in weights.items()} for _ in range(copies)]

    def time(self, plan):
        """Samples in seconds, each the mean over at least eight runs between two events."""
        if self.kernel.on != "cuda":
            return None
        sets = self.weight_sets() if plan["cold"] else [{}]
        runs, given, calls = max(FEWEST_RUNS, len(sets)), self.inputs, []
        for run in range(runs):
            self.inputs = {**given, **sets[run % len(sets)]}
            calls.append(self.arguments(self.outputs))
        self.inputs, all_runs = given, lambda: [self.kernel.function(**arguments) for arguments in calls]
        graph, event, seconds = self.kernel.graph and plan["mode"] == "graph", self.torch.cuda.Event, []
        launch = self.capture(all_runs)[0].replay if graph else all_runs
        over = time.monotonic() + plan["time_limit_s"]
        for sample in range(WARM_UP + plan["samples"]):
            begin, end = event(enable_timing=True), event(enable_timing=True)
            begin.record()
            launch()
            end.record()
            end.synchronize()
            if sample >= WARM_UP:
                seconds.append(begin.elapsed_time(end) / 1000 / runs)
            if len(seconds) >= 3 and time.monotonic() > over:
                break
        device = self.device()["device"]
        return {"seconds": seconds, "cold": plan["cold"], "graph": graph, "device": device["name"], "driver": device["driver"]}


def _command(function, declared):
    """The command line that serves `function` to moeproof from a process of its own."""
    source = pathlib.Path(inspect.getsourcefile(function)).resolve()
    if "." in function.__qualname__ or function.__name__ == "<lambda>":
        raise ValueError(f"{function.__qualname__} cannot be imported by its name: define it at the top level of {source.name}")
    words = [sys.executable, str(pathlib.Path(__file__).resolve()), f"{source}::{function.__name__}"]
    return shlex.join(words + ([json.dumps(declared)] if declared else []))


def _declared(function, declare):
    if not declare and not hasattr(function, "moeproof_kernel"):
        raise TypeError(f"{getattr(function, '__name__', function)} declares no op: write @kernel(op=..) above it, or say "
                        "assert_moe(f, declare={'op': 'grouped_gemm', 'contract': 'masked'}, ..)")
    return Kernel(function, **declare) if declare else function.moeproof_kernel


def assert_moe(function, declare=None, moeproof=None, **options):
    """Fails unless moeproof (else the variable MOEPROOF, else PATH) passes `function` in every case; skips where it cannot run.
    `declare`: @kernel's arguments where it bears none; `options`: those of `check`, as model="deepseek-v3", tokens=[1, 16, 257]."""
    program = moeproof or os.environ.get("MOEPROOF") or shutil.which("moeproof")
    if not program:
        raise FileNotFoundError("no moeproof: pass moeproof=PATH, set MOEPROOF or put it on PATH")
    declared = _declared(function, declare)
    options = {"op": declared.op, "contract": (declared.contracts or (None,))[0],
               "quant": declared.quants[0] if len(declared.quants) == 1 else None, **options}
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [program, "check", "--executor", "process:" + _command(function, declare), "--quiet", "--json", report]
        words = {name: value if isinstance(value, (list, tuple)) else [value] for name, value in options.items() if value is not None}
        command += [w for name, values in words.items() for w in ("--" + name.replace("_", "-"), ",".join(map(str, values)))]
        done = subprocess.run(command, capture_output=True, text=True)
        cases = json.loads(pathlib.Path(report).read_text())["cases"] if os.path.exists(report) else []
    fine = {"passed", options.get("allow")} | ({"refused"} if "trials" in options else set())  # random cases may be refused
    bad = [c["verdict"] for c in cases if c["verdict"]["correctness"] not in fine]
    if bad and all(v["correctness"] == "skipped" for v in bad):
        raise unittest.SkipTest(bad[0]["reason"])
    if bad:
        lines = [f"{v['correctness']}: {v.get('reason', '')}\n  {v['replay']}\n{v.get('log', '')}" for v in bad]
        raise AssertionError(f"{len(bad)} of {len(cases)} cases\n" + "\n".join(lines))
    if done.returncode != 0 or not cases:
        raise RuntimeError(f"moeproof ended with {done.returncode}: {done.stderr.strip()}")


def _load(place, declared):
    """FILE::NAME -> its Kernel. A file of a package is imported under its full name, as pytest does."""
    file, name = place.rsplit("::", 1)
    root, parts = pathlib.Path(file).resolve().parent, [pathlib.Path(file).stem]
    while (root / "__init__.py").exists():
        root, parts = root.parent, [root.name] + parts
    sys.path[:0] = [str(root), os.getcwd()]
    return _declared(getattr(importlib.import_module(".".join(parts)), name), declared)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or "::" not in sys.argv[1]:
        sys.exit("usage: moeproof_executor.py FILE.py::FUNCTION [JSON of @kernel's arguments]")
    sys.modules["moeproof_executor"] = sys.modules["__main__"]  # the file imports this very module
    serve([_load(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) == 3 else None)])
