#!/usr/bin/env python3
"""assert_moe as a test function would call it, and the example of the README as a reader would paste them. Would catch a
helper that lets a wrong kernel pass, a failure without its replay line, and a README that is not true."""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

from support import Tests
import numpy_kernels
from moeproof_executor import assert_moe

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[-1])  # a child that imports this file has other words
SMALL = {"hidden": 256, "intermediate": 128, "experts": 4, "top_k": 2, "tokens": [1, 9], "moeproof": PROGRAM}


def plain(a, a_scale, w, w_scale, masked_m, out):
    numpy_kernels.masked(a, a_scale, w, w_scale, masked_m, out)


def raised(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    return ""


def readme_example(t):
    """The block is run as the file it names, with the command below it."""
    text = (SOURCE / "README.md").read_text()
    block = re.search(r"<!-- file: my_gemm.py -->\n```python\n(.*?)```\n+```\n\$ (cp .*?)\n\$ (.*?)\n(.*?)```\n"
                      r".*?```python\n(.*?)```", text, re.S)
    t.hold(block, "the README has its example")
    with tempfile.TemporaryDirectory() as folder:
        code, copy, command, shown, test = block.groups()
        (pathlib.Path(folder) / "my_gemm.py").write_text(code)
        around = re.sub(r"^def .*?\n\n", "", code, flags=re.S | re.M)
        t.hold(len([line for line in around.split("\n") if line]) == 4 and "four lines around it" in text, "as many as it says", around)
        subprocess.run(copy.replace("harness/", shlex.quote(str(SOURCE)) + "/harness/"), shell=True, cwd=folder, check=True)
        command = command.replace("build/moeproof", shlex.quote(PROGRAM)).replace("python3", shlex.quote(sys.executable))
        done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=folder)
        t.hold(done.returncode == 0, "the README's example passes", done)
        t.hold(done.stdout.split("\n")[1:] == shown.split("\n")[1:], "the README shows what it prints", done.stdout)
        (pathlib.Path(folder) / "test_my_gemm.py").write_text(test + "\ntest_my_gemm()\nprint('it passes')\n")
        in_test = subprocess.run([sys.executable, "test_my_gemm.py"], capture_output=True, text=True, cwd=folder,
                                 env={**os.environ, "MOEPROOF": PROGRAM})
        t.hold(in_test.returncode == 0 and in_test.stdout == "it passes\n", "the README's test passes", in_test)
        broken = code.replace("w_scale[e][:, k]", "w_scale[e].T[:, k]")
        t.hold(broken != code, "the example has a scale to turn")
        (pathlib.Path(folder) / "my_gemm.py").write_text(broken)
        done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=folder)
        t.hold(done.returncode == 1 and "elements of c are wrong" in done.stdout, "its faulty twin fails", done)


def main():
    t = Tests()
    assert_moe(numpy_kernels.masked, **SMALL, quant="block128")
    assert_moe(numpy_kernels.layer_stages, **SMALL, load="zipf:1.2")
    text = raised(AssertionError, lambda: assert_moe(numpy_kernels.layer, **SMALL))
    t.hold("mistrusted" in text and "show the stages" in text, "a layer that shows only out is no pass on real data", text)
    assert_moe(plain, declare={"op": "grouped_gemm", "contract": "masked", "quant": "block128"}, **SMALL)
    text = raised(AssertionError, lambda: assert_moe(numpy_kernels.missing_tail, **SMALL))
    t.hold("2 of 2 cases" in text and "of c are wrong" in text, "a wrong kernel fails the test", text)
    line = re.search(r"moeproof (check --executor .*)", text)
    t.hold(line, "the failure holds its replay line", text)
    if line:
        again = subprocess.run(f"{shlex.quote(PROGRAM)} {line.group(1)}", shell=True, capture_output=True, text=True)
        t.hold(again.returncode == 1 and "of c are wrong" in again.stdout, "the replay line fails again", again)
    text = raised(AssertionError, lambda: assert_moe(numpy_kernels.raises, **SMALL))
    t.hold("ValueError: no tile" in text and "in raises" in text, "what a kernel raised comes with its traceback", text)
    text = raised(AssertionError, lambda: assert_moe(numpy_kernels.refuses, **SMALL))
    t.hold("refused: at most 2 rows" in text, "a refused case is no pass", text)
    text = raised(ValueError, lambda: assert_moe(lambda a: a, declare={"op": "grouped_gemm"}, **SMALL))
    t.hold("top level" in text, "a function without a place", text)
    text = raised(TypeError, lambda: assert_moe(plain, **SMALL))
    t.hold("plain declares no op: write @kernel(op=..) above it, or say assert_moe(f, declare=" in text, "a function without @kernel", text)
    text = raised(TypeError, lambda: assert_moe(5, **SMALL))
    t.hold("5 declares no op" in text, "what is no function", text)
    text = raised(FileNotFoundError, lambda: assert_moe(numpy_kernels.masked, **{**SMALL, "moeproof": "/no/such/moeproof"}))
    t.hold("/no/such/moeproof" in text, "a program that is not there", text)
    text = raised(RuntimeError, lambda: assert_moe(numpy_kernels.masked, moeproof=PROGRAM, model="no-such-model"))
    t.hold("no-such-model" in text, "bad options", text)
    readme_example(t)
    t.finish()


if __name__ == "__main__":  # children import this file for `plain`
    main()
