#!/usr/bin/env python3
"""The page of `moeproof report` in a real headless Chromium: no message on its console, charts that are drawn, filters and sorting
that work, nothing wider than a phone, dark and light, paper, 10,000 cases. Exit 77 where there is no chromium with its driver.
Would catch a script error, a filter that hides the wrong rows, numbers sorted as words, a page that scrolls sideways.

usage: browser_test.py MOEPROOF SOURCE_ROOT [FOLDER for screenshots]"""
import base64
import csv
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

MOEPROOF, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
PHONE, DESK = (390, 844), (1280, 900)


class Browser:
    """Chromium behind its driver: W3C WebDriver over HTTP on this machine."""

    def __init__(self, chromium, driver, folder):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}/profile"]
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"binary": chromium, "args": arguments},
                  "goog:loggingPrefs": {"browser": "ALL"}}
        for attempt in range(100):
            try:
                self.session = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
                return
            except (ConnectionError, urllib.error.URLError):
                time.sleep(0.1)
        raise SystemExit("the driver does not answer")

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def do(self, method, what, body=None):
        return self.ask(method, f"/session/{self.session}/{what}", body)

    def open(self, path):
        self.do("POST", "url", {"url": path.as_uri()})

    def run(self, script, *arguments):
        return self.do("POST", "execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command, **parameters):
        return self.do("POST", "goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def messages(self):
        return [m["message"] for m in self.do("POST", "se/log", {"type": "browser"})]

    def picture(self, path):
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    def end(self):
        try:
            self.ask("DELETE", f"/session/{self.session}")
        finally:
            self.process.terminate()
            self.process.wait()


def recorded_bench(path):
    """A bench report of the times recorded on a card (fixtures/measured)."""
    cases = []
    for table in sorted((ROOT / "fixtures/measured").glob("h200_layer_*.csv")):
        for row in csv.DictReader(table.open(encoding="utf-8")):
            t = float(row["measured_s"])
            cases.append({"case": row["case"], "measurement": {"seconds": [t * 0.998, t, t * 1.003]}})
    path.write_text(json.dumps({"schema": 1, "tool": {"command": "bench"}, "device": None, "cases": cases}))


def failed_check(path, n):
    """A check report of n cases, every twentieth wrong."""
    cases = []
    for i in range(n):
        line = (f"op=moe_layer tokens={1 + i % 4096} hidden=512 inter=256 experts=16 top_k=2 seed={i} kernel=moeproof layout=swap_ab "
                "tile=16x128x128 tile_down=16x128x128")
        verdict = {"correctness": "passed", "judged_by": "bounds", "coverage": 1, "checked": 100, "wrong": 0}
        if i % 20 == 3:
            block = {"stage": "gemm1", "expert": i % 16, "column_block": i % 4, "checked": 128, "wrong": 9, "worst_ratio": 3.5}
            verdict.update(correctness="failed", wrong=9, reason="9 of 128 wrong", replay=f"moeproof check --case '{line}'",
                           worst={"stage": "gemm1", "expert": i % 16, "row": 5, "column": 128 * (i % 4) + 17, "tile_row": 0,
                                  "tile_column": i % 4, "got": 1.5, "want": 1.25, "ulp": 3, "bound": 0.125},
                           stages=[{"stage": "gemm1", "checked": 8192, "wrong": 9, "column_blocks": 4,
                                    "blocks_by_log2_ratio": {"-3": 40, "-2": 23, "1": 1}}],
                           experts=[{"expert": e, "blocks": 4, "wrong_blocks": int(e == i % 16), "checked": 512,
                                     "wrong": 9 * (e == i % 16)} for e in range(16)], wrong_blocks=[block])
        cases.append({"case": line, "measurement": None, "verdict": verdict})
    kills = [{"fault": f"M{i:02}", "kind": "value" if i % 2 else "race", "what": "a planted fault", "declared": i % 3 > 0,
              "killed_by": ["truth", "P5"] if i % 3 else ["P8"], "seeds": 20, "killed": 20 - i % 4, "cases": 1 + i,
              "shrunk": line, "distance": 1.5, "runs": 12} for i in range(12)]
    path.write_text(json.dumps({"schema": 1, "tool": {"command": "check", "executor": "emulated"}, "device": None, "cases": cases,
                                "self_test": kills}))


def make_page(folder, name, *files):
    page = folder / name
    done = subprocess.run([MOEPROOF, "report", *map(str, files), "--html", page, "--quiet"], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return page


def make_pages(folder):
    bench, check, many, audit = (folder / f"{n}.json" for n in ("bench", "check", "many", "audit"))
    recorded_bench(folder / "raw.json")
    run = lambda *words: subprocess.run([MOEPROOF, *map(str, words)], check=True, capture_output=True)
    run("compare", folder / "raw.json", "--json", bench)
    run("audit-jit", "--kernel", "inv_rope_quant", "--tokens", "1:64", "--json", audit)
    failed_check(check, 40)
    failed_check(many, 10_000)
    return make_page(folder, "all.html", bench, check, audit), make_page(folder, "many.html", many)


ROWS = """const t = document.querySelector('#cases table'); return Array.from(t.tBodies[0].rows).filter(r => !r.hidden)
          .map(r => r.cells[arguments[0]].textContent)"""
COLUMN = "return Array.from(document.querySelectorAll('#cases th')).findIndex(h => h.textContent.trim() === arguments[0])"
FILTER = """const i = document.querySelector('#cases input'); i.value = arguments[0]; i.dispatchEvent(new Event('input'));
            return document.querySelector('#cases output').textContent"""


def check_table(browser, hold):
    column = browser.run(COLUMN, "predicted")
    click = "document.querySelectorAll('#cases th button')[arguments[0]].click()"
    in_us = lambda text: float(text.split()[0].replace(",", "")) * {"us": 1, "ms": 1000, "s": 1e6}[text.split()[1]]
    for direction in (1, -1):
        browser.run(click, column)
        times = [in_us(t) for t in browser.run(ROWS, column) if t]
        hold(len(times) > 100 and times == sorted(times, reverse=direction < 0), f"sorted by time, direction {direction}")
    tokens = browser.run(COLUMN, "tokens")
    browser.run(click, tokens)
    values = [int(t) for t in browser.run(ROWS, tokens)]
    hold(values == sorted(values), "sorted by tokens as numbers")
    total = len(values)
    told = browser.run(FILTER, "layout=swap_ab mixtral")
    lines = browser.run(ROWS, browser.run(COLUMN, "case"))
    hold(lines and all("layout=swap_ab" in x and "mixtral" in x for x in lines), "a filter keeps rows with all words")
    hold(told == f"{len(lines)} of {total} rows", f"the count says {told}")
    browser.run(FILTER, "-mixtral")
    hold(all("mixtral" not in x for x in browser.run(ROWS, browser.run(COLUMN, "case"))), "-word leaves out")
    browser.run(FILTER, "no such words")
    hold(browser.run(ROWS, 0) == [], "a filter that nothing fits")
    browser.run(FILTER, "")
    hold(len(browser.run(ROWS, 0)) == total, "an empty filter shows all again")


def check_width(browser, hold, what):
    for width, height in (PHONE, DESK):
        browser.size(width, height)
        wide = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        hold(wide <= 0, f"{what}: {wide} pixels wider than a screen of {width}")


def check_drawn(browser, hold):
    hold(browser.run("return document.querySelectorAll('svg.chart').length") >= 15, "charts are there")
    empty = browser.run("""return Array.from(document.querySelectorAll('svg.chart')).filter(s => {
        const b = s.getBoundingClientRect(); return b.width < 100 || b.height < 15}).length""")
    hold(empty == 0, f"{empty} charts have no size")
    # A mark outside its frame, or a text outside its picture
    outside = browser.run("""let n = []; document.querySelectorAll('svg.chart').forEach(s => {
        const a = s.getBoundingClientRect(); s.querySelectorAll('text, .mark').forEach(t => {
        const b = t.getBoundingClientRect();
        if (a.left - b.left > 1 || b.right - a.right > 1 || a.top - b.top > 1 || b.bottom - a.bottom > 1)
            n.push(s.getAttribute('aria-label').slice(0, 60) + ': ' + t.textContent)})}); return n""")
    hold(not outside, f"outside the picture: {outside[:5]}")


def check_colours(browser, hold):
    """Text keeps a contrast of 4.5 to its ground in light and dark (WCAG AA)."""
    contrast = """const rgb = c => c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
        const light = c => { const [r, g, b] = rgb(c); return .2126 * r + .7152 * g + .0722 * b };
        const ground = light(getComputedStyle(document.body).backgroundColor); let least = 99;
        document.querySelectorAll('p, th, td.passed, td.failed, h3, summary, svg text').forEach(e => {
            const s = getComputedStyle(e), l = light(e.tagName === 'text' ? s.fill : s.color);
            least = Math.min(least, (Math.max(l, ground) + .05) / (Math.min(l, ground) + .05))});
        return [least, ground]"""
    grounds = []
    for scheme in ("light", "dark"):
        browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        least, ground = browser.run(contrast)
        grounds.append(ground)
        hold(least >= 4.5, f"{scheme}: a contrast of {least:.2f}")
    hold(grounds[0] > 0.9 and grounds[1] < 0.1, f"grounds {grounds}")


def main():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        print("skipped: no chromium with its chromedriver here (ci/setup --browser)")
        return 77
    failures = []
    hold = lambda kept, what: kept or failures.append(what)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        page, many = make_pages(folder)
        browser = Browser(chromium, driver, folder)
        try:
            browser.open(page)
            browser.size(*DESK)
            check_drawn(browser, hold)
            check_colours(browser, hold)
            check_table(browser, hold)
            check_width(browser, hold, "all")
            if len(sys.argv) > 3:
                shots = pathlib.Path(sys.argv[3])
                for scheme, size in (("light", DESK), ("dark", DESK), ("light", PHONE)):
                    browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
                    browser.size(*size)
                    browser.picture(shots / f"{scheme}-{size[0]}.png")
                shutil.copy(page, shots)
            started = time.monotonic()
            browser.open(many)
            browser.size(*DESK)
            told = browser.run(FILTER, "tokens=77 ")
            hold(told.endswith("of 10000 rows"), f"many: {told}")
            print(f"10,000 cases: {many.stat().st_size / 1e6:.1f} MB, opened and filtered in {time.monotonic() - started:.1f} s")
            check_width(browser, hold, "many")
            paper = browser.do("POST", "print", {"pageRanges": ["1"]})
            hold(base64.b64decode(paper).startswith(b"%PDF"), "it prints")
            messages = browser.messages()
            hold(not messages, f"console: {messages[:3]}")
        finally:
            browser.end()
    print("\n".join("FAILED " + f for f in failures) or "the page works in a browser")
    return 1 if failures else 0


sys.exit(main())
