#!/usr/bin/env python3
"""The lines of harness/adapters/README.md, played by a child in plain Python against the built program: its worked example,
and a child with one fault each. Would catch a fault that passes, a fault that ends moeproof, and a page that is not true."""
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

from support import SIZES, Outcome, Tests

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
CHILD = SOURCE / "tests/adapters/plain_child.py"
TOPK = SIZES + ["--op", "topk", "--tokens", "9", "--case-timeout", "5s"]


def child(fault, words=TOPK):
    with tempfile.TemporaryDirectory() as folder:  # room for one file of the child's own
        return Outcome(PROGRAM, f"{sys.executable} {CHILD} {fault} {folder}/own", words)


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
    ("refuse-late-mute", "refused", "refused without a reason"),
    ("refuse-mute", "refused", "refused without a reason"),
    ("odd", "refused", "only even tokens"),
    ("report", "failed", "a stream was left unsynchronised"),
    ("no-file", "failed", "/no/such/file"),
    ("behind", "failed", "out of bounds: 1 bytes behind the end of 'topk_weights'"),
    ("front", "failed", "out of bounds: 1 bytes in front of 'topk_weights'"),
    ("input", "failed", "changed its input 'router_logits'"),
    ("late-output", "failed", "wrote into 'topk_weights' after its answer"),
    ("second-run", "failed", "two runs gave different bytes"),
    ("unwritten", "failed", "routing of token 8"),
    ("shrink", "passed", ""),
    ("another-case", "failed", "routing of token 0"),
    ("draws", "failed", "changed its input 'router_logits'"),
    ("deep", "crashed", "more than 32 levels"),
    ("deep-error", "crashed", "more than 32 levels"),
    ("bad-input", "crashed", "answered 'run' with the error kind 'bad_input', where kernel or failure is due; it says no such option"),
    ("bad-open", "crashed", "answered 'open' with the error kind 'bad_input', where kernel or failure is due; it says no such case"),
    ("error-kind", "crashed", "answered 'run' with the error kind 'oops', where kernel or failure is due; it says tile"),
    ("error-list", "crashed", """answered 'run' with 'error': [["kernel"]], where a text is due"""),
    ("message-list", "crashed", """answered 'run' with 'message': [["a"],"b"], where a text is due"""),
    ("no-message", "crashed", "the kernel raised (without saying what)"),
    ("refuse-number", "crashed", "answered 'run' with 'refusal': 7, where a text is due"),
    ("empty-report", "failed", "the kernel reports a fault and does not say which"),
    ("counts", "crashed", "wrong counts"),
    ("fifo", "failed", "not a file"),
    ("own", "passed", ""),
    ("own-behind", "failed", "out of bounds: 1 bytes behind the end of 'topk_weights'"),
    ("huge", "failed", "where at most"),
    ("twice-bind", "crashed", "answered more than once: '{}'"),
    ("twice-run", "crashed", "answered more than once: '{}'"),
    ("second-refusal", "crashed", "ran the case and then refused it: not again"),
    ("spam", "crashed", "ended by signal 9"),
    ("ids", "passed", ""),
    ("late", "crashed", "answered 'run', request 4, with the id 3"),
    ("no-id", "crashed", "answered 'open', request 2, with no id"),
    ("another-id", "crashed", "answered 'open', request 2, with the id 3"),
    ("no-gpu", "skipped", r"no\x0aGPU \x1b[31mhere"),
]


