#!/usr/bin/env python3
"""Planted faults on a card: 500 launches of each against the right bytes (every second one on as few SMs as the emulated machine
has, so that a CTA gets several tiles), the same with pauses at every synchronisation, and what compute-sanitizer's tools say. Writes one JSON file that `moeproof_faulty table --card FILE` reads.

usage: on_card.py PROGRAM OUT.json [--faults A,B] [--launches N] [--seconds S] [--tools memcheck,synccheck,racecheck] [--budget S]
PROGRAM is build/moeproof_faulty_card. A fault that says nothing for S seconds hangs: its process is killed, the next fault
gets a new one. --budget ends the whole after so many seconds; what was not reached stays empty. --faults runs these alone
and keeps what OUT.json says of the others.
"""
import argparse
import collections
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import time


def run_list(command, faults, patience, until):
    """Yields (fault, answer or None, the process's other lines) for each fault; None = it hung or died without an answer."""
    left = list(faults)
    while left and time.monotonic() < until:
        child = subprocess.Popen(command + ["--fault", ",".join(left)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 start_new_session=True)
        select = selectors.DefaultSelector()
        select.register(child.stdout, selectors.EVENT_READ)
        os.set_blocking(child.stdout.fileno(), False)
        current, other, text, why = None, [], b"", "ended"
        patient_until = time.monotonic() + patience + 10   # the first fault waits for the driver
        while True:
            if time.monotonic() > min(patient_until, until):
                why = "hangs"
                break
            if not select.select(0.5):
                continue
            piece = child.stdout.read()
            if piece is None:
                continue
            if not piece:
                break
            text += piece
            *lines, text = text.split(b"\n")
            for line in (raw.decode(errors="replace") for raw in lines):
                if not line.startswith("{"):
                    other.append(line)
                    continue
                answer = json.loads(line)
                if "begin" in answer:
                    if current is None:
                        other = []
                    current, patient_until = answer["begin"], time.monotonic() + patience
                else:
                    yield current, answer, other
                    left.remove(current)
                    current, other = None, []
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if current is not None:
            yield current, {"died": why}, other
            left.remove(current)
        elif why == "hangs" or child.returncode not in (0, 3):
            if left:
                yield left[0], {"died": f"no answer (exit {child.returncode})"}, other
                left.remove(left[0])


def launches_word(answer):
    if "died" in answer:
        return answer["died"]
    said = "; ".join(answer["said"])
    word = f"{answer['wrong']} of {answer['launches']} wrong"
    return word + (f" ({said[:120]})" if said else "")


def sanitizer_word(tool, answer, lines):
    errors = collections.Counter(re.sub(r"^=+\s*(Error: |Warning: )?", "", line)[:60].strip() for line in lines
                                 if re.match(r"=+ +(Error|Warning|Invalid|Barrier|Uninit|Race|Divergent|.*hazard)", line)
                                 or "Potential" in line or "error detected" in line.lower())
    word = "; ".join(f"{text} x{count}" for text, count in errors.most_common(1))
    if "died" in answer:
        return (word + ", " if word else "") + answer["died"]
    return word or "nothing"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("out")
    parser.add_argument("--faults", default="")
    parser.add_argument("--launches", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--tools", default="memcheck,synccheck,racecheck")
    parser.add_argument("--budget", type=float, default=340)
    options = parser.parse_args()
    began = time.monotonic()
    until = began + options.budget
    listed = subprocess.run([options.program, "list"], capture_output=True, text=True, check=True).stdout.split("\n\n")[0]
    faults = [line.split()[0] for line in listed.splitlines()]
    result = {"schema": 1, "faults": {fault: {} for fault in faults}, "raw": {}}
    if options.faults:
        unknown = set(options.faults.split(",")) - set(faults)
        if unknown:
            parser.error(f"no fault {', '.join(sorted(unknown))}; '{options.program} list' prints them")
        faults = options.faults.split(",")
        if os.path.exists(options.out):
            with open(options.out, encoding="utf-8") as file:
                earlier = json.load(file)
            for part in ("faults", "raw"):
                result[part].update({fault: said for fault, said in earlier[part].items() if fault not in faults})

    def keep():
        result["seconds"] = round(time.monotonic() - began, 1)
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)

    hang = set()
    for key, extra in (("launches", []), ("delayed", ["--delays", "1"])):
        command = [options.program, "launch", "--launches", str(options.launches if key == "launches" else 200), *extra]
        for fault, answer, _ in run_list(command, [f for f in faults if f not in hang], options.seconds, until):
            result["faults"][fault][key] = launches_word(answer)
            result["raw"].setdefault(fault, {})[key] = answer
            if "died" in answer:
                hang.add(fault)
            keep()
    judged = ["-"] + faults   # the right kernels first
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    for tool in options.tools.split(",") if os.path.exists(sanitizer) else []:
        command = [sanitizer, "--tool", tool, "--print-limit", "20", options.program, "launch", "--launches", "2"]
        for fault, answer, lines in run_list(command, [f for f in judged if f not in hang], 3 * options.seconds, until):
            result["faults"].setdefault(fault, {})[tool] = sanitizer_word(tool, answer, lines)
            result["raw"].setdefault(fault, {})[tool] = {"answer": answer, "lines": lines[:6]}
            keep()
    keep()
    print(f"{len(faults)} faults in {result['seconds']} s: {options.out}")


main()
