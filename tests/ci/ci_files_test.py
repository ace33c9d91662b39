#!/usr/bin/env python3
"""What users copy into their CI: the pipelines parse (where PyYAML is), call scripts and options that exist, shards of ci/gpu are its
steps, and the speed gate fails only on what two batches call slow. Would catch a renamed script, a step that no shard runs, a gate
that one slow batch closes, a soak that calls growing memory flat or flat memory growing.

usage: ci_files_test.py SOURCE_ROOT MOEPROOF"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT, MOEPROOF = pathlib.Path(sys.argv[1]), sys.argv[2]
PIPELINES = ("ci/github-gpu.yml", "ci/buildkite-gpu.yml", ".pre-commit-config.yaml")
failures = []


def hold(kept, what):
    kept or failures.append(what)


def steps(*words):
    done = subprocess.run([ROOT / "ci/gpu", "--dry-run", *words], capture_output=True, text=True)
    hold(done.returncode == 0 and not done.stderr, f"ci/gpu {words}: {done.stderr}")
    return done.stdout.splitlines()


def check_shards():
    whole = steps()
    hold(len(whole) > 40, f"{len(whole)} steps")
    for n in (2, 5):
        dealt = [step for i in range(1, n + 1) for step in steps("--shard", f"{i}/{n}")]
        hold(sorted(dealt) == sorted(whole), f"{n} shards are the whole")
    by_part = [step for part in ("checks", "times", "tools") for step in steps("x", part)]
    hold(sorted(by_part) == sorted(whole), "the parts are the whole")
    for wrong in (["--shard", "3/2"], ["--shard", "x"], ["x", "none"], ["--speed"]):
        done = subprocess.run([ROOT / "ci/gpu", "--dry-run", *wrong], capture_output=True, text=True)
        hold(done.returncode == 2, f"ci/gpu {wrong} is refused")


def check_pipelines():
    for name in PIPELINES:
        text = (ROOT / name).read_text()
        for script in re.findall(r"\b((?:ci|tests)/[\w./-]+)", text):
            hold((ROOT / script).exists(), f"{name} names {script}")
        for part in re.findall(r"part: \[([\w, ]+)\]", text):
            for word in part.split(", "):
                steps("x", word)
        try:
            import yaml
        except ImportError:
            continue
        hold(isinstance(yaml.safe_load(text), dict), f"{name} is YAML")


GATE = """#!/usr/bin/env python3
# A bench that says what it is told to: times from a list, one a call.
import json, os, sys
if sys.argv[1] == "doctor":
    print("  0: NVIDIA H200" + os.environ.get("SLICE", ""))
elif sys.argv[1] == "bench":
    calls = json.load(open(os.environ["CALLS"]))
    t = calls.pop(0)
    json.dump(calls, open(os.environ["CALLS"], "w"))
    case = json.load(open(os.environ["CASE"]))
    case["cases"][0]["measurement"] = {"seconds": [t * (1 + i / 1000) for i in range(9)]}
    json.dump(case, open(sys.argv[sys.argv.index("--json") + 1], "w"))
else:
    os.execv(os.environ["REAL"], [os.environ["REAL"], *sys.argv[1:]])
"""


def check_gate():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "stub").write_text(GATE)
        (folder / "stub").chmod(0o755)
        sizes = "--hidden 256 --intermediate 128 --experts 4 --top-k 2 --tokens 9".split()
        subprocess.run([MOEPROOF, "predict", *sizes, "--quiet", "--json", folder / "case.json"], check=True)

        def gate(times, slice_name=""):
            (folder / "calls").write_text(json.dumps(times))
            env = dict(os.environ, MOEPROOF=str(folder / "stub"), REAL=MOEPROOF, CALLS=str(folder / "calls"),
                       CASE=str(folder / "case.json"), SLICE=slice_name)
            return subprocess.run([ROOT / "ci/speed_gate", folder / "base.json"], env=env, capture_output=True, text=True)

        hold(gate([1e-4]).returncode == 0 and (folder / "base.json").exists(), "the first run writes the baseline")
        for times, status in (([1e-4, 1e-4], 0), ([2e-4, 1e-4], 0), ([1e-4, 2e-4], 0), ([2e-4, 2e-4], 1), ([5e-5, 5e-5], 0)):
            done = gate(times)
            hold(done.returncode == status, f"batches of {times}: exit {done.returncode} {done.stdout} {done.stderr}")
        hold(gate([2e-4, 2e-4], " MIG 1g.18gb").returncode == 77, "no verdict in a slice")


HOARDER = """#!/usr/bin/env python3
# A check that keeps a megabyte a step, or one in all; its cases take memory that comes back.
import json, os, sys, time
word = lambda name: sys.argv[sys.argv.index(name) + 1]
end, kept = time.monotonic() + float(word("--time-budget")[:-1]), []
while time.monotonic() < end:
    kept.append(bytes(range(256)) * (4096 if os.environ["GROWS"] else 1))
    case = bytes(range(256)) * 40000
    open(word("--resume"), "a").write('{"done":1}\\n')
    time.sleep(0.02)
    del case
    time.sleep(0.02)
json.dump({"summary": {"passed": len(kept)}}, open(word("--json"), "w"))
"""


def check_soak():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "stub").write_text(HOARDER)
        (folder / "stub").chmod(0o755)
        for grows, status in (("", 0), ("1", 1)):
            done = subprocess.run([ROOT / "ci/soak", "0.04", "--program", folder / "stub", "--every", "0.05", "--out", folder / "soak.csv"],
                                  env=dict(os.environ, GROWS=grows), capture_output=True, text=True)
            hold(done.returncode == status and ("it grows" in done.stdout) == bool(grows), f"soak: {done.stdout} {done.stderr}")
            rows = (folder / "soak.csv").read_text().splitlines()
            hold(len(rows) > 10 and int(rows[-1].split(",")[1]) > 5, f"soak: {rows[-1]}")


check_shards()
check_pipelines()
check_soak()
check_gate()
print("\n".join("FAILED " + f for f in failures) or "the CI files hold")
sys.exit(1 if failures else 0)
