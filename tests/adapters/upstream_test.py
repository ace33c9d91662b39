#!/usr/bin/env python3
"""upstream-check over numpy kernels: equal ones, another order (other bits, both right), a rounding that a Semantics explains,
a wrong change, one that dies, one that refuses. Would catch a change that is called equal, explained or right and is not; a wrong
change whose exit code is 0; a report that no program reads; and a README whose example is not what the program prints."""
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

from support import Tests

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
EXAMPLES = SOURCE / "harness/adapters/examples"
BEFORE, AFTER = (f"process:{sys.executable} {EXAMPLES / name}" for name in ("numpy_before.py", "numpy_after.py"))
COMBINE = f"process:{sys.executable} {pathlib.Path(__file__).resolve().parent / 'upstream_kernels.py'}"
LAYER = COMBINE.replace("upstream_kernels", "numpy_kernels")
CARDS = "cuda does, and a process whose kernel runs on a card"
SIZES = "--hidden 512 --intermediate 256 --experts 8 --top-k 2".split()


class Review:
    def __init__(self, words, quiet=True):
        self.done = subprocess.run([PROGRAM, "upstream-check", *words, *(["--quiet", "--json", "-"] if quiet else [])],
                                   capture_output=True, text=True, timeout=120)
        self.status, self.out, self.err = self.done.returncode, self.done.stdout, self.done.stderr
        self.cases = json.loads(self.out)["cases"] if quiet and self.out else []
        self.bits = self.cases[0]["bits"] if self.cases else {}

    def word(self, side):
        record = self.cases[0]["before"] if side == "before" else self.cases[0]
        return record["verdict"]["correctness"]

    def __str__(self):
        return f"exit {self.status}\n{self.out[:3000]}\n{self.err}"


def combined(before, after, *words):
    return Review(["--before", COMBINE, "--after", COMBINE, "--before-kernel", before, "--after-kernel", after, "--op", "combine",
                   "--tokens", "64", *SIZES[:-1], "8", *words])


def check_bits(t):
    same = Review(["--before", BEFORE, "--after", BEFORE.replace(" ", " -B ", 1), "--tokens", "1,9", *SIZES])
    t.hold(same.status == 0 and [c["bits"]["word"] for c in same.cases] == ["same"] * 2, "equal kernels", same)
    t.hold(same.bits.get("elements") == 1024 and same.bits["different"] == 0, "every owned element is compared", same)
    t.hold(same.cases[0]["timing"] == {"word": "no_data", "reason": "before gives no times; " + CARDS}, "a CPU times nothing", same)

    order = ["--before", BEFORE, "--after", AFTER, "--tokens", "64", *SIZES]
    other = Review(order)
    t.hold(other.status == 0 and other.word("before") == other.word("after") == "passed", "another order is right", other)
    t.hold(other.bits.get("word") == "unexplained" and 0 < other.bits["different"] < 65536, "its bits are others", other)
    largest = other.bits["stages"][0]["largest"]
    t.hold(largest["ulp"] > 0 and largest["before"] != largest["after"] and 0 <= largest["expert"] < 8, "and where", other)
    for word in ("unexplained", "differs"):
        t.hold(Review(order + ["--fail-on", word]).status == 1, f"--fail-on {word} stops it")

    # fp32 sums of few products seldom differ from HMMA's: probes tell them apart where nine tokens do not.
    layer = Review(["--before", "emulated", "--after", LAYER, "--after-kernel", "layer_stages", "--tokens", "9", "--hidden", "256",
                    "--intermediate", "128", "--experts", "4", "--top-k", "2"])
    t.hold(layer.status == 0 and layer.bits.get("word") == "unexplained", "a preset that probes ruled out explains nothing", layer)
    known = combined("fused", "rounded")
    t.hold(known.status == 0 and known.bits.get("word") == "explained", "declared roundings explain the bits", known)
    t.hold("combine_order fma -> mul_add" in known.bits.get("reason", ""), "and say which rounding", known)
    found = combined("fused_undeclared", "rounded")
    t.hold(found.bits.get("word") == "explained" and "as moeproof (inferred)" in found.bits["reason"], "roundings are found", found)
    t.hold(combined("fused", "rounded", "--fail-on", "unexplained").status == 0, "explained is not unexplained")


