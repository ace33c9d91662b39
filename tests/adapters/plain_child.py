"""A child without numpy or the adapter, right or wrong as its first argument says: what protocol.py plays against moeproof."""
import json
import mmap
import os
import signal
import struct
import sys
import time

FAULT = sys.argv[1]


def tensors(path):
    with open(path, "r+b") as file:
        memory = memoryview(mmap.mmap(file.fileno(), 0))
    length = struct.unpack("<Q", memory[:8])[0]
    header = json.loads(bytes(memory[8:8 + length]))
    header.pop("__metadata__", None)
    return {name: (memory, 8 + length + t["data_offsets"][0], 8 + length + t["data_offsets"][1]) for name, t in header.items()}


def topk(inputs, outputs):
    """Softmax over the experts, the k largest, renormalised: op topk as it is by default."""
    import math
    logits = inputs["router_logits"]
    values = logits[0][logits[1]:logits[2]].cast("f")
    ids, weights = outputs["topk_ids"], outputs["topk_weights"]
    ids, weights = ids[0][ids[1]:ids[2]].cast("i"), weights[0][weights[1]:weights[2]].cast("f")
    for token in range(problem["tokens"]):
        row = values[token * problem["experts"]:(token + 1) * problem["experts"]]
        best = sorted(range(len(row)), key=lambda e: (-row[e], e))[:problem["top_k"]]
        total = sum(math.exp(row[e]) for e in best)
        for slot, e in enumerate(best):
            ids[token * problem["top_k"] + slot] = e
            weights[token * problem["top_k"] + slot] = math.exp(row[e]) / total


def write_beside(outputs, behind):
    memory, begin, end = outputs["topk_weights"]
    memory[end if behind else begin - 1] = 0x3C


def fault(q):
    """What happens in `run`, before the right answer is given."""
    if FAULT == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if FAULT == "exit":
        print("out of luck", file=sys.stderr, flush=True)
        sys.exit(5)
    if FAULT == "hang":
        time.sleep(1000)
    if FAULT == "child-hang":  # the child dies, its own child keeps its output open
        if os.fork() == 0:
            time.sleep(1000)
        os.kill(os.getpid(), signal.SIGKILL)
    if FAULT == "close":
        os.close(1)
        time.sleep(1000)
    if FAULT == "garbage":
        print("loading weights ...", flush=True)
    if FAULT == "number":
        print(42, flush=True)
    if FAULT == "raise":
        print("Traceback: one\nTraceback: two", file=sys.stderr, flush=True)
        print(json.dumps({"error": "kernel", "message": "ValueError: no such tile"}), flush=True)
    if FAULT == "refuse-late":
        print(json.dumps({"refusal": "not on Mondays"}), flush=True)
    if FAULT == "type":
        print(json.dumps({"reports": 7}), flush=True)
    if FAULT == "report":
        topk(inputs, tensors(q["outputs"]))
        print(json.dumps({"reports": ["a stream was left unsynchronised"]}), flush=True)
    if FAULT == "no-file":
        print(json.dumps({"outputs": "/no/such/file"}), flush=True)
    return FAULT in ("garbage", "number", "raise", "refuse-late", "type", "report", "no-file")


runs, inputs, problem = 0, None, None
if FAULT == "mute":
    sys.exit("no module named torch")
for line in sys.stdin:
    q, answer = json.loads(line), {}
    if q["do"] == "hello":
        answer = {"protocol": 2 if FAULT == "version" else 1, "name": "plain", "kernels": [{"name": "topk", "ops": ["topk"]}]}
        if FAULT == "no-gpu":
            answer["refusal"] = "no GPU here"
        if FAULT == "bad-hello":
            answer["kernels"][0]["ops"] = ["tpok"]
    elif q["do"] == "open":
        problem = q["problem"]
        answer = {"refusal": "only even tokens"} if FAULT == "odd" and problem["tokens"] % 2 else {}
    elif q["do"] == "bind":
        inputs = tensors(q["inputs"])
    elif q["do"] == "run":
        runs += 1
        if fault(q):
            continue
        outputs = tensors(q["outputs"])
        topk(inputs, outputs)
        if FAULT in ("behind", "front"):
            write_beside(outputs, FAULT == "behind")
        if FAULT == "input":
            memory, begin, _ = inputs["router_logits"]
            memory[begin] ^= 1
        if FAULT == "second-run" and runs == 2:  # another right answer: one ulp in a weight
            memory, begin, _ = outputs["topk_weights"]
            memory[begin] ^= 1
        if FAULT == "unwritten":
            memory, _, end = outputs["topk_weights"]
            memory[end - 4:end] = b"\xff\xff\xff\xff"
        if FAULT == "shrink":
            try:
                os.truncate(q["outputs"], 16)
            except OSError:
                pass  # the file is sealed: that is what this fault tries
    print(json.dumps(answer), flush=True)
