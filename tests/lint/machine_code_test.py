#!/usr/bin/env python3
"""ci/compile_cubin refuses a copy that the whole warp issues for one lane, and takes the same copy in the branch of its wait. Would
catch a check that is blind (a compiler that writes other machine code, a disassembler that prints otherwise) or that refuses all.

usage: machine_code_test.py SOURCE_ROOT NVCC NVDISASM WORK      77: there is no disassembler
"""
import pathlib
import subprocess
import sys

root, nvcc, nvdisasm, work = sys.argv[1:]
if nvdisasm.endswith("NOTFOUND"):
    print("skipped: no nvdisasm here; ci/setup fetches one")
    sys.exit(77)
pathlib.Path(work).mkdir(parents=True, exist_ok=True)


def compiled(name, *define):
    output = pathlib.Path(work, name + ".cubin")
    done = subprocess.run([sys.executable, f"{root}/ci/compile_cubin", "--nvdisasm", nvdisasm, nvcc, "-cubin", "-gencode",
                           "arch=compute_90a,code=sm_90a", "-std=c++20", "-O3", f"-I{root}", *define, "-o", output,
                           f"{root}/tests/lint/copy_after_wait.cu"], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr, output.exists()


code, said, left = compiled("one_branch")
assert code == 0 and left, said
code, said, left = compiled("two_branches", "-DTWO_BRANCHES")
assert code == 1 and "issued by every lane" in said and not left, said
text = pathlib.Path(work, "none.cubin")
text.write_text("no machine code")
done = subprocess.run([sys.executable, f"{root}/ci/machine_code.py", nvdisasm, text], capture_output=True, text=True, check=False)
assert done.returncode == 2 and "cannot read" in done.stderr, done
print("one branch: nothing; two: " + code * said.strip())
