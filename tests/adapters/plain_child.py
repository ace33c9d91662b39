"""A child without numpy or the adapter, right or wrong as its first argument says: what protocol.py plays against moeproof."""
import json
import mmap
import os
import pathlib
import signal
import struct
import sys
import threading
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


STRANGE = {  # answers to `run` that say nothing clearly
    "error-kind": {"error": "oops", "message": "tile"},
    "error-list": {"error": [["kernel"]]},
    "message-list": {"error": "kernel", "message": [["a"], "b"]},
    "no-message": {"error": "kernel"},
    "refuse-number": {"refusal": 7},
}
OWN_FILES = ("own", "cut", "own-behind", "huge")


def own_file(path):
    """The right outputs in a file of the child's own; `cut`: shortened as soon as moeproof knows of it."""
    topk(inputs, tensors(path))
    with open(path, "rb") as right, open(sys.argv[2], "wb") as file:
        file.write(right.read())
    if FAULT == "own-behind":
        write_beside(tensors(path), True)
    if FAULT == "huge":
        os.truncate(sys.argv[2], 1 << 40)
    print(json.dumps({"outputs": sys.argv[2]}), flush=True)
    if FAULT == "cut":
        os.truncate(sys.argv[2], 4096)


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
    if FAULT == "spam":  # the child dies, its own child writes on
        if os.fork() == 0:
            while True:
                os.write(2, b"still here\n" * 100)
        os.kill(os.getpid(), signal.SIGKILL)
    if FAULT == "family":
        if (grandchild := os.fork()) != 0:
            pathlib.Path(sys.argv[2]).write_text(f"{os.getpid()} {grandchild}")
        time.sleep(1000)
    if FAULT == "daemon":  # its own child leaves its process group and session, and forks once more
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                pathlib.Path(sys.argv[2]).write_text(f"{os.getpid()} 0")
                time.sleep(1000)
            os._exit(0)
        while not pathlib.Path(sys.argv[2]).exists() or not pathlib.Path(sys.argv[2]).read_text():
            time.sleep(0.01)
        if len(sys.argv) > 3:
            time.sleep(1000)
    if FAULT == "once":  # no second child comes up
        pathlib.Path(sys.argv[2]).touch()
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
    if FAULT == "refuse-late-mute":
        print(json.dumps({"refusal": ""}), flush=True)
    if FAULT == "type":
        print(json.dumps({"reports": 7}), flush=True)
    if FAULT == "report":
        topk(inputs, tensors(q["outputs"]))
        print(json.dumps({"reports": ["a stream was left unsynchronised"]}), flush=True)
    if FAULT == "no-file":
        print(json.dumps({"outputs": "/no/such/file"}), flush=True)
    if FAULT in ("deep", "deep-error"):
        print('{"%s":' % {"deep": "reports"}.get(FAULT, "error") + "[" * 300000 + "]" * 300000 + "}", flush=True)
    if FAULT in STRANGE:
        print(json.dumps(STRANGE[FAULT]), flush=True)
    if FAULT == "bad-input":
        print(json.dumps({"error": "bad_input", "message": "no such option"}), flush=True)
    if FAULT == "counts":
        print(json.dumps({"counts": {"wgmma": {"8": "many"}}}), flush=True)
    if FAULT == "fifo":
        os.mkfifo(sys.argv[2])
        print(json.dumps({"outputs": sys.argv[2]}), flush=True)
    if FAULT in OWN_FILES:
        own_file(q["outputs"])
    return FAULT in STRANGE or FAULT in OWN_FILES + ("deep", "deep-error", "bad-input", "counts", "fifo",
                                 "garbage", "number", "raise", "refuse-late", "refuse-late-mute", "type", "report", "no-file")


runs, inputs, problem = 0, None, None
if FAULT == "once" and os.path.exists(sys.argv[2]):
    sys.exit("not a second time")
if FAULT == "silent":
    sys.exit(0)
if FAULT == "mute":
    sys.exit("no module named torch")
