#!/usr/bin/env python3
"""The README's figures are today's: the predictions of its first table, and that every measured layer is slower than predicted.
Would catch a model or a record that changed while the README stayed.

usage: readme_figures.py SOURCE_ROOT MOEPROOF"""
import csv
import json
import pathlib
import re
import subprocess
import sys


def first_table(text, moeproof):
    """Lines of the first block that do not hold what `predict` says of the same options."""
    command, block = re.search(r"\$ build/moeproof check (.*)\n((?:.*\n)*?)```", text).groups()
    done = subprocess.run([moeproof, "predict", *command.split(), "--json", "-"], capture_output=True, text=True, check=True)
    cases = json.loads(done.stdout)["cases"]
    for case in cases:
        layout = re.search(r"layout=(\w+)", case["case"]).group(1)
        p = case["prediction"]
        due = [f"{p['seconds'] * 1e6:.1f} us", f"{p['uncertainty'] * 100:.0f} %", f"{p['tensor_active'] * 100:.0f} %",
               f"{p['useful_flop'] * 100:.0f} %"]
        if layout == "swap_ab":
            due.insert(2, f"{cases[0]['prediction']['seconds'] / p['seconds']:.2f}x")
        line = next((x for x in block.splitlines() if x.split()[:1] == [layout]), "")
        if not re.search(".*".join(re.escape(x) for x in due), line):
            yield f"README.md: '{line.strip()}' is no longer what predict says: {', '.join(due)}"


def main():
    root, moeproof = pathlib.Path(sys.argv[1]), sys.argv[2]
    text = (root / "README.md").read_text(encoding="utf-8")
    found = list(first_table(text, moeproof))
    layers = [r for path in sorted((root / "fixtures/measured").glob("h200_layer_*.csv"))
              for r in csv.DictReader(path.open(encoding="utf-8"))]
    late = sum(float(r["measured_s"]) > float(r["predicted_s"]) for r in layers)
    if "all slower than predicted" in text and late != len(layers):
        found.append(f"README.md: {late} of {len(layers)} layers are slower than predicted, not all")
    print("\n".join(found) or f"the first table and {len(layers)} layers are as the README says")
    return 1 if found else 0


sys.exit(main())