def check_faults(t):
    wrong = combined("fused", "first_slot_lost")
    t.hold(wrong.status == 1 and wrong.word("before") == "passed" and wrong.word("after") == "failed", "a wrong change", wrong)
    loud = Review(["--before", COMBINE, "--after", COMBINE, "--before-kernel", "fused", "--after-kernel", "first_slot_lost", "--op",
                   "combine", "--tokens", "64", *SIZES], quiet=False)
    t.hold("before 1 passed, after 1 failed" in loud.out, "the headline says which side", loud)
    t.hold(wrong.bits.get("word") == "not_compared", "the bits of a wrong kernel need no explanation", wrong)
    replay = wrong.cases[0]["verdict"]["replay"] if wrong.cases else ""
    t.hold(replay in wrong.err and replay, "the replay line is told", wrong)
    again = subprocess.run(replay, shell=True, capture_output=True, text=True)
    t.hold(again.returncode == 1 and "of out are wrong" in again.stdout, "it fails again", again)
    t.hold(combined("first_slot_lost", "fused").status == 1, "a wrong kernel before the change")
    dead = combined("fused", "dies")
    t.hold(dead.status == 1 and dead.word("after") == "crashed" and dead.word("before") == "passed", "a change that dies", dead)
    hello = json.dumps({"protocol": 1, "name": "x", "kernels": [], "refusal": "no card here"})
    absent = Review(["--before", BEFORE, "--after", f"process:echo '{hello}'; cat >/dev/null", *SIZES])
    t.hold(absent.status == 77 and "--after: no card here" in absent.err and absent.word("after") == "skipped", "a machine without", absent)
    none = combined("fused", "refuses")
    t.hold(none.status == 77 and "after: needs more tokens" in none.err, "nothing was compared", none)


def check_speed(t):
    """Times that the children claim: a slow change stops a merge."""
    def timed(before, after, *words):
        return Review(["--before", f"{COMBINE} {before}", "--after", f"{COMBINE} {after}", "--before-kernel", "fused", "--after-kernel",
                       "fused", "--op", "combine", "--tokens", "9", *SIZES, *words])
    slow = timed(1e-4, 1.2e-4)
    t.hold(slow.status == 1 and slow.cases[0]["verdict"]["speed"] == "slow", "a slow change", slow)
    timing = slow.cases[0]["timing"]
    t.hold(timing["batches"] == 2 and abs(timing["ratio"] - 1.2) < 1e-9 and timing["ratio_low"] > 1.19, "measured twice", slow)
    t.hold("slow: 1.200 times the time before" in slow.err, "the reason is told", slow)
    line = re.search(r"replay: (.* upstream-check .*)", slow.err)
    again = line and subprocess.run(line[1], shell=True, capture_output=True, text=True)
    t.hold(again and again.returncode == 1 and "1 passed; all" in again.stdout and "speed 1 slow" in again.stdout, "its line says it again",
           slow if not again else again)
    fast, same = timed(1e-4, 0.8e-4), timed(1e-4, 1e-4 * 1.001)
    t.hold(fast.status == 0 and fast.cases[0]["timing"]["word"] == "fast", "a fast change", fast)
    t.hold(same.status == 0 and same.cases[0]["timing"]["word"] == "same", "the same speed", same)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        report.write_text(fast.out)
        read = subprocess.run([PROGRAM, "compare", str(report), str(report), "--json", "-"], capture_output=True, text=True)
        t.hold("8.0" in read.stdout or "has no model" in read.stderr, "compare reads the report", read)


def check_sides(t):
    """Each side in a layout and tile of its own: kernels that take no other, and the built-in ones."""
    own = ["--before-layout", "normal_mma", "--after-layout", "swap_ab", "--before-tile", "16x128x128", "--after-tile", "32x128x128"]
    pair = combined("normal_form", "swapped_form", *own)
    t.hold(pair.status == 0 and pair.word("before") == pair.word("after") == "passed", "each side gets its own choice", pair)
    t.hold(pair.bits.get("word") == "explained" and "combine_order mul_add -> fma" in pair.bits["reason"], "and bits are explained", pair)
    same = combined("normal_form", "swapped_form", "--layout", "swap_ab", "--tile", "32x128x128")
    t.hold(same.word("before") == "refused" and same.word("after") == "passed", "without it one side refuses", same)

    small = ["--hidden", "256", "--intermediate", "128", "--experts", "4", "--top-k", "2", "--tokens", "20"]
    emulated = ["--before", "emulated", "--after", "emulated"]
    layouts = Review([*emulated, *own[:4], "--tile", "16x128x128", *small])
    case = layouts.cases[0] if layouts.cases else {}
    t.hold(layouts.status == 0 and layouts.bits.get("word") == "explained" and "accumulator hmma -> wgmma" in layouts.bits["reason"],
           "f16 mma against wgmma", layouts)
    seconds = [side["prediction"]["seconds"] for side in (case["before"], case)]
    t.hold(abs(case.get("predicted_ratio", 0) * seconds[0] / seconds[1] - 1) < 1e-9, "the ratio is that of the predictions", layouts)
    t.hold("layout=normal_mma" in case["before"]["case"] and "layout=swap_ab" in case["case"], "each side's case has its layout", case)
    twins = Review([*emulated, "--before-layout", "normal_wgmma", "--after-layout", "swap_ab", "--tile", "64x128x128", *small])
    t.hold(twins.bits.get("word") == "same" and twins.bits["elements"] > 0, "both wgmma layouts are equal to the bit", twins)

    again = Review([*emulated, "--before-layout", "normal_mma", "--before-tile", "16x128x128", "--case", case["case"]])
    t.hold(again.cases and again.cases[0]["before"]["case"] == case["before"]["case"] and again.cases[0]["bits"] == case["bits"],
           "a case line reviews the same pair", again)

    routed = ["--op", "grouped_gemm", "--contract", "routed", *small]
    blocks = Review([*emulated, *own, *routed])
    t.hold(blocks.status == 0 and blocks.bits.get("different", 0) > 0 and blocks.bits["word"] == "explained",
           "blocks of the routed contract follow each side's tile", blocks)
    for words, text in (([*own, "--op", "align", *small], "both sides need the same"),
                        ([*own[:2], "--layout", "both", *small], "several layouts"),
                        (["--before-layout", "swap_ab", "--after-layout", "swap_ab", *small], "same kernel"),
                        (["--before-layout", "sideways", *small], "--before-layout: ")):
        review = Review([*emulated, *words])
        t.hold(review.status == 2 and text in review.err and review.err.count("\n") == 1, f"usage: {text}", review)


