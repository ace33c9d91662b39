"""Processes with several kernels, for several_test.py: the word behind the file says which are served."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "harness/adapters"))
from moeproof_executor import Kernel, Refused, serve  # noqa: E402


def zeros(out):
    out[...] = 0


def refuses_odd(out, problem):
    if problem["tokens"] % 2:
        raise Refused("even tokens only")
    out[...] = 0


def combined(gemm2):
    raise Refused(f"not {len(gemm2)} rows")


def gemm(name, contract="masked", quant="block128", function=zeros):
    return Kernel(function, op="grouped_gemm", contract=contract, quant=quant, name=name)


COMBINE = Kernel(combined, op="combine", name="combine")
SETS = {
    "alike": [gemm("first"), gemm("second")],
    "contracts": [gemm("by_mask"), gemm("by_offset", contract="offsets")],
    "schemes": [gemm("by_channel", quant="token_channel"), gemm("by_block")],
    "ops": [gemm("first"), COMBINE],
    "many": [gemm(f"k{n}") for n in range(20)],
    "odd": [gemm("odd", function=refuses_odd)],
    "refused": [COMBINE],
    "absent": [gemm("on_a_card")],
}
serve(SETS[sys.argv[1]], "no card here" if sys.argv[1] == "absent" else None)
