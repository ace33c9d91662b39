#!/usr/bin/env python3
"""The emulated SM counts passes of shared memory and bank conflicts as the silicon does: both GEMMs of a layer beside what Nsight
Compute read off an H200 (fixtures/measured/h200_ncu_shared.csv; DeepSeek-V3 TP8, 16 tokens, zipf:1.2, swap_ab). Would catch a bank,
a group of lanes or an access that is counted otherwise.

usage: ncu_shared.py MOEPROOF SOURCE_ROOT [LAYOUT...]
"""
import csv
import json
import subprocess
import sys

moeproof, root, *layouts = sys.argv[1:]
silicon = {}
with open(f"{root}/fixtures/measured/h200_ncu_shared.csv", encoding="utf-8") as file:
    for row in csv.DictReader(file):
        if row["stage"].startswith("gemm"):
            passes, conflicts = silicon.get(row["layout"], (0, 0))
            silicon[row["layout"]] = (passes + int(row["shared_load_wavefronts"]) + int(row["shared_store_wavefronts"]),
                                      conflicts + int(row["shared_wavefronts"]) - int(row["shared_wavefronts_ideal"]))
for layout in layouts or ["swap_ab"]:
    said = subprocess.run([moeproof, "check", "--executor", "emulated", "--model", "deepseek-v3", "--tp", "8", "--tokens", "16", "--load",
                           "zipf:1.2", "--layout", layout, "--quiet", "--json", "-"], capture_output=True, text=True, check=True).stdout
    counts = json.loads(said)["cases"][0]["counts"]
    counted = (counts["shared_wavefronts"], counts["bank_conflicts"])
    print(f"{layout}: emulated {counted}, ncu {silicon[layout]}")
    # normal_mma's warps read one word more a CTA on the card than its source says
    allowed = 264 if layout == "normal_mma" else 0
    assert 0 <= silicon[layout][0] - counted[0] <= allowed and counted[1] == silicon[layout][1]
