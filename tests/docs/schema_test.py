#!/usr/bin/env python3
"""Reports of the built program are what docs/report.schema.json says, and say nothing beside it. Would catch a field that the program
writes and the schema does not know, a changed type, and a schema that accepts anything.

usage: schema_test.py MOEPROOF SOURCE_ROOT"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

MOEPROOF, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
SCHEMA = json.loads((ROOT / "docs/report.schema.json").read_text())
SIZES = "--hidden 256 --intermediate 128 --experts 4 --top-k 2".split()
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def has_type(value, name):
    if name in ("number", "integer"):
        return isinstance(value, (int, float) if name == "number" else int) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def breaches(value, schema, place="report"):
    """The keywords that the schema uses, of JSON Schema 2020-12."""
    if "$ref" in schema:
        yield from breaches(value, SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]], place)
        return
    if "anyOf" in schema:
        if all(list(breaches(value, one, place)) for one in schema["anyOf"]):
            yield f"{place}: {json.dumps(value)[:60]} is none of what it may be"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{place}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is none of {schema['enum']}"
    if "type" in schema and not has_type(value, schema["type"]):
        yield f"{place}: {json.dumps(value)[:60]} is no {schema['type']}"
        return
    if "minimum" in schema and value < schema["minimum"] or "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"{place}: {value} is too small"
    if isinstance(value, dict):
        known, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        yield from (f"{place}: {key} is missing" for key in schema.get("required", []) if key not in value)
        for key, member in value.items():
            if key in known or isinstance(more, dict):
                yield from breaches(member, known.get(key, more), f"{place}.{key}")
            elif more is False:
                yield f"{place}: {key} is unknown"
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            yield from breaches(item, schema["items"], f"{place}[{i}]")


def report(*words):
    done = subprocess.run([MOEPROOF, *map(str, words), "--quiet", "--json", "-"], capture_output=True, text=True)
    return json.loads(done.stdout)


def main():
    with tempfile.TemporaryDirectory() as name:
        bench = pathlib.Path(name, "bench.json")
        predicted = report("predict", *SIZES, "--tokens", "1,9", "--layout", "all")
        timed = copy.deepcopy(predicted)
        for case in timed["cases"]:
            t = 2 * case["prediction"]["seconds"]
            case["measurement"] = {"seconds": [t, 1.01 * t], "stages": [{"stage": "gemm1", "seconds": [t / 2]}], "sm_clock_hz": 1.9e9}
        bench.write_text(json.dumps(timed))
        child = f"process:{sys.executable} {ROOT / 'tests/adapters/plain_child.py'}"
        topk = ["--op", "topk", "--experts", "8", "--top-k", "2", "--hidden", "256", "--intermediate", "128", "--tokens", "9"]
        reports = {
            "predict": predicted,
            "compare": report("compare", bench, bench),
            "report": report("report", bench),
            "check": report("check", *SIZES, "--tokens", "0,9", "--layout", "both", "--properties", "P1,P8"),
            "reference": report("check", *SIZES, "--tokens", "9", "--executor", "reference"),
            "wrong": report("check", "--executor", child + " unwritten", *topk),
            "crashed": report("check", "--executor", child + " crash", *topk),
        }
    wrong = [f"{name}: {breach}" for name, one in reports.items() for breach in breaches(one, SCHEMA)]
    if reports["wrong"]["summary"]["failed"] != 1 or not reports["check"]["cases"][0]["properties"]:
        wrong.append("a report lacks what it should show")
    for damage in (lambda r: r["cases"][0].pop("case"), lambda r: r.update(schema=2), lambda r: r["cases"][0].update(extra=1),
                   lambda r: r["cases"][0]["prediction"].update(limit="none"), lambda r: r.update(cases={})):
        damaged = copy.deepcopy(predicted)
        damage(damaged)
        if not list(breaches(damaged, SCHEMA)):
            wrong.append("the schema accepts a damaged report")
    print("\n".join("FAILED " + w for w in wrong[:20]) or f"{len(reports)} reports are what the schema says")
    return 1 if wrong else 0


sys.exit(main())