def check_usage(t):
    for words, text in ((["--before", BEFORE, *SIZES], "needs --after"), (["--before", BEFORE, "--after", BEFORE, *SIZES], "same kernel"),
                        (["--before", BEFORE, "--after", AFTER], "no problem given")):
        review = Review(words)
        t.hold(review.status == 2 and text in review.err and review.err.count("\n") == 1, f"usage: {text}", review)
    wrong = subprocess.run([PROGRAM, "check", "--fail-on", "unexplained", "--executor", BEFORE, *SIZES], capture_output=True, text=True)
    t.hold(wrong.returncode == 2 and "belongs to upstream-check" in wrong.stderr, "a word of another command", wrong)


def check_reports(t):
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: pathlib.Path(folder) / kind for kind in ("markdown", "junit", "csv", "html", "json")}
        words = [w for kind, path in files.items() for w in ("--" + kind, str(path))]
        shown = Review(["--before", BEFORE, "--after", AFTER, "--tokens", "9", *SIZES, *words], quiet=False)
        t.hold(shown.out == files["markdown"].read_text(), "the block on the terminal is the one for the file", shown)
        t.hold('tests="1" failures="0"' in files["junit"].read_text(), "JUnit has a test a pair", files["junit"].read_text())
        t.hold(len(files["csv"].read_text().splitlines()) == 2 and "<html" in files["html"].read_text(), "CSV and HTML")
        t.hold(json.loads(files["json"].read_text())["summary"]["passed"] == 1, "JSON counts pairs")


def check_derived(t):
    """The one kernel of a process says what a first command leaves out."""
    first = subprocess.run([PROGRAM, "check", "--executor", BEFORE, *SIZES, "--tokens", "9"], capture_output=True, text=True)
    t.hold(first.returncode == 0 and "(kernel masked_gemm: op grouped_gemm, contract masked, quant block128)" in first.stdout,
           "a first command without --op", first)
    given = subprocess.run([PROGRAM, "check", "--executor", BEFORE, *SIZES, "--op", "moe_layer"], capture_output=True, text=True)
    t.hold(given.returncode == 77 and "takes op moe_layer" in given.stderr + given.stdout, "what is given stays", given)
    many = subprocess.run([PROGRAM, "check", "--executor", COMBINE, *SIZES, "--kernel", "fused"], capture_output=True, text=True)
    t.hold(many.returncode == 0 and "(kernel fused: op combine)" in many.stdout, "a kernel that is named says its op", many)


def check_readme(t):
    """The block of the README is what its commands print, in a folder that has nothing but what they copy."""
    text = (SOURCE / "README.md").read_text()
    block = re.search(r"<!-- example: tests/adapters/upstream_test.py -->\n```\n\$ (cp .*?)\n\$ (.*?)\n```\n(.*?)\n<!-- end of example -->", text, re.S)
    t.hold(block, "the README has its example")
    if not block:
        return
    command = block[2].replace("\\\n", " ").replace("build/moeproof", shlex.quote(str(pathlib.Path(PROGRAM).resolve()))).replace("python3", shlex.quote(sys.executable))
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "harness").symlink_to((SOURCE / "harness").resolve())
        done = subprocess.run(f"{block[1]} && {command}", shell=True, capture_output=True, text=True, cwd=folder)
    printed = done.stdout.replace(sys.executable, "python3").strip()
    shown = "\n".join(line[2:] if line.startswith("> ") else line.lstrip(">") for line in block[3].strip().split("\n"))
    t.hold(printed == shown.strip(), "the README shows what it prints", printed)


def main():
    t = Tests()
    check_bits(t)
    check_faults(t)
    check_speed(t)
    check_sides(t)
    check_usage(t)
    check_reports(t)
    check_derived(t)
    check_readme(t)
    t.finish()


main()