for line in sys.stdin:
    q, answer = json.loads(line), {}
    if q["do"] == "hello":
        answer = {"protocol": 2 if FAULT == "version" else 1, "name": "plain", "kernels": [{"name": "topk", "ops": ["topk"]}]}
        if FAULT in ("ids", "late", "no-id"):
            answer["ids"] = True
        if FAULT == "no-gpu":
            answer["refusal"] = "no\nGPU \x1b[31mhere"
        if FAULT == "draws":  # a word of moeproof's own workers: nothing would be looked at
            answer["draws"] = True
        if FAULT == "long-hello":
            answer["name"] = "x" * 50_000_000
        if FAULT == "long-word":
            answer["kernels"][0]["ops"] = ["x" * 5_000_000]
        if FAULT == "bad-outputs":
            answer["kernels"][0]["outputs"] = ["topk_ids", "nope"]
        if FAULT == "bare-refusal":
            answer = {"refusal": "no GPU\nhere"}
        if FAULT == "half-hello":
            print("x" * 3000, end="", flush=True)
            time.sleep(1000)
        if FAULT == "twins":
            print('{"protocol": 1, "protocol": 2, "name": "plain", "kernels": [{"name": "topk"}]}', flush=True)
            continue
        if FAULT == "bad-hello":
            answer["kernels"][0]["ops"] = ["tpok"]
    elif q["do"] == "open":
        problem = q["problem"]
        answer = {"refusal": "only even tokens"} if FAULT == "odd" and problem["tokens"] % 2 else {}
        if FAULT == "refuse-mute":
            answer = {"refusal": ""}
        if FAULT == "open-crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if FAULT == "another-case":  # judged by it, a kernel that does nothing would be right
            answer["resolved"] = q["case"].replace("tokens=9", "tokens=0")
        if FAULT == "bad-open":
            answer = {"error": "bad_input", "message": "no such case"}
    elif q["do"] == "bind":
        inputs = tensors(q["inputs"])
    elif q["do"] == "run":
        runs += 1
        if fault(q):
            continue
        outputs = tensors(q["outputs"])
        if FAULT != "another-case":
            topk(inputs, outputs)
        if FAULT == "empty-report":
            answer = {"reports": [""]}
        if FAULT == "second-refusal" and runs == 2:
            answer = {"refusal": "not again"}
        if FAULT in ("behind", "front"):
            write_beside(outputs, FAULT == "behind")
        if FAULT in ("input", "draws"):
            memory, begin, _ = inputs["router_logits"]
            memory[begin] ^= 1
        if FAULT == "second-run" and runs == 2:  # another right answer: one ulp in a weight
            memory, begin, _ = outputs["topk_weights"]
            memory[begin] ^= 1
        if FAULT == "late-output" and runs == 1:  # into the outputs of this run, while the next one goes on
            memory, begin, _ = outputs["topk_weights"]
            threading.Timer(0.02, memory.__setitem__, [begin, memory[begin] ^ 1]).start()
        if FAULT == "late-output" and runs == 2:
            time.sleep(0.2)
        if FAULT == "unwritten":
            memory, _, end = outputs["topk_weights"]
            memory[end - 4:end] = b"\xff\xff\xff\xff"
        if FAULT == "shrink":
            try:
                os.truncate(q["outputs"], 16)
            except OSError:
                pass  # the file is sealed: that is what this fault tries
    if FAULT in ("ids", "late", "another-id") or (FAULT == "no-id" and q["do"] == "hello"):
        answer["id"] = q["id"] + (1 if FAULT == "another-id" and q["do"] == "open" else 0)
    if FAULT == "late" and q["do"] == "bind":  # its first run would be answered by this
        threading.Timer(0.05, print, [json.dumps(answer)], {"flush": True}).start()
    if FAULT == "late" and q["do"] == "run":
        time.sleep(0.3)
    print("\n".join([json.dumps(answer)] * (2 if FAULT == "twice-" + q["do"] else 1)), flush=True)
