#!/usr/bin/env python3
"""What can be known of harness/adapters/examples without torch, Triton or a card: the calls into vLLM and SGLang fit the published
signatures, every planted fault still finds its place, every file compiles, and what cannot run here says why. Would catch a
misspelt or outdated keyword, a fault that plants nothing, and an adapter that fails where it should refuse."""
import ast
import copy
import importlib.util
import json
import os
import pathlib
import sys
from unittest import mock

from support import SIZES, Outcome, Tests

PROGRAM, EXAMPLES = sys.argv[1], pathlib.Path(sys.argv[2]) / "harness/adapters/examples"
ADAPTERS = {"vllm": "vllm_fused_experts.py", "sglang": "sglang_fused_experts.py"}


def misfits(source, functions):
    """What is wrong with the calls and imports in `source`, by one release's signatures."""
    tree = ast.parse(source)
    imports = {(node.module, alias.name) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    calls = {node.func.id: node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    for name, has in functions.items():
        if (has["module"], name) not in imports:
            yield f"{name} is not imported from {has['module']}"
        if name not in calls:
            yield f"{name} is not called"
            continue
        known = [p.rstrip("=") for p in has["parameters"]]
        given = known[:len(calls[name].args)] + [k.arg for k in calls[name].keywords]
        yield from (f"{name} has no parameter '{g}'" for g in given if g not in known)
        yield from (f"{name} needs '{p}'" for p in has["parameters"] if not p.endswith("=") and p not in given)


def check_signatures(tests):
    releases = json.loads((EXAMPLES / "signatures.json").read_text())
    for package, adapter in ADAPTERS.items():
        source = (EXAMPLES / adapter).read_text()
        mine = [r for r in releases if r["package"] == package]
        tests.hold({r["swap_ab"] for r in mine} == {False, True}, f"{package}: no release before, or none after Swap-AB")
        for release in mine:
            wrong = list(misfits(source, release["functions"]))
            tests.hold(not wrong, f"{adapter} against {package} {release['release']}", "; ".join(wrong))
        changed = copy.deepcopy(mine[0]["functions"])
        changed["fused_experts"]["parameters"].remove("w1")
        changed["fused_experts"]["parameters"].append("new")
        wrong = list(misfits(source, changed))
        tests.hold(wrong == ["fused_experts has no parameter 'w1'", "fused_experts needs 'new'"], "a changed signature", wrong)


def check_faults(tests):
    spec = importlib.util.spec_from_file_location("kill_table", EXAMPLES / "faulty/kill_table.py")
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    sound = table.planted(table.NONE)
    tests.hold(len({f.name for f in table.FAULTS}) == len(table.FAULTS) >= 11, "ten faults and the sketch, each once")
    for fault in table.FAULTS:
        source = table.planted(fault)
        tests.hold(source != sound, f"{fault.name} changes nothing")
        compile(source, fault.name, "exec")


def check_refusals(tests):
    """Without a card, without torch, without the package: one line that says so, and exit 77. (With all of them it runs.)"""
    for adapter in ADAPTERS.values():
        outcome = Outcome(PROGRAM, f"{sys.executable} {EXAMPLES / adapter}", SIZES + ["--tokens", "3"])
        reasons = ("torch is not installed", "no CUDA device", "no vLLM", "no SGLang")
        refused = outcome.status == 77 and any(reason in outcome.err for reason in reasons)
        tests.hold(refused or outcome.status == 0, f"{adapter} neither runs nor refuses with its reason", outcome)


def check_obstacle(tests):
    """Triton's adapters say what they lack instead of failing at the first launch. torch is played by a stand-in."""
    spec = importlib.util.spec_from_file_location("triton_interpreter", EXAMPLES / "triton_interpreter.py")
    for card, variable, runs in ((False, None, False), (False, "1", True), (True, None, True)):
        torch = mock.MagicMock()
        torch.cuda.is_available.return_value = card
        stand_ins = {"numpy": mock.MagicMock(), "torch": torch, "triton": mock.MagicMock(), "triton.runtime": mock.MagicMock()}
        with mock.patch.dict(sys.modules, stand_ins), mock.patch.dict(os.environ, {"TRITON_INTERPRET": variable or ""}):
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            reason = module.obstacle()
        tests.hold((reason is None) == runs and (runs or "TRITON_INTERPRET=1" in reason), f"card {card}, variable {variable}", reason)


def check_interpreter(tests):
    """A kernel for a card runs on CPU tensors under Triton's interpreter, instead of being skipped for the lack of a card."""
    sys.path.insert(0, str(EXAMPLES.parent))
    import moeproof_executor
    for variable, on in (("1", "torch"), ("0", "cuda")):
        with mock.patch.dict(os.environ, {"TRITON_INTERPRET": variable}):
            made = moeproof_executor.Kernel(lambda out: None, "combine", on="cuda")
        tests.hold((made.on, made.graph) == (on, on == "cuda"), f"TRITON_INTERPRET={variable}", made.on)


def check_stream(tests):
    """Would catch a stream that is not a function of its seed, steps outside the documented limits, a percentile off by one."""
    spec = importlib.util.spec_from_file_location("triton_stalls", EXAMPLES / "triton_stalls.py")
    stalls = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stalls)
    stream = stalls.server_stream(1, 500, 8)
    tests.hold(stream == stalls.server_stream(1, 500, 8) != stalls.server_stream(2, 500, 8), "the stream follows its seed")
    tests.hold(stream[0][1] and all(4 <= count <= 8192 + 8 if arrives else 1 <= count <= 8 for count, arrives in stream),
               "a step has its prompt and a token a running request")
    tests.hold(stalls.percentiles(range(1, 1001)) == {"p50": 500, "p99": 990, "p99.9": 999, "max": 1000}, "percentiles")


def main():
    sys.dont_write_bytecode = True
    tests = Tests()
    for path in sorted(EXAMPLES.rglob("*.py")):
        compile(path.read_text(), str(path), "exec")
    check_signatures(tests)
    check_faults(tests)
    check_refusals(tests)
    check_obstacle(tests)
    check_interpreter(tests)
    check_stream(tests)
    tests.finish()


main()
