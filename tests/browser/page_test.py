#!/usr/bin/env python3
"""Pages of runs, sweeps and comparisons in a real browser: drawn, switched, printed, and harmless whatever their texts
say.

    page_test.py path/to/autotrain [--shots FOLDER]      --shots keeps screenshots there

Exits 77 where there is no Chromium or no playwright.
"""
import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    print("playwright is not installed")
    sys.exit(77)

CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    print("chromium is not installed")
    sys.exit(77)

HOSTILE = """</script><script>window.hacked=1</script><img src="http://hostile.test/x" onerror="window.hacked=1"> "'`&amp; 😀 \u202e"""
LONG = "ä" * 10_000
RECIPES = Path(__file__).resolve().parents[2] / "recipes"

# Ink of each series on the canvas: pixels whose colour is nearly its own. What others cover is drawn alone.
INK = """(canvas) => {
  const plot = canvas.plot;
  const inkOf = (series, index) => {
    const box = plot.drawing.chartArea, scale = plot.drawing.currentDevicePixelRatio;
    const pixels = canvas.getContext("2d").getImageData(box.left * scale, box.top * scale, (box.right - box.left) * scale,
                                                        (box.bottom - box.top) * scale).data;
    const hex = plot.colour(series, index), want = [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
    let ink = 0;
    for (let i = 0; i < pixels.length; i += 4) {
      if (pixels[i + 3] > 200 && want.every((value, c) => Math.abs(pixels[i + c] - value) < 24)) ++ink;
    }
    return ink;
  };
  return plot.chart.series.map((series, index) => {
    if (inkOf(series, index) > 10) return inkOf(series, index);
    plot.hidden = new Set(plot.chart.series.keys());
    plot.hidden.delete(index);
    plot.draw();
    const alone = inkOf(series, index);
    plot.hidden = new Set();
    plot.draw();
    return alone;
  });
}"""


def update_row(u, updates, rng):
    return {"kind": "update", "update": u, "epoch": u / 58, "samples": u * 1024,
            "loss": None if u % 97 == 0 else 2 * math.exp(-4 * u / updates) + 0.2 + rng.gauss(0, 0.05),
            "lr": 0.004 * (1 + math.cos(math.pi * u / updates)), "grad_norm": math.exp(rng.gauss(0, 0.4)),
            "scale": 65536.0, "samples_per_second": rng.gauss(4800, 200), "peak_bytes": 190_000_000 + min(u, 50) * 10 ** 5,
            "data_wait_fraction": abs(rng.gauss(0, 0.003)), "activity_seconds": {"backward": 0.11, "forward": 0.09}}


