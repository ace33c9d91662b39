#!/usr/bin/env python3
"""moeproof_faulty behind `check --executor process:`: a planted fault fails its case, and a case whose kernel carries no fault is
refused. Would catch a fault that is in force in no kernel of the case, and so passes."""
import subprocess
import sys

MOEPROOF, FAULTY = sys.argv[1:3]
LAYER = "--hidden 512 --intermediate 256 --experts 8 --top-k 2 --tokens 60 --layout swap_ab".split()


def check(fault, *words):
    done = subprocess.run([MOEPROOF, "check", "--quiet", "--executor", f"process:{FAULTY} --fault {fault}", *LAYER, *words],
                          capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout + done.stderr


found = []
for fault, sentence in [("M06", "cta-race"), ("M51", "uninitialised-smem")]:
    code, text = check(fault, "--tile", "16x128x128")
    if code != 1 or sentence not in text:
        found.append(f"{fault} in a planted tile: exit {code}, 1 and {sentence} are due\n{text}")
code, text = check("M06", "--tile", "8x64x128")
if code != 2 or "no fault is planted in swap_ab_m8_n64_block" not in text:
    found.append(f"M06 in a tile without faults: exit {code}, 2 and a refusal are due\n{text}")
print("\n".join(found) or "2 faults failed their case, a tile without faults was refused")
sys.exit(1 if found else 0)
