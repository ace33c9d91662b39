#!/usr/bin/env python3
"""Every command line of moeproof that a document names, in a block or in a sentence, is of a command that exists, with options that this
command has; every other option in code is one of some command. run_documents.py runs those that can run here; this is for the others (hours
long, or on a card). And every link leads to a file, and to a heading of it. Would catch a renamed option or page that documents still name.

usage: commands_test.py MOEPROOF SOURCE_ROOT"""
import pathlib
import re
import subprocess
import sys

MOEPROOF, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.S)
LINE = re.compile(r"(?:^|[\s/'\"(`])moeproof ([a-z][a-z-]*)(.*)")
# Options of other programs that the documents name beside ours.
OTHERS = {"--help", "--version", "--verify"}


def help_of(*words):
    return subprocess.run([MOEPROOF, *words, "--help"], capture_output=True, text=True).stdout


def commands():
    """Name -> its options."""
    names = subprocess.run([MOEPROOF, "completion", "bash"], capture_output=True, text=True).stdout
    known = re.findall(r"^  ([a-z][a-z-]*)  ", help_of(), re.M)
    assert "check" in known and "check" in names
    return {name: set(OPTION.findall(help_of(name))) | OTHERS for name in known}


def spans_of(text):
    """(what is code, whether it stands in a block) of a document; a line that goes on behind a backslash is one."""
    for language, block in BLOCK.findall(text):
        if language in ("", "sh", "bash"):
            yield from ((line, True) for line in re.sub(r"\\\n\s*", " ", block).splitlines())
    for span in re.findall(r"`([^`]+)`", BLOCK.sub("", text)):
        yield re.sub(r"\s+", " ", span), False


def faults_of(name, text, known):
    every = set().union(*known.values())
    for code, in_block in spans_of(text):
        line = LINE.search(code.split("#")[0])
        if line and line[1] in known:
            for option in OPTION.findall(re.sub(r"'[^']*'|\"[^\"]*\"", "''", line[2])):
                if option not in known[line[1]]:
                    yield f"{name}: {line[1]} has no {option}: {code[:120]}"
        elif line and not in_block:
            yield f"{name}: there is no command {line[1]}: {code[:120]}"
        elif not in_block and code.startswith("--"):
            for option in OPTION.findall(code):
                if option not in every:
                    yield f"{name}: no command has {option}: {code[:120]}"


def headings_of(path):
    """As they are in a link: lower case, without marks, - for a blank."""
    lines = re.findall(r"^#+ (.*)", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


def dead_links(path, name):
    for target in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", path.read_text(encoding="utf-8"))):
        file, _, heading = target.partition("#")
        there = path.parent / file if file else path
        if "://" in target:
            continue
        if not there.exists() or (heading and heading not in headings_of(there)):
            yield f"{name}: a link to {target}, which is not there"


def main():
    known, count, faults = commands(), 0, []
    for path in sorted(ROOT.glob("**/*.md")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(("build", ".", "fixtures/measured/h200")):
            continue
        count += 1
        faults += dead_links(path, name)
        faults += faults_of(name, path.read_text(encoding="utf-8"), known)
    print("\n".join(faults) or f"{count} documents, {len(known)} commands")
    return 1 if faults or count < 10 else 0


sys.exit(main())
