#!/usr/bin/env python3
"""A user's own weights and activations through the built program: a small checkpoint with DeepSeek's names and block scales,
hidden states and router logits. Would catch a reader whose tensors do not reach the kernels, and a verdict on made-up data.
A file cut short must give one line and exit 2."""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

HIDDEN, INTER, EXPERTS, TOP_K, TOKENS, LAYER = 256, 512, 4, 2, 7, 3


def write_safetensors(path, tensors):
    header, blob = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + blob)


def codes(rng, rows, columns):
    no_nan = bytes(c if c & 0x7F != 0x7F else c - 1 for c in range(256))
    small = bytes(0x20 | (c & 0x9F) for c in no_nan)  # exponents near one, so that sums stay in range
    return "F8_E4M3", [rows, columns], rng.randbytes(rows * columns).translate(small)


def floats(rng, shape, low, high):
    count = 1
    for side in shape:
        count *= side
    return "F32", shape, struct.pack(f"<{count}f", *(rng.uniform(low, high) for _ in range(count)))


def bf16(rng, shape):
    _, _, data = floats(rng, shape, -2, 2)
    return "BF16", shape, b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))


def checkpoint(rng):
    tensors = {}
    for e in range(EXPERTS):
        for name, n, k in (("gate_proj", INTER, HIDDEN), ("up_proj", INTER, HIDDEN), ("down_proj", HIDDEN, INTER)):
            stem = f"model.layers.{LAYER}.mlp.experts.{e}.{name}.weight"
            tensors[stem] = codes(rng, n, k)
            tensors[stem + "_scale_inv"] = floats(rng, [n // 128, k // 128], 0.001, 0.01)
    return tensors


def run(binary, folder):
    command = [binary, "check", "--hidden", HIDDEN, "--intermediate", INTER, "--experts", EXPERTS, "--top-k", TOP_K, "--tokens",
               TOKENS, "--weights", folder, "--layer", LAYER, "--activations", folder / "activations.safetensors", "--layout",
               "all", "--json", "-", "--quiet"]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def main():
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        weights = folder / "model.safetensors"
        write_safetensors(weights, checkpoint(rng))
        write_safetensors(folder / "activations.safetensors",
                          {"hidden_states": bf16(rng, [TOKENS, HIDDEN]), "router_logits": floats(rng, [TOKENS, EXPERTS], -1, 1)})
        done = run(sys.argv[1], folder)
        assert done.returncode == 0, (done.returncode, done.stderr)
        cases = json.loads(done.stdout)["cases"]
        assert len(cases) == 3, cases
        for case in cases:
            verdict = case["verdict"]
            assert verdict["correctness"] == "passed" and verdict["judged_by"] == "bits", verdict
            assert verdict["checked"] >= TOKENS * HIDDEN, verdict
        weights.write_bytes(weights.read_bytes()[:-1000])
        done = run(sys.argv[1], folder)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, (done.returncode, done.stderr)
    print("real data is read, run and judged")


main()
