#!/usr/bin/env python3
"""Shards, merges and tables of the built program as a user meets them. Would catch a merge that is not the run, a failed shard whose
merge passes, a shard given twice, a table wider than a terminal, colours in a file.

usage: reports.py MOEPROOF SOURCE_ROOT"""
import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile

MOEPROOF, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
SIZES = "--hidden 256 --intermediate 128 --experts 4 --top-k 2".split()
failures = []


def hold(kept, what):
    kept or failures.append(what)


def run(*words):
    return subprocess.run([MOEPROOF, *map(str, words)], capture_output=True, text=True)


def cases_of(path):
    return sorted(json.dumps(c) for c in json.loads(path.read_text())["cases"])


def check_merge(folder):
    words = ["check", *SIZES, "--executor", "reference", "--tokens", "1,2,3,5,9", "--load", "uniform,zipf:1.2", "--quiet"]
    whole, merged = folder / "whole.json", folder / "merged.json"
    shards = [folder / f"{i}.json" for i in (1, 2, 3)]
    run(*words, "--json", whole)
    for i, shard in enumerate(shards, 1):
        run(*words, "--shard", f"{i}/3", "--json", shard)
    done = run("merge", *shards, "--quiet", "--json", merged)
    hold(done.returncode == 0 and not done.stderr, f"merge: {done}")
    hold(cases_of(merged) == cases_of(whole), "the merged cases are the run's")
    told = [json.loads(p.read_text())["summary"] for p in (merged, whole)]
    hold(told[0] == told[1], f"the merged summary is the run's: {told}")
    again = folder / "again.json"
    run("report", merged, "--quiet", "--json", again)
    hold(cases_of(again) == cases_of(merged), "a report of a report is the same")
    hold(run("merge", shards[0], shards[0]).returncode == 2, "a shard given twice is refused")
    bad = json.loads(shards[1].read_text())
    bad["cases"][0]["verdict"]["correctness"] = "failed"
    shards[1].write_text(json.dumps(bad))
    hold(run("merge", *shards, "--quiet").returncode == 1, "a failed shard fails the merge")
    for wrong, words in ((b"", "neither"), (b"{}", "neither"), (b'{"tool":{"command":"tune"}}', "tune"), (b"\xff", "neither")):
        (folder / "wrong").write_bytes(b" " + wrong)
        done = run("report", folder / "wrong")
        hold(done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, f"report of {wrong}: {done}")


def check_tables(folder):
    predicted = json.loads(run("predict", "--model", "deepseek-v3", "--tp", "8", "--tokens", "1,300,4096", "--layout", "all", "--quiet",
                               "--json", "-").stdout)
    for case in predicted["cases"]:
        case["measurement"] = {"seconds": [1.1 * case["prediction"]["seconds"]] * 3}
    (folder / "bench.json").write_text(json.dumps(predicted))
    for words in (["compare", folder / "bench.json"], ["list", "models"], ["--help"],
                  ["predict", "--model", "deepseek-v3", "--tokens", "1:64:x2", "--load", "uniform,zipf:1.2", "--layout", "all"]):
        done = run(*words)
        wide = [line for line in done.stdout.splitlines()[1:] if len(line) > 80]
        hold(not wide and done.stdout, f"{words[0]}: wider than 80 columns: {wide[:2]}")
        hold("\x1b" not in done.stdout, f"{words[0]}: colours in a pipe")


def check_terminal():
    """On a terminal a long run draws its line and takes it away; the table that follows has colours."""
    terminal, end = pty.openpty()
    words = [MOEPROOF, "check", "--executor", "reference", "--trials", "2000", "--time-budget", "3s", "--judge-budget", "1e6"]
    process = subprocess.Popen(words, stdout=end, stderr=end)
    os.close(end)
    seen = b""
    while True:
        try:
            read = os.read(terminal, 65536)
        except OSError:   # the other end is closed
            break
        if not read:
            break
        seen += read
    process.wait()
    text = seen.decode(errors="replace")
    hold(" a second" in text and "left" in text, "a line of progress")
    hold("running: " not in text, "no line a case on a terminal")
    hold("\x1b[3" in text, "colours on a terminal")
    drawn = [part for part in text.split("\r") if " a second" in part]
    hold(drawn and all(len(part.rstrip("\n")) <= 80 for part in drawn), "the line is as wide as a terminal at most")


with tempfile.TemporaryDirectory() as name:
    check_merge(pathlib.Path(name))
    check_tables(pathlib.Path(name))
    check_terminal()
print("\n".join("FAILED " + f for f in failures) or "shards, tables and the terminal hold")
sys.exit(1 if failures else 0)
