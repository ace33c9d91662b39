"""What the tests of the process executor share: one moeproof check, its cases, and what they should say."""
import json
import subprocess
import sys

SIZES = "--hidden 256 --intermediate 128 --experts 4 --top-k 2".split()


class Outcome:
    def __init__(self, program, command, words):
        done = subprocess.run([program, "check", "--executor", "process:" + command, "--quiet", "--json", "-", *words],
                              capture_output=True, text=True, timeout=120)
        self.status, self.err = done.returncode, done.stderr
        self.cases = json.loads(done.stdout)["cases"] if done.stdout else []
        self.verdict = self.cases[0]["verdict"] if self.cases else {}
        self.word = self.verdict.get("correctness")
        self.reason = self.verdict.get("reason", "")

    def __str__(self):
        return f"exit {self.status}, {json.dumps(self.verdict)}\n{self.err}"


class Tests:
    """Counts what does not hold; finish() ends the program."""

    def __init__(self):
        self.count, self.wrong = 0, 0

    def hold(self, condition, what, outcome=""):
        self.count += 1
        if not condition:
            self.wrong += 1
            print(f"FAILED: {what}\n  {outcome}")

    def expect(self, outcome, word, reason, what):
        """The first case has this verdict for this reason, and its replay line repeats it."""
        self.hold(outcome.word == word and reason in outcome.reason, f"{what}: want {word}, '{reason}'", outcome)

    def finish(self):
        print(f"{self.count} checks, {self.wrong} wrong")
        sys.exit(1 if self.wrong else 0)
