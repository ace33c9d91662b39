#!/usr/bin/env python3
"""The lines of harness/adapters/README.md, played by a child in plain Python against the built program: its worked example,
and a child with one fault each. Would catch a fault that passes, a fault that ends moeproof, and a page that is not true."""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

from support import SIZES, Outcome, Tests

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
CHILD = SOURCE / "tests/adapters/plain_child.py"
TOPK = SIZES + ["--op", "topk", "--tokens", "9", "--case-timeout", "5s"]


def child(fault, words=TOPK):
    return Outcome(PROGRAM, f"{sys.executable} {CHILD} {fault}", words)


FAULTS = [  # fault, verdict, words of the reason
    ("none", "passed", ""),
    ("crash", "crashed", "ended by signal 11"),
    ("exit", "crashed", "ended with exit status 5; it wrote: out of luck"),
    ("child-hang", "crashed", "ended by signal 9"),
    ("close", "crashed", "closed its standard output"),
    ("garbage", "crashed", "answered 'loading weights ...' to 'run', which is no JSON object"),
    ("number", "crashed", "answered '42'"),
    ("raise", "crashed", "the kernel raised ValueError: no such tile"),
    ("type", "crashed", "wrong type"),
    ("refuse-late", "refused", "not on Mondays"),
    ("odd", "refused", "only even tokens"),
    ("report", "failed", "a stream was left unsynchronised"),
    ("no-file", "failed", "/no/such/file"),
    ("behind", "failed", "out of bounds: 1 bytes behind the end of 'topk_weights'"),
    ("front", "failed", "out of bounds: 1 bytes in front of 'topk_weights'"),
    ("input", "failed", "changed its input 'router_logits'"),
    ("second-run", "failed", "two runs gave different bytes"),
    ("unwritten", "failed", "routing of token 8"),
    ("shrink", "passed", ""),
    ("no-gpu", "skipped", "no GPU here"),
]


def orphans(t):
    """A hung child ends with the program that started it, however that ends."""
    program = subprocess.Popen([PROGRAM, "check", "--executor", f"process:{sys.executable} {CHILD} hang", *TOPK[:-2]],
                               stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    program.stderr.readline()  # "running: ..."
    listed = pathlib.Path(f"/proc/{program.pid}/task/{program.pid}/children")
    children = listed.read_text().split() if listed.exists() else ["the kernel does not list them"]
    t.hold(len(children) == 1, "one child runs", children)
    program.kill()
    program.wait()
    alive = lambda pid: pathlib.Path(f"/proc/{pid}/stat").exists() and " Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    for _ in range(100):
        if not any(alive(pid) for pid in children):
            return
        time.sleep(0.05)
    t.hold(False, "a hung child outlives its program", children)


def main():
    t = Tests()
    orphans(t)
    for fault, word, reason in FAULTS:
        t.expect(child(fault), word, reason, fault)
    hung = child("hang", TOPK[:-1] + ["1s"])
    t.expect(hung, "timed_out", "no answer within 1 s", "hang")
    raised = child("raise")
    t.hold("Traceback: one\nTraceback: two" in raised.verdict.get("log", ""), "standard error is kept", raised)
    # A new child for the next case: both tokens get their own verdict.
    both = child("crash", SIZES + ["--op", "topk", "--tokens", "9,10"])
    t.hold([c["verdict"]["correctness"] for c in both.cases] == ["crashed"] * 2, "the child is replaced", both)
    # The replay line repeats the verdict in a shell, as a user would paste it.
    again = subprocess.run(raised.verdict["replay"], shell=True, capture_output=True, text=True)
    t.hold(again.returncode == 1 and "no such tile" in again.stdout, "a replay line replays", again)
    for fault, words in (("version", "speaks protocol 2, this program speaks 1"), ("bad-hello", "did you mean 'topk'"),
                         ("mute", "does not answer 'hello': the worker process ended with exit status 1; it wrote: no module")):
        broken = child(fault)
        t.hold(broken.status == 3 and words in broken.err and broken.err.count("\n") == 1, fault, broken)
    none = Outcome(PROGRAM, "no-such-program", TOPK)
    t.hold(none.status == 3 and "exit status 127" in none.err, "a missing program", none)
    # One protocol: the program's own worker is as good a child as any.
    own = Outcome(PROGRAM, f"{shlex.quote(PROGRAM)} worker reference 1 132 1 -", SIZES + ["--tokens", "9"])
    t.expect(own, "passed", "", "moeproof's own worker")
    with tempfile.TemporaryDirectory() as folder:
        example = pathlib.Path(folder) / "example.py"
        text = (SOURCE / "harness/adapters/README.md").read_text()
        example.write_text(re.search(r"```python\n(.*?)```", text, re.S).group(1))
        combine = Outcome(PROGRAM, f"{sys.executable} {example}", SIZES + ["--op", "combine", "--tokens", "0,9"])
        t.hold([c["verdict"]["correctness"] for c in combine.cases] == ["passed"] * 2, "the README's example passes", combine)
        example.write_text(example.read_text().replace("weights[p] *", "weights[p] * 1.02 *"))
        wrong = Outcome(PROGRAM, f"{sys.executable} {example}", SIZES + ["--op", "combine", "--tokens", "9"])
        t.expect(wrong, "failed", "of out are wrong", "the README's example, 2 % off")
    t.finish()


main()
