#!/usr/bin/env python3
"""Planted faults and delays change no machine code of a release build: strips every hook from the kernels' sources, compiles
a few variants and compares their code with the build's own. Prints what differs; exit 1.

usage: release_code.py SOURCE_ROOT NVCC CUBIN_FOLDER VARIANT... [--ptx VARIANT...]
The folder is the build's, with variant_<i>.cubin. --ptx compares what ptxas is given, for kernels that it takes long over.
"""
import concurrent.futures
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HOOK = re.compile(r"(?:device::)?\b(planted|delay)\(")
DOOR = {"device/planted/planted.hpp", "device/hopper/ptx_planted.cuh"}


def closing(text, at):
    """Index behind the bracket that closes the one at `at`."""
    pairs, depth = {"(": ")", "{": "}"}, 0
    for i in range(at, len(text)):
        if text[i] == text[at]:
            depth += 1
        elif text[i] == pairs[text[at]]:
            depth -= 1
            if depth == 0:
                return i + 1
    raise ValueError("a bracket is not closed: " + text[at:at + 60])


def statement_end(text, at):
    """Index behind the statement that begins at or after `at`."""
    begin = at + re.match(r"(\s|#pragma[^\n]*|//[^\n]*)*", text[at:]).end()
    if text[begin] == "{":
        return closing(text, begin)
    if re.match(r"(if|for|while)\b", text[begin:]):
        return statement_end(text, closing(text, text.index("(", begin)))
    return text.index(";", begin) + 1


def arguments(inside):
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(inside):
        depth += (c in "({[") - (c in ")}]")
        if c == "," and depth == 0:
            parts.append(inside[begin:i])
            begin = i + 1
    return parts + [inside[begin:]]


def strip_once(text):
    """The text without its first remaining hook."""
    at = HOOK.search(text)
    end = closing(text, at.end() - 1)
    if at.group(1) == "delay":
        return text[:at.start()] + text[text.index(";", end) + 1:]
    parts = arguments(text[at.end():end - 1])
    if len(parts) == 4 or len(parts) == 3:
        return text[:at.start()] + "(" + parts[-1].strip() + ")" + text[end:]
    before = text[:at.start()]
    condition = re.search(r"\bif\s*(constexpr\s*)?\($", before)
    if condition:
        stop = statement_end(text, closing(text, condition.end() - 1))
        return before[:condition.start()] + text[stop:]
    negated = re.search(r"\bif\s*(constexpr\s*)?\(!$", before)
    if negated:
        return before[:negated.start()] + text[closing(text, text.index("(", negated.start())):]
    chained = re.search(r"(&&\s*!|\|\|\s*)$", before)
    if chained:
        return before[:chained.start()] + text[end:]
    bracketed = re.search(r"\|\|\s*\($", before)
    if bracketed:
        return before[:bracketed.start()] + text[closing(text, bracketed.end() - 1):]
    raise ValueError("a hook in a form that is not stripped: " + text[max(0, at.start() - 60):end + 40])


def strip_hooks(text):
    while HOOK.search(text):
        text = strip_once(text)
    return text


def stripped_copy(root, to):
    hooks = 0
    for path in [*root.glob("device/**/*"), *root.glob("fixtures/problem/*")]:
        name = path.relative_to(root).as_posix()
        if path.suffix not in {".hpp", ".cuh", ".cu"}:
            continue
        text = path.read_text(encoding="utf-8")
        if name == "device/planted/planted.hpp":
            text = "#pragma once\n#include \"device/planted/faults.hpp\"\n"   # what is left of a hook would not compile
        elif name == "device/planted/gemm_faults.cuh":
            text = "#pragma once\n"
        elif name not in DOOR and re.match(r"device/(kernels|hopper)/", name):
            hooks += len(HOOK.findall(text))
            text = strip_hooks(text)
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_text(text, encoding="utf-8")
    return hooks


def code_sections(path):
    """Sections of a cubin (ELF64) that the card executes or reads: code, constants, register counts."""
    data = path.read_bytes()
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    strings = headers[names]
    sections = {}
    for h in headers:
        begin = strings[4] + h[0]
        name = data[begin:data.index(b"\0", begin)].decode()
        if name.startswith((".text.", ".nv.constant", ".nv.info.")) and h[1] != 8:
            sections[name] = data[h[4]:h[4] + h[5]]
    return sections


def compare(nvcc, stripped, folder, variant):
    ours = stripped / f"variant_{variant}.cubin"
    subprocess.run([nvcc, "-cubin", "-gencode", "arch=compute_90a,code=sm_90a", "-std=c++20", "-fmad=false", "-O3", "-lineinfo",
                    f"-I{stripped}", f"-DMOE_VARIANT={variant}", "-o", ours, stripped / "device/kernels/variant.cu"],
                   check=True, capture_output=True, text=True)
    a, b = code_sections(folder / ours.name), code_sections(ours)
    return [f"variant {variant}: {name} differs" for name in sorted({*a, *b}) if a.get(name) != b.get(name)], \
        sum(len(v) for n, v in b.items() if n.startswith(".text."))


def ptx(nvcc, root, variant):
    with tempfile.TemporaryDirectory() as folder:   # nvcc may hang where it shall write into a pipe
        out = pathlib.Path(folder) / "variant.ptx"
        subprocess.run([nvcc, "-ptx", "-arch=compute_90a", "-std=c++20", "-fmad=false", "-O3", f"-I{root}",
                        f"-DMOE_VARIANT={variant}", "-o", out, root / "device/kernels/variant.cu"],
                       check=True, capture_output=True, text=True)
        return out.read_text(encoding="utf-8")


def compare_ptx(nvcc, root, stripped, variant):
    a, b = ptx(nvcc, root, variant), ptx(nvcc, stripped, variant)
    return [] if a == b and "moe_kernel" in a else [f"variant {variant}: its PTX differs"], 0


def main():
    root, nvcc, folder = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    words = sys.argv[4:]
    split = words.index("--ptx") if "--ptx" in words else len(words)
    variants, as_ptx = words[:split], words[split + 1:]
    if not all((folder / f"variant_{v}.cubin").exists() for v in variants):
        print(f"no cubins in {folder}: build first")
        return 1
    stripped = pathlib.Path(tempfile.mkdtemp())
    try:
        hooks = stripped_copy(root, stripped)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda v: compare_ptx(nvcc, root, stripped, v), as_ptx))
            results += pool.map(lambda v: compare(nvcc, stripped, folder, v), variants)
    except subprocess.CalledProcessError as error:
        print("the stripped sources do not compile:\n" + error.stderr)
        return 1
    finally:
        shutil.rmtree(stripped)
    found = [line for differences, _ in results for line in differences]
    print("\n".join(found) if found else f"{len(variants)} kernels ({sum(n for _, n in results)} bytes of machine code) and the PTX "
          f"of {len(as_ptx)} are equal with and without the {hooks} hooks")
    return 1 if found or hooks == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