def write_run(folder, updates, evaluations=12, events=(), summary=None, figure="accuracy", split="validation"):
    folder.mkdir(parents=True)
    rng = random.Random(1)
    with open(folder / "metrics.jsonl", "w") as file:
        for u in range(1, updates + 1):
            file.write(json.dumps(update_row(u, updates, rng)) + "\n")
            if evaluations and u % max(1, updates // evaluations) == 0:
                file.write(json.dumps({"kind": "evaluation", "update": u, "epoch": u / 58, "split": split, "seconds": 1,
                                       "loss": 2.4 * math.exp(-4 * u / updates) + 0.3, figure: 1 - 0.5 * math.exp(-u / updates),
                                       "samples": 10000}) + "\n")
        for update, event, detail in events:
            file.write(json.dumps({"kind": "event", "update": update, "event": event, "detail": detail}) + "\n")
    with open(folder / "telemetry.jsonl", "w") as file:
        for s in range(1, 61 if updates > 1 else 1):
            file.write(json.dumps({"seconds": s, "update": s * updates // 60, "cpu_cores": 1.9 + s % 3 / 10,
                                   "resident_bytes": 4e8 + s * 1e5}) + "\n")
    if summary:
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp())
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        shutil.rmtree(cls.folder)

    def setUp(self):
        self.complaints, self.requests = [], []

    def draw(self, folder, *more):
        subprocess.run([AUTOTRAIN, "report", folder, *more], check=True, capture_output=True, text=True)
        return folder / "report.html"

    def open(self, page_file, width=1200, scheme="light"):
        page = self.browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.addCleanup(page.close)
        ours = "Canvas2D: Multiple readback"  # what the browser says of check_drawn
        page.on("console", lambda message: message.text.startswith(ours) or self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(page_file.resolve().as_uri())
        self.scroll(page)
        return page

    def scroll(self, page):
        """As a reader does: plots are drawn when they come into view."""
        height = page.evaluate("document.documentElement.scrollHeight")
        for y in range(0, height, 400):
            page.evaluate(f"scrollTo(0, {y})")
            page.wait_for_timeout(30)
        page.evaluate("scrollTo(0, 0)")

    def shot(self, page, name):
        if SHOTS:
            page.screenshot(path=SHOTS / f"{name}.png", full_page=True)

    def check_quiet(self):
        self.assertEqual(self.complaints, [])
        self.assertEqual([url for url in self.requests if not url.startswith("file:")], [])
        self.assertEqual(len(self.requests), 1, "the page alone was loaded")

    def check_drawn(self, page):
        canvases = page.query_selector_all("canvas")
        for canvas in canvases:
            name = canvas.get_attribute("aria-label")
            for ink in canvas.evaluate(INK):
                self.assertGreater(ink, 10, f"a series of {name!r} left no ink")
        return len(canvases)

    def test_a_run_is_drawn_in_light_dark_and_on_a_phone(self):
        folder = write_run(self.folder / "whole", 351, events=[(100, "skipped", "why"), (200, "plan", "x")])
        sizes = [(16, "fits", 78), (256, "fits", 134), (1000, "refused", 0), (760, "above_band", 243), (698, "fits", 229)]
        probes = [{"micro_batch": size, "outcome": outcome, "peak_bytes": peak << 20, "fill": peak / 256, "seconds": 0.3,
                   "samples_per_second": size ** 0.5 * 180} for size, outcome, peak in sizes]
        (folder / "plan.json").write_text(json.dumps({"budget_bytes": 256 << 20, "target": [0.8, 0.9], "micro_batch": 512,
                                                      "search": {"probes": probes}}))
        page_file = self.draw(folder)
        for name, width, scheme in [("light", 1200, "light"), ("dark", 1200, "dark"), ("narrow", 390, "light")]:
            with self.subTest(name):
                self.requests.clear()
                page = self.open(page_file, width, scheme)
                self.assertGreaterEqual(self.check_drawn(page), 8)
                self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), width, "nothing sticks out")
                paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
                self.assertEqual(paper == "rgb(255, 255, 255)", scheme == "light")
                self.check_quiet()
                self.shot(page, name)

    def test_marks_are_named_in_whatever_order_they_come(self):
        folder = write_run(self.folder / "marks", 351)
        sizes = [(256, "fits", 134), (4096, "refused", 0), (16, "out_of_memory", 0)]  # what has no peak is a mark
        probes = [{"micro_batch": size, "outcome": outcome, "peak_bytes": peak << 20, "samples_per_second": 180}
                  for size, outcome, peak in sizes]
        (folder / "plan.json").write_text(json.dumps({"budget_bytes": 256 << 20, "target": [0.8, 0.9], "micro_batch": 1024,
                                                      "search": {"probes": probes}}))
        page = self.open(self.draw(folder))
        written = page.evaluate("""() => {
          const plot = kShared.plots.find(plot => plot.chart.marks.some(mark => mark.text === "refused"));
          const words = [], context = plot.canvas.getContext("2d"), write = context.fillText;
          context.fillText = function(text, ...more) { words.push(text); return write.call(this, text, ...more); };
          plot.draw();
          delete context.fillText;
          return words;
        }""")
        for word in ("executed", "refused", "out_of_memory"):
            self.assertIn(word, written)

    def test_the_switches_work(self):
        page = self.open(self.draw(write_run(self.folder / "switches", 351)))
        figure = page.query_selector("figure")
        canvas = figure.query_selector("canvas")
        picture = lambda: canvas.evaluate("c => c.toDataURL()")
        changed = lambda before: self.assertNotEqual(picture(), before)
        axis = lambda way: canvas.evaluate(f"c => [c.plot.drawing.scales.{way}.type, c.plot.drawing.options.scales.{way}.title.text]")

        before = picture()
        figure.query_selector("select").select_option("time")
        self.assertEqual(axis("x"), ["linear", "time (s)"])
        others = page.eval_on_selector_all("select.x-axis", "all => all.map(each => each.value)")
        self.assertEqual(set(others), {"time"}, "all plots follow")
        changed(before)

        log_x, log_y = figure.query_selector_all("input[type=checkbox]")
        before = picture()
        log_y.check()
        self.assertEqual(axis("y")[0], "logarithmic")
        changed(before)
        log_x.check()
        self.assertEqual(axis("x")[0], "logarithmic")
        log_x.uncheck()
        self.assertEqual(axis("x")[0], "linear")

        before = picture()
        figure.query_selector("input.smoothing").evaluate("r => { r.value = 0.9; r.oninput(); }")
        changed(before)
        spread = "d => { const y = d.data.map(p => p.y).filter(y => y !== null); return y.reduce((s, v, i) => i ? s + Math.abs(v - y[i - 1]) : 0, 0); }"
        raw, smooth = canvas.evaluate(f"c => c.plot.drawing.data.datasets.slice(0, 2).map({spread})")
        self.assertLess(smooth, raw / 3)

        box = canvas.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.5)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.5)
        page.mouse.up()
        low, high = canvas.evaluate("c => [c.plot.drawing.scales.x.min, c.plot.drawing.scales.x.max]")
        self.assertTrue(0 < low < high < 70, (low, high))
        page.mouse.dblclick(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
        self.assertIsNone(canvas.evaluate("c => c.plot.zoom"))

        page.select_option("#theme", "dark")
        self.assertNotEqual(page.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
        page.select_option("#theme", "light")
        self.assertEqual(page.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
        self.check_quiet()

    def test_behind_every_plot_stand_its_numbers(self):
        folder = write_run(self.folder / "numbers", 60)
        page = self.open(self.draw(folder))
        for figure in page.query_selector_all("figure"):
            figure.query_selector("summary").click()
            figure.wait_for_selector("td")
        figure = page.query_selector("figure")
        rows = []
        while True:
            rows += figure.query_selector("table").evaluate("t => [...t.tBodies[0].rows].map(r => [...r.cells].map(c => c.textContent))")
            if len(rows) >= 60:
                break
            figure.query_selector("button[aria-label='next rows']").click()
        losses = [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines() if '"update",' in line]
        for shown, loss in zip(rows, losses, strict=True):
            self.assertAlmostEqual(float(shown[3]), loss, delta=1e-5 * loss)
        self.check_quiet()

    def test_hostile_texts_are_harmless(self):
        folder = write_run(self.folder / "runs" / ("<img src=x onerror=alert(1)> 'quoted\" 😀"), 50, figure=HOSTILE, split=HOSTILE + LONG,
                           events=[(10, HOSTILE, LONG + HOSTILE), (20, LONG, HOSTILE)],
                           summary={"status": HOSTILE, "error": HOSTILE + LONG, "final": {HOSTILE: 1.0, LONG: 2.0}, "stopped_by": LONG})
        (folder / "recipe.yaml").write_text(f"# {HOSTILE}\n# {LONG}\n")
        (folder / "plan.json").write_text(json.dumps({"micro_batch": 4, "search": {"probes": [
            {"micro_batch": 4, "outcome": HOSTILE, "peak_bytes": 10 ** 6, "samples_per_second": 4.0, "seconds": 1}]}}))
        for width in (1200, 390):
            self.requests.clear()
            page = self.open(self.draw(folder), width)
            page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            page.wait_for_selector("figure td", state="attached")
            self.assertIsNone(page.evaluate("window.hacked ?? null"))
            self.assertEqual(page.evaluate("document.querySelectorAll('img, main script, body > script').length"), 3,
                             "only the page's own scripts")
            self.assertIn(HOSTILE.split(" ")[0], page.inner_text("main"), "texts are shown as they are")
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
            self.check_drawn(self.open(folder / "report.html", width))
            self.requests.pop()
            self.check_quiet()
        self.shot(page, "hostile")

    def test_what_is_left_of_a_run_is_drawn(self):
        empty = self.folder / "empty"
        empty.mkdir()
        (empty / "metrics.jsonl").write_text("")
        killed = write_run(self.folder / "killed", 40)
        with open(killed / "metrics.jsonl", "a") as file:
            file.write('{"kind":"update","upd')
        (killed / "plan.json").write_text('{"device": ')
        one = write_run(self.folder / "one", 1, evaluations=0)
        constant = write_run(self.folder / "unfinite", 2, evaluations=0)
        rows = [json.loads(line) | {"loss": None, "grad_norm": None, "lr": 0.0} for line in (constant / "metrics.jsonl").read_text().splitlines()]
        (constant / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for folder, words, least in [(empty, "No update is on record", 0), (killed, "no readable summary.json", 7),
                                     (one, "1 updates on record", 5), (constant, "2 updates on record", 5)]:
            with self.subTest(folder.name):
                self.requests.clear()
                page = self.open(self.draw(folder))
                self.assertIn(words, page.inner_text("body"))
                self.assertGreaterEqual(self.check_drawn(page), least)
                self.check_quiet()

    def test_a_million_updates_make_a_page_of_few_megabytes(self):
        folder = self.folder / "million"
        folder.mkdir()
        rng = random.Random(1)
        spike = 654_321
        with open(folder / "metrics.jsonl", "w") as file:
            for u in range(1, 1_000_001):
                loss = 77.25 if u == spike else 2 + rng.random()
                file.write('{"kind":"update","update":%d,"samples":%d,"loss":%.6f,"lr":0.001}\n' % (u, u * 32, loss))
        page_file = self.draw(folder)
        self.assertLess(page_file.stat().st_size, 4 << 20)
        page = self.open(page_file)
        self.assertGreaterEqual(self.check_drawn(page), 2)
        self.assertIn("Each point is the mean of 100 rows", page.inner_text("main"))
        greatest = page.evaluate("Math.max(...kData.sections.flatMap(s => s.charts.flatMap(c => c.series.flatMap(x => x.high))))")
        self.assertEqual(greatest, 77.25, "no peak is lost")
        drawn = page.evaluate("Math.max(...kShared.plots.flatMap(p => p.drawing.data.datasets.map(d => d.data.length)))")
        self.assertLess(drawn, 4000, "points drawn of a line")
        self.check_quiet()

    def test_runs_stand_together(self):
        folders = [write_run(self.folder / f"together-{n}", 50 * n) for n in (1, 2, 3)]
        out = self.folder / "together.html"
        subprocess.run([AUTOTRAIN, "report", *folders, "--together", out], check=True, capture_output=True)
        page = self.open(out)
        self.assertEqual(page.evaluate("kShared.plots[0].chart.series.length"), 6)
        self.assertGreaterEqual(self.check_drawn(page), 5)
        self.check_quiet()

    def check_whole(self, page_file, least, name):
        """A page of committed results in every width and theme."""
        for shown, width, scheme in [("light", 1200, "light"), ("dark", 1200, "dark"), ("narrow", 390, "light")]:
            self.requests.clear()
            page = self.open(page_file, width, scheme)
            self.assertGreaterEqual(self.check_drawn(page), least)
            self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), width, "nothing sticks out")
            cut = page.evaluate("""() => [...document.querySelectorAll('td.number')].filter(cell => {
              const range = document.createRange();
              range.selectNodeContents(cell);
              return new Set([...range.getClientRects()].map(each => Math.round(each.top))).size > 1;
            }).map(cell => cell.textContent)""")
            self.assertEqual(cut, [], "numbers stay on one line")
            self.check_quiet()
            self.shot(page, f"{name}-{shown}")
        return self.open(page_file)

    def drawn(self, results, name, least):
        """The committed result, as the file `name` of a folder, and its page."""
        folder = self.folder / f"{name}-{results.stem}"
        folder.mkdir()
        shutil.copy(results, folder / name)
        return json.loads(results.read_text()), self.check_whole(self.draw(folder), least, results.stem)

    def test_sweeps_are_drawn_with_their_roofline(self):
        for results in sorted((RECIPES / "results").glob("*.json")):
            with self.subTest(results.stem):
                sweep, page = self.drawn(results, "sweep.json", 4)
                axes = page.evaluate("kShared.plots.map(p => [p.drawing.scales.x.type, p.drawing.scales.y.type])")
                self.assertEqual(axes, [["logarithmic", "logarithmic"]] * len(axes))
                latency = page.evaluate("""() => { const c = kShared.plots[0].chart;
                  return { names: c.series.map(s => s.name), bands: c.series.map(s => s.low.length), marks: c.marks.map(m => m.text),
                           dashed: kShared.plots[0].drawing.data.datasets.filter(d => d.borderDash.length > 0).length }; }""")
                variants = sweep["variants"]
                self.assertEqual(latency["bands"][:len(variants)], [len(v["points"]) for v in variants])
                predicted = [v for v in variants if v["predicted_batch"] > 0]
                self.assertEqual(len([name for name in latency["names"] if name.endswith("roofline")]), len(predicted))
                self.assertGreaterEqual(latency["dashed"], len(predicted))
                self.assertEqual(len([text for text in latency["marks"] if "predicted" in text]), len(predicted))
                self.assertEqual(len([text for text in latency["marks"] if "knee" in text]), len(variants))
                body = page.inner_text("main")
                for variant in variants:
                    for sentence in variant["sentences"]:
                        self.assertIn(sentence, body)

    def test_comparisons_are_drawn_with_bands_over_seeds(self):
        for results in sorted((RECIPES / "compare/results").glob("*.json")):
            with self.subTest(results.stem):
                compared, page = self.drawn(results, "compare.json", 1)
                bands = page.evaluate("""() => kShared.plots[0].chart.series.map(s => [s.name, s.y.length,
                  s.low.every((low, i) => low <= s.y[i]) && s.high.every((high, i) => high >= s.y[i]) && s.low.some((low, i) => low < s.y[i])])""")
                self.assertEqual(bands, [[r["label"], len(r["curve"]), True] for r in compared["recipes"]])
                batches = {r["plan"]["effective_batch"] for r in compared["recipes"]}
                if len(batches) > 1:
                    curves = page.evaluate("kShared.plots[1].chart.series.map(s => [s.name, kData.columns[s.x[0]]])")
                    self.assertEqual(curves, [[f"lr_rule {rule}", sorted(batches)] for rule in ("linear", "none", "sqrt")])

    def test_hostile_names_in_studies_are_harmless(self):
        folder = self.folder / "hostile-sweep"
        folder.mkdir()
        sweep = json.loads((RECIPES / "results/roofline_mlp.json").read_text())
        sweep["name"], sweep["key"] = HOSTILE, HOSTILE + LONG
        for i, variant in enumerate(sweep["variants"]):
            variant["value"] = f"{HOSTILE}{i}"
            variant["points"].append({"batch": 4096 + i, "failure": HOSTILE + LONG, "code": 71})
            variant["machine"]["name"] = HOSTILE
            variant["figures"] = {HOSTILE: 1.0}
            for product in variant["products_at_best_throughput"]:
                product["module"], product["shape"] = HOSTILE, LONG
        (folder / "sweep.json").write_text(json.dumps(sweep))
        compared = self.folder / "hostile-compare"
        compared.mkdir()
        comparison = (RECIPES / "compare/results/fp32_bf16.json").read_text()
        for old, new in [("fp32", HOSTILE), ("bf16", HOSTILE + "2"), ("accuracy", HOSTILE + "a")]:
            comparison = comparison.replace(f'"{old}"', json.dumps(new))
        (compared / "compare.json").write_text(comparison)
        for each in (folder, compared):
            self.requests.clear()
            page = self.open(self.draw(each), 390)
            page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            self.assertIsNone(page.evaluate("window.hacked ?? null"))
            self.assertEqual(page.evaluate("document.querySelectorAll('img, main script, body > script').length"), 3)
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 390)
            self.check_drawn(page)
            self.check_quiet()

    def test_the_page_prints(self):
        page = self.open(self.draw(write_run(self.folder / "print", 50)), scheme="dark")
        pdf = page.pdf()
        self.assertTrue(pdf.startswith(b"%PDF"))
        page.emulate_media(media="print")
        self.assertEqual(page.evaluate("getComputedStyle(document.querySelector('.switches')).display"), "none")
        self.check_quiet()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("autotrain")
    parser.add_argument("--shots", type=Path)
    parser.add_argument("rest", nargs="*")
    options = parser.parse_args()
    AUTOTRAIN, SHOTS = os.path.abspath(options.autotrain), options.shots
    unittest.main(argv=[sys.argv[0], *options.rest])
