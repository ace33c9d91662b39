#!/usr/bin/env python3
"""Runs every command that the given documents show, in order, in an empty folder beside the program, and compares what it prints.
A block of ``` with lines `$ command`; lines behind it are its output: `...` alone stands for any lines, inside a line for any text.
Comments above a block: `<!-- exit: 1 -->` (of its last command), `<!-- not run: WHY -->`, `<!-- file: NAME -->` (it is written),
`<!-- example: TEST -->` (which runs it).
Would catch a document whose commands do not exist any more, or print something else.

usage: run_documents.py MOEPROOF SOURCE_ROOT PYTHON DOCUMENT..."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MOEPROOF, ROOT, PYTHON = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
BLOCK = re.compile(r"(?:<!-- (exit|not run|file|example): (.*?) -->\n)?```(\w*)\n(.*?)```", re.S)


def commands_of(block):
    """(command, lines that it prints) of a block; a command goes on behind a backslash."""
    found = []
    for line in re.sub(r"\\\n\s*", " ", block).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def fits(shown, printed):
    """None where the lines match, else the first that does not."""
    pattern = ""
    for line in shown:
        pattern += r"(?:.*\n)*?" if line == "..." else ".*".join(re.escape(part) for part in line.split("...")) + r"[ ]*\n"
    return re.fullmatch(pattern, "".join(line + "\n" for line in printed)) is not None


def run(document, folder, path):
    for note, value, language, block in BLOCK.findall(document.read_text(encoding="utf-8")):
        if note in ("not run", "example") or (not note and language):
            continue
        if note == "file":
            (folder / value).write_text(block)
            continue
        commands = commands_of(block)
        if not commands and re.search(r"^(build/)?moeproof ", block, re.M):
            return f"{document.name}: a block names commands and runs none:\n{block[:500]}"
        for command, shown in commands:
            due = int(value) if note == "exit" and command == commands[-1][0] else 0
            done = subprocess.run(["bash", "-c", command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=dict(os.environ, PATH=f"{path}:{os.environ['PATH']}"))
            printed = [line for line in done.stdout.splitlines() if "running: " not in line]
            if done.returncode != due:
                return f"{document.name}: exit {done.returncode} where {due} is due: {command}\n{done.stdout[-2000:]}"
            if not fits(shown, printed):
                return f"{document.name}: {command}\nshows\n" + "\n".join(shown) + "\nand prints\n" + "\n".join(printed)[:3000]
    return None


def main():
    failures = []
    for name in sys.argv[4:]:
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work, "work")
            bin_folder = pathlib.Path(work, "bin")
            for made in (folder / "build", bin_folder):
                made.mkdir(parents=True)
            (folder / "build/moeproof").symlink_to(MOEPROOF)
            for part in ("harness", "fixtures", "docs"):
                (folder / part).symlink_to(ROOT / part)
            (bin_folder / "python3").symlink_to(PYTHON)
            failure = run(ROOT / name, folder, bin_folder)
            if failure:
                failures.append(failure)
    print("\n".join("FAILED " + f for f in failures) or f"{len(sys.argv) - 4} documents are what the program does")
    return 1 if failures else 0


sys.exit(main())
