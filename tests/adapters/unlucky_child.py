"""A child that takes op topk and meets, at every even number of tokens, another misfortune: what contained.py plays against moeproof.
Odd numbers of tokens are answered rightly. A sticky error stays until the process ends, as a card's does."""
import ctypes
import json
import math
import mmap
import os
import resource
import signal
import struct
import sys
import time


def tensors(path):
    with open(path, "r+b") as file:
        memory = memoryview(mmap.mmap(file.fileno(), 0))
    length = struct.unpack("<Q", memory[:8])[0]
    header = json.loads(bytes(memory[8:8 + length]))
    header.pop("__metadata__", None)
    at = {name: [8 + length + offset for offset in t["data_offsets"]] for name, t in header.items()}
    return {name: memory[begin:end].cast("i" if name == "topk_ids" else "f") for name, (begin, end) in at.items()}


def topk(inputs, outputs):
    for token in range(problem["tokens"]):
        row = inputs["router_logits"][token * problem["experts"]:(token + 1) * problem["experts"]]
        best = sorted(range(len(row)), key=lambda e: (-row[e], e))[:problem["top_k"]]
        total = sum(math.exp(row[e]) for e in best)
        for slot, e in enumerate(best):
            outputs["topk_ids"][token * problem["top_k"] + slot] = e
            outputs["topk_weights"][token * problem["top_k"] + slot] = math.exp(row[e]) / total


def exhaust():
    """All memory that the process may have."""
    resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))
    kept = []
    while True:
        kept.append(bytearray(128 << 20))


def misfortune(kind):
    if kind == "crash":
        ctypes.string_at(0)
    if kind == "abort":
        os.abort()
    if kind == "killed":   # as the kernel does it when memory ends
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "exit":
        os._exit(7)
    if kind == "hang":
        time.sleep(1000)
    if kind == "memory":
        exhaust()
    if kind == "sticky":
        global sticky
        sticky = True
        return {"error": "kernel", "message": "CUDA_ERROR_ILLEGAL_ADDRESS"}
    return {}


KINDS = ("crash", "abort", "killed", "exit", "hang", "memory", "sticky")
problem, inputs, sticky = None, None, False
for line in sys.stdin:
    q, answer = json.loads(line), {}
    if sticky:   # every later call fails, also those of good cases
        answer = {"error": "kernel", "message": "CUDA_ERROR_ILLEGAL_ADDRESS (sticky)"}
    elif q["do"] == "hello":
        answer = {"protocol": 1, "name": "unlucky", "kernels": [{"name": "topk", "ops": ["topk"]}]}
    elif q["do"] == "open":
        problem = q["problem"]
    elif q["do"] == "bind":
        inputs = tensors(q["inputs"])
    elif q["do"] == "run":
        if problem["tokens"] % 2 == 0:
            answer = misfortune(KINDS[problem["tokens"] // 2 % len(KINDS)])
        if not answer:
            topk(inputs, tensors(q["outputs"]))
    print(json.dumps(answer), flush=True)
