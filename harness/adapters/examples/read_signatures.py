#!/usr/bin/env python3
"""Prints the table signatures.json: which parameters do the functions have that vllm_fused_experts.py and sglang_fused_experts.py
call, in published releases? Reads wheels of vllm and sglang without running or installing anything of them.

    pip download --no-deps --only-binary=:all: vllm==0.24.0 ...
    python3 harness/adapters/examples/read_signatures.py *.whl >harness/adapters/examples/signatures.json
"""
import ast
import json
import re
import sys
import zipfile

MOE = "vllm/model_executor/layers/fused_moe/"
SRT = "sglang/srt/layers/moe/"
WANTED = {  # package -> function or class -> files it may stand in; and the function that says whether Swap-AB is there
    "vllm": {"fused_experts": [MOE + "fused_moe.py"], "fp8_w8a8_moe_quant_config": [MOE + "config.py"],
             "enable_swap_ab": [MOE + "utils.py"]},
    "sglang": {"fused_experts": [SRT + "moe_runner/triton_utils/fused_moe.py", SRT + "fused_moe_triton/fused_moe.py"],
               "MoeRunnerConfig": [SRT + "moe_runner/base.py"], "StandardTopKOutput": [SRT + "topk.py"],
               "set_global_server_args_for_scheduler": ["sglang/srt/server_args.py"],
               "should_enable_swap_ab": ["sglang/kernels/ops/moe/fused_moe_triton_kernels.py",
                                         SRT + "fused_moe_triton/fused_moe_triton_kernels.py"]},
}


def parameters(node):
    """Names in order, one that must be given bears no '='."""
    if isinstance(node, ast.ClassDef):  # a dataclass or NamedTuple
        fields = [f for f in node.body if isinstance(f, ast.AnnAssign)]
        return [f.target.id + ("" if f.value is None else "=") for f in fields]
    given, plain = node.args, node.args.args
    required = len(plain) - len(given.defaults)
    return ([a.arg + ("=" if i >= required else "") for i, a in enumerate(plain)] +
            [a.arg + ("" if d is None else "=") for a, d in zip(given.kwonlyargs, given.kw_defaults)])


def read(wheel):
    package, release = re.search(r"(vllm|sglang)-([0-9.a-z]+)-", wheel).groups()
    names, found = set(zipfile.ZipFile(wheel).namelist()), {}
    for name, places in WANTED[package].items():
        for place in places:
            tree = ast.parse(zipfile.ZipFile(wheel).read(place)) if place in names else ast.Module([], [])
            for node in tree.body:
                if getattr(node, "name", None) == name and name not in found:
                    found[name] = {"module": place[:-3].replace("/", "."), "parameters": parameters(node)}
    swap = found.pop({"vllm": "enable_swap_ab", "sglang": "should_enable_swap_ab"}[package], None)
    return {"package": package, "release": release, "swap_ab": swap is not None, "functions": found}


def main():
    rows = [json.dumps(read(wheel)) for wheel in sys.argv[1:]]
    print("[\n" + ",\n".join(rows) + "\n]")


if __name__ == "__main__":
    main()
