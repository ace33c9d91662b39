#!/usr/bin/env python3
"""Triton itself against the records of it and against audit-jit. Skipped (77) where no triton can be imported.

triton_test.py PROGRAM SOURCE

Would catch a Triton that specialises otherwise than the one recorded, records that nobody can make again, and an audit that
disagrees with the compilations that Triton has just done: of a trace, of the cache they filled, of their log, of the four forms
of triton_stalls.py.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
GOLDEN = SOURCE / "fixtures/golden/triton"


def audit(*words):
    done = subprocess.run([PROGRAM, "audit-jit", *words, "--json", "-"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def records(path):
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


def streams(path):
    """{annotation: [(row, tokens), ...]} and the token counts."""
    found, tokens = {}, []
    for line in records(path):
        words = line.split(" ")
        if words[0] == "tokens":
            tokens = words[1:]
        elif words[0] == "do_not_specialize":
            compiled = found[words[1]] = []
        else:
            compiled.append(int(words[1]))
    return found, tokens


def main():
    try:
        import triton
    except ImportError as why:
        print(f"skipped: {sys.executable} has no triton ({why}); `pip install triton==3.7.1` (no GPU needed), then "
              "cmake -DMOE_TRITON_PYTHON=/path/to/python")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        subprocess.run([sys.executable, SOURCE / "tests/jit/record_triton.py", out], check=True)
        for name in ("keys.txt", "streams.txt"):
            assert records(out / name) == records(GOLDEN / name), f"Triton {triton.__version__}: {name} differs from the record"
        found, tokens = streams(out / "streams.txt")
        trace = out / "tokens.csv"
        trace.write_text("\n".join(["tokens", *tokens]) + "\n")
        told = audit("--kernel", "inv_rope_quant", "--trace", str(trace))
        assert [v["row"] for v in told["before"]] == found["-"], told["before"]
        assert [v["row"] for v in told["after"]] == found["num_tokens"], told["after"]
        assert told["remaining_arguments"] == ["scale_stride_k"]
        assert told["enough"] == [{"argument": "scale_stride_k", "annotation": "do_not_specialize"}]
        assert told["variants_left"] == len(found["num_tokens,scale_stride_k"]) == 1
        for cache, annotation in (("inv_rope_plain", "-"), ("inv_rope_annotated", "num_tokens")):
            kernels = audit("--cache", str(out / cache))["kernels"]
            assert len(kernels) == 1 and kernels[0]["distinct"] == len(found[annotation]) and kernels[0]["left"] == 1, kernels
        small = {k["function"]: k for k in audit("--cache", str(out / "small"))["kernels"]}
        assert {name: k["compiled"] for name, k in small.items()} == {
            "by_value": 3, "by_pointer": 2, "by_width": 2, "by_option": 2, "by_constexpr": 2, "once": 1}, small
        assert audit("--log", str(out / "monitor.log"))["compiled"] == sum(map(len, found.values()))
        stalls = subprocess.run([sys.executable, SOURCE / "harness/adapters/examples/triton_stalls.py", "--moeproof", PROGRAM,
                                 "--trace", trace, "--json", out / "stalls.json"], capture_output=True, text=True)
        assert stalls.returncode == 0, stalls.stdout + stalls.stderr  # every form compiles at the launches that audit-jit names
        forms = json.loads((out / "stalls.json").read_text())["forms"]
        assert [form["measured"]["variants"] for form in forms.values()] == [4, 2, 1, 1], forms
    print(f"Triton {triton.__version__} compiles where audit-jit says")


main()
