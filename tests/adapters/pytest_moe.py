"""assert_moe as pytest calls it: run by pytest where it is installed, else by itself (adapters.pytest). pytest rewrites assertions,
imports this file under a name of its own and counts skips: would catch a helper that works in a plain program only."""
import inspect
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import numpy_kernels  # noqa: E402
from moeproof_executor import assert_moe, f32_to_bf16, kernel  # noqa: E402

SMALL = {"hidden": 256, "intermediate": 128, "experts": 4, "top_k": 2, "tokens": [1, 9]}


@kernel(op="grouped_gemm", contract="masked", quant="block128")
def my_gemm(a, a_scale, w, w_scale, masked_m, out):
    for e, n in enumerate(masked_m):
        out[e, :n] = f32_to_bf16(numpy_kernels.product(a[e, :n], a_scale[e, :n], w[e], w_scale[e]))


@kernel(op="grouped_gemm", contract="masked", quant="block128")
def doubled(a, a_scale, w, w_scale, masked_m, out):
    my_gemm(a, 2 * a_scale, w, w_scale, masked_m, out)


@kernel(op="grouped_gemm", contract="masked", quant="block128", on="cuda")
def on_a_card(a, out):
    raise AssertionError("this machine has a card: the test is for those without")


def test_a_right_kernel_passes():
    assert_moe(my_gemm, **SMALL)


def test_a_wrong_kernel_fails_with_its_replay_line():
    try:
        assert_moe(doubled, **SMALL)
    except AssertionError as error:
        assert "of c are wrong" in str(error) and " check --executor " in str(error)
    else:
        raise AssertionError("a doubled output passed")


def test_a_kernel_without_its_machine_is_skipped():
    try:
        assert_moe(on_a_card, **SMALL)
    except unittest.SkipTest:
        raise
    except AssertionError as error:
        assert "this machine has a card" in str(error)


def main():
    """moeproof's path is the only argument."""
    environment = {**os.environ, "MOEPROOF": sys.argv[1]}
    if subprocess.run([sys.executable, "-c", "import pytest"], stderr=subprocess.DEVNULL).returncode == 0:
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        print(done.stdout, done.stderr)
        sys.exit(0 if done.returncode == 0 and "3 passed" in done.stdout or "2 passed, 1 skipped" in done.stdout else 1)
    print("pytest is not installed here: the test functions are called as they are")
    os.environ["MOEPROOF"] = sys.argv[1]
    for name, function in inspect.getmembers(sys.modules[__name__], inspect.isfunction):
        if name.startswith("test_"):
            try:
                function()
            except unittest.SkipTest as reason:
                print(f"skipped: {name}: {reason}")


if __name__ == "__main__":
    main()
