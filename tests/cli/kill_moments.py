#!/usr/bin/env python3
"""A long check that is killed (SIGKILL) at random moments: what was finished stays finished, word for word, the file is readable after
every kill, and the run that goes on ends with the verdicts of one that nobody killed. Would catch a record that is written in two
pieces, a tail that is read as a case, a case that is done twice or lost.

usage: kill_moments.py MOEPROOF [KILLS = 12 [SEED = 7]]"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

MOEPROOF, KILLS, SEED = sys.argv[1], *(int(word) for word in (sys.argv[2:4] + ["12", "7"][len(sys.argv) - 2:])[:2])
WORDS = ["check", "--executor", "reference", "--allow", "mistrusted", "--quiet", "--judge-budget", "1e6", "--seed", "5"]

WORDS_OF_VERDICTS = ("passed", "failed", "mistrusted", "refused", "skipped", "crashed", "timed_out")


def finished(journal):
    """Records by number, of whole lines."""
    done = {}
    if not journal.exists():
        return done
    for line in journal.read_bytes().split(b"\n")[:-1]:
        entry = json.loads(line)
        if "done" in entry:
            assert entry["done"] not in done, f"case {entry['done']} is done twice"
            del entry["record"]["elapsed_s"]
            done[entry["done"]] = entry["record"]
    return done


def main():
    moments = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        journal = pathlib.Path(folder, "j.jsonl")
        before, grown, patience = {}, 0, 0.3
        for kill in range(KILLS):
            run = subprocess.Popen([MOEPROOF, *WORDS, "--trials", "100000", "--resume", journal], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
            time.sleep(moments.uniform(0.01, patience))
            run.kill()
            run.wait()
            after = finished(journal)
            lost = [n for n in before if after.get(n) != before[n]]
            assert not lost, f"kill {kill}: cases {lost} are lost or changed"
            grown += len(after) > len(before)
            if len(after) == len(before):   # a loaded machine: live longer
                patience = min(2 * patience, 5)
            before = after
            if kill % 10 == 0 and journal.exists():
                read = subprocess.run([MOEPROOF, "report", journal, "--json", "-", "--allow", "mistrusted"], capture_output=True, text=True)
                told = json.loads(read.stdout)["cases"]
                assert read.returncode in (0, 1) and len(told) == len(after), f"kill {kill}: {read.stderr}"
        assert before and grown > 0, "no run lived long enough to finish a case"
        trials = str(max(len(before) - 60, 1))   # the corpus comes first
        results, counts = [], []
        for more in (["--resume", str(journal)], []):
            done = subprocess.run([MOEPROOF, *WORDS, "--trials", trials, "--json", "-", *more], capture_output=True, text=True)
            assert done.returncode in (0, 1), done.stderr
            told = json.loads(done.stdout)
            results.append({c["case"]: c["verdict"] for c in told["cases"]})
            counts.append(sum(told["summary"][word] for word in WORDS_OF_VERDICTS))
        killed, whole = results
        assert counts[0] == counts[1], f"{counts[0]} cases with kills, {counts[1]} without"
        # A case in which the program ended twice is given up, and says so: two kills may have met the same one.
        twice = [c for c, v in killed.items() if v.get("reason", "").startswith("the program itself ended twice")]
        # Of more than 400 cases those that passed are counted, not listed.
        passed = {"correctness": "passed"}
        other = [c for c in {**killed, **whole}
                 if c not in twice and killed.get(c, passed)["correctness"] != whole.get(c, passed)["correctness"]]
        assert not other, f"other verdicts than without kills: {other}"
    print(f"{KILLS} kills, {len(before)} finished cases, none lost; {counts[1] - len(twice)} verdicts as without kills, "
          f"{len(twice)} cases that two kills met")


main()