def ends(pids):
    """None of them runs a while later."""
    alive = lambda pid: pathlib.Path(f"/proc/{pid}/stat").exists() and " Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    for _ in range(100):
        if not any(alive(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def orphans(t):
    """A hung child ends with the program that started it, however that ends; what the child started ends with it where a signal
    can be answered."""
    for end in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        with tempfile.TemporaryDirectory() as folder:
            family = pathlib.Path(folder) / "family"
            program = subprocess.Popen([PROGRAM, "check", "--executor", f"process:{sys.executable} {CHILD} family {family}", *TOPK[:-2]],
                                       stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            for _ in range(200):
                if family.exists() and len(family.read_text().split()) == 2:
                    break
                time.sleep(0.05)
            pids = family.read_text().split()
            program.send_signal(end)
            program.wait()
            if end == signal.SIGKILL:  # nobody can end the grandchild: it is ended here
                os.kill(int(pids.pop()), signal.SIGKILL)
            t.hold(ends(pids), f"a hung child outlives a program that ended by {end.name}", pids)


def daemons(t):
    """What a child started ends with it, though it left its process group and session and its parent is gone: behind a pass, behind
    a hang, and where a signal ends the program. One in the environment of another moeproof goes on."""
    other = subprocess.Popen(["sleep", "1000"], env={**os.environ, "MOEPROOF_CHILD": ";moeproof-child-1.1;"})
    for more, end in (([], None), (["hang"], None), (["hang"], signal.SIGTERM)):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder) / "daemon"
            command = f"process:{sys.executable} {CHILD} daemon {place} {' '.join(more)}"
            words = TOPK[:-1] + ["2s" if more and not end else "60s"]
            program = subprocess.Popen([PROGRAM, "check", "--executor", command, *words], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            if end:
                while not (place.exists() and len(place.read_text().split()) == 2):
                    time.sleep(0.02)
                program.send_signal(end)
            status = program.wait()
            t.hold(end or status == (1 if more else 0), f"daemon {more}: exit {status}")
            t.hold(ends(place.read_text().split()[:1]), f"a process of its own session outlives the child {more} {end}")
    t.hold(other.poll() is None, "another program's process was ended")
    other.kill()
    other.wait()


def last_case_lost(t):
    """A child that dies and does not come up again costs its cases a verdict, not the run its report."""
    both = child("once", SIZES + ["--op", "topk", "--tokens", "9,10,11"])
    t.hold([c["verdict"]["correctness"] for c in both.cases] == ["crashed"] * 3 and both.status == 1, "no second child", both)
    t.hold(len(both.cases) == 3 and "started again behind a loss" in both.cases[1]["verdict"]["reason"] and
           "not a second time" in both.cases[2]["verdict"]["reason"], "why there is no second child", both)


def main():
    t = Tests()
    orphans(t)
    daemons(t)
    last_case_lost(t)
    cut = child("cut")  # before or behind the reading: never the end of moeproof
    t.hold(cut.word in ("passed", "failed"), "an outputs file that is cut short", cut)
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
    # A case that was lost or refused before it was open names the kernel that did it, and replays.
    for fault, word, status in (("open-crash", "crashed", 1), ("odd", "refused", 77)):
        line = child(fault).verdict["replay"]
        again = subprocess.run(line, shell=True, capture_output=True, text=True)
        t.hold("kernel=topk " in line and again.returncode == status and f"{word}: " in again.stdout, f"the replay line of {fault}", again)
    unknown = child("none", SIZES + ["--op", "combine", "--tokens", "9"])
    t.expect(unknown, "refused", "no kernel of the process takes op combine", "no kernel")
    t.hold("kernel=topk " in unknown.verdict["replay"] and "kernel=topk " in unknown.cases[0]["case"], "the kernel that does not take it",
           unknown)
    begun = child("half-hello", TOPK[:-1] + ["1s"])
    t.hold(begun.status == 2 and "no answer within 1 s (3000 bytes came, without a line end)" in begun.err, "half an answer", begun)
    for fault, words in (("bad-outputs", "outputs: 'nope' is none of topk_ids, topk_weights"), ("twins", "'protocol' stands twice"),
                         ("bare-refusal", r"the worker says no 'protocol', this program speaks 1; the worker refuses: no GPU\x0ahere"),
                         ("version", "speaks protocol 2, this program speaks 1"), ("bad-hello", "did you mean 'topk'"),
                         ("long-hello", "wrote 16 MB without a line end"), ("long-word", "is none of topk, align"),
                         ("mute", "ended with exit status 1; it wrote: no module named torch"),
                         ("silent", "ended with exit status 0 before it answered 'hello': does its file call serve()?")):
        broken = child(fault)
        t.hold(broken.status == 2 and words in broken.err and broken.err.count("\n") == 1 and len(broken.err) < 1000, fault, broken)
    lost = child("no-file")
    t.hold(lost.verdict.get("fault_class") == "an outputs file that breaks the protocol", "unreadable outputs are called that", lost)
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "kernel.py"
        script.write_text("import os\ndef f(:\n")
        broken = Outcome(PROGRAM, f"{sys.executable} {script}", TOPK)
        t.hold(broken.status == 2 and f'SyntaxError' in broken.err and f'(File "{script}", line 2)' in broken.err, "where a file is broken", broken)
        script.write_text(f"import sys\nsys.path[:] = [{str(SOURCE / 'harness/adapters')!r}] + [p for p in sys.path if 'packages' not in p]\n"
                          "import moeproof_executor\n")
        bare = Outcome(PROGRAM, f"{sys.executable} -S {script}", TOPK)
        t.hold(bare.status == 2 and f"{sys.executable} has no numpy" in bare.err, "which Python has no numpy", bare)
        script.write_text("import no_such_module\n")
        bare = Outcome(PROGRAM, f"{sys.executable} {script}", TOPK)
        t.hold(f"the Python that '{sys.executable}' starts does not have it" in bare.err, "a module that is not there", bare)
        script.write_text("import moeproof_executor\n")
        alone = Outcome(PROGRAM, f"{sys.executable} {script}", TOPK)
        t.hold("copy harness/adapters/moeproof_executor.py beside that file" in alone.err, "the adapter is not there", alone)
    none = Outcome(PROGRAM, "no-such-program", TOPK)
    t.hold(none.status == 2 and "exit status 127" in none.err, "a missing program", none)
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
