#!/usr/bin/env python3
"""Completion and manual page of the built program: bash completes as a user sees it, every option of every command stands in all
three scripts and in the page, and shells and groff that are here find nothing to complain about. Would catch an option that a
table lost, a quote that ends a script early, a value that is offered and then refused.

usage: completion.py MOEPROOF"""
import re
import shutil
import subprocess
import sys

MOEPROOF = sys.argv[1]
failures = []


def hold(kept, what):
    kept or failures.append(what)


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, **more)


def text(*words):
    done = run(MOEPROOF, *words)
    hold(done.returncode == 0 and not done.stderr, f"{words}: {done.returncode} {done.stderr}")
    return done.stdout


def bash_offers(*line):
    """What bash would offer for the last of these words."""
    script = text("completion", "bash") + 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _moeproof; printf "%s\\n" "${COMPREPLY[@]}"'
    done = run("bash", "-uc", script, "bash", "moeproof", *line)
    hold(not done.stderr, f"bash: {done.stderr}")
    return done.stdout.split()


def options():
    """Options of each command, as its help lists them."""
    commands = re.findall(r"^  ([a-z][a-z-]*) +\S", text("--help"), re.M)
    commands = [c for c in commands if c != "help"]
    return {c: re.findall(r"^  --([a-z-]+)", text(c, "--help"), re.M) for c in commands}


def main():
    known = options()
    hold(len(known) >= 15 and len(known["check"]) > 30, f"commands {list(known)}")
    scripts = {shell: text("completion", shell) for shell in ("bash", "zsh", "fish")}
    page = text("man")
    for command, names in known.items():
        offered = bash_offers(command, "--")
        hold(set(offered) == {f"--{n}" for n in names} | {"--help"}, f"bash: options of {command}")
        for name in names:
            hold(re.search(rf"from {command}' -l {name} ", scripts["fish"]), f"fish: {command} --{name}")
            zsh = scripts["zsh"].split(f"    {command})\n", 1)[1].split(";;", 1)[0]
            hold(f"'--{name}[" in zsh, f"zsh: {command} --{name}")
            hold("--" + name in page.replace("\\-", "-"), f"man: --{name}")
    hold(bash_offers("pre") == ["predict"], "bash: a command")
    hold("swap_ab" in bash_offers("check", "--layout", ""), "bash: a layout")
    hold("deepseek-v3" in bash_offers("predict", "--model", "deepseek-v"), "bash: a model")
    for option, command in (("layout", "predict"), ("op", "predict"), ("quant", "predict"), ("data", "predict"), ("hardware", "predict"),
                            ("model", "predict"), ("semantics", "check")):
        for value in bash_offers(command, "--" + option, ""):
            if value.startswith(("--", "file")) or "." in value:
                continue
            done = run(MOEPROOF, command, "--" + option, value, "--tokens", "x")  # refused for its tokens, not for this value
            hold("--tokens" in done.stderr, f"--{option} {value} is offered: {done.stderr.strip()}")
    for shell in ("zsh", "fish"):
        if shutil.which(shell):
            done = run(shell, "-n", "/dev/stdin", input=scripts[shell])
            hold(done.returncode == 0 and not done.stderr, f"{shell}: {done.stderr}")
    if shutil.which("groff"):
        done = run("groff", "-man", "-ww", "-Tutf8", input=page)
        hold(done.returncode == 0 and not done.stderr, f"groff: {done.stderr}")
    hold(run(MOEPROOF, "completion", "tcsh").returncode == 2, "an unknown shell is refused")
    print("\n".join("FAILED " + f for f in failures) or f"{len(known)} commands complete")
    return 1 if failures else 0


sys.exit(main())
