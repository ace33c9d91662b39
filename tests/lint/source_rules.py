#!/usr/bin/env python3
"""Rules of the source tree that no compiler checks. Prints one line per breach; exit 1 when there is one.

- arrows: harness -> sim, reference, device -> fixtures; the three siblings never meet; tests may include all
- PTX stands in device/hopper only
- no file of code over 500 lines
- kernels hold no preprocessor condition
- records in fixtures/measured name no folder of the machine that made them
- Boost.Program_options only in harness/cli, options and cmd_*
"""
import pathlib
import re
import shutil
import subprocess
import sys

ALLOWED = {
    "fixtures": {"fixtures"},
    "sim": {"sim", "fixtures"},
    "reference": {"reference", "fixtures"},
    "device": {"device", "fixtures"},
    "harness": {"harness", "sim", "reference", "device", "fixtures"},
}
CODE = {".cpp", ".hpp", ".cu", ".cuh", ".py", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"/]+)/')
OWN_FOLDER = re.compile(r"(?<![\w.])/(root|home|work|tmp|opt|mnt)/")
ASM = re.compile(r"\basm\s*(volatile\s*)?\(")


def source_files(root):
    """What git knows; without git (or outside a checkout) all but build folders and hidden ones."""
    if shutil.which("git"):
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True)
        if listed.returncode == 0 and listed.stdout:
            return [root / name for name in listed.stdout.split("\n") if name]
    tops = [top for top in root.iterdir() if not top.name.startswith((".", "build"))]
    return [path for top in tops for path in (top.rglob("*") if top.is_dir() else [top])]


def breaches(root):
    for path in source_files(root):
        if path.is_file() and path.parent == root / "fixtures/measured":
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if OWN_FOLDER.search(line):
                    yield f"{path.relative_to(root)}:{number}: names a folder of the machine that made it"
        if not path.is_file() or path.suffix not in CODE:
            continue
        name = path.relative_to(root).as_posix()
        folder = name.split("/")[0]
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > 500:
            yield f"{name}: {len(lines)} lines; split it below 500"
        for number, line in enumerate(lines, 1):
            target = INCLUDE.match(line)
            if folder in ALLOWED and target and target.group(1) not in ALLOWED[folder]:
                yield f"{name}:{number}: {folder}/ must not include {target.group(1)}/"
            if ASM.search(line) and path.suffix != ".py" and not name.startswith("device/hopper/") and folder != "tests":
                yield f"{name}:{number}: inline assembly outside device/hopper/"
            if name.startswith("device/kernels/") and path.suffix == ".cuh" and re.match(r"\s*#\s*(if|ifdef|ifndef)\b", line):
                yield f"{name}:{number}: a kernel source holds no preprocessor condition"
            if "program_options" in line and path.suffix in {".cpp", ".hpp"} and not re.match(
                    r"harness/(cli|options|cmd_)", name) and folder != "tests":
                yield f"{name}:{number}: Boost.Program_options belongs to harness/cli, options and cmd_*"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    found = list(breaches(root))
    print("\n".join(found) if found else "source rules hold")
    return 1 if found else 0


sys.exit(main())
