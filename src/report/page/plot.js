// One plot: what Chart.js is told of a chart of the page's data, and of the switches beside it.

const kPointStyles = ["circle", "triangle", "rect", "rectRot", "crossRot", "star", "cross"];
const kColours = 7;
const kLongestName = 60;

// All plots of the page share this.
const kShared = { x: null, smoothing: 0, plots: [] };

class Plot {
  constructor(chart, canvas) {
    this.chart = chart;
    this.canvas = canvas;
    this.axis = 0;
    this.log = { x: chart.x.map(axis => axis.log), y: chart.y.log };
    this.zoom = null;  // [least, greatest] x, in units of the axis
    this.hidden = new Set();
    this.drawing = null;
    kShared.plots.push(this);
  }

  columns() { return this.chart.series.map(series => kData.columns[series.x[this.axis]]); }

  draw() {
    if (this.drawing) this.drawing.destroy();
    this.style = getComputedStyle(document.documentElement);
    const index = this.chart.x.findIndex(axis => axis.label === kShared.x);
    if (index >= 0 && index !== this.axis) { this.axis = index; this.zoom = null; }
    this.measure();
    this.drawing = new Chart(this.canvas, {
      type: "line", data: { datasets: this.datasets() }, options: this.options(),
      plugins: [{ id: "ranges", beforeDatasetsDraw: plot => this.drawRanges(plot) },
                { id: "marks", afterDatasetsDraw: plot => this.drawMarks(plot) }],
    });
    this.listen();
  }

  redraw() { if (this.drawing) this.draw(); }

  measure() {
    const marked = this.chart.marks.map(mark => mark.x[this.axis]);
    const values = this.chart.series.flatMap(series => [series.y, series.low, series.high]);
    const edges = this.chart.ranges.flatMap(range => [range.low, range.high]).filter(Number.isFinite);
    this.extent = { x: extent([...this.columns(), marked]), y: extent([...values, edges]) };
    const unit = (axis, span) => unitFor(axis.format, span ? Math.max(...span.map(Math.abs)) : 1);
    this.unit = { x: unit(this.chart.x[this.axis], this.extent.x), y: unit(this.chart.y, this.extent.y) };
  }

  // A logarithm needs something above zero.
  logOf(way) {
    const asked = way === "x" ? this.log.x[this.axis] : this.log.y;
    return asked && this.extent[way] !== null && this.extent[way][1] > 0;
  }

  colour(series, index) {
    return this.style.getPropertyValue(`--c${(series.colour ?? index) % kColours}`).trim();
  }

  datasets() {
    return this.chart.series.flatMap((series, index) => {
      const smooth = series.smooth && kShared.smoothing > 0;
      const line = (values, more) => this.dataset(series, index, values, more);
      const out = [];
      if (series.low.length > 0) {
        const ghost = { aside: true, borderWidth: 0, pointRadius: 0, pointHitRadius: 0, stepped: false, showLine: true };
        out.push(line(series.low, { ...ghost, fill: false }),
                 line(series.high, { ...ghost, fill: "-1", backgroundColor: this.colour(series, index) + "33" }));
      }
      if (smooth) out.push(line(series.y, { aside: true, borderColor: this.colour(series, index) + "55", borderWidth: 1 }));
      out.push(line(smooth ? smoothed(series.y, kShared.smoothing) : series.y, {}));
      return out;
    });
  }

  dataset(series, index, values, more) {
    const colour = this.colour(series, index);
    const few = series.y.length === 1;
    const points = series.draw === "points" || series.draw === "line_and_points" || few;
    // With each round of the colours markers and dashes move on by one, so that no two series are drawn alike.
    const number = series.colour ?? index, group = Math.floor(number / kColours);
    return {
      label: shortText(series.name, kLongestName), of: index, series, data: this.points(series, values),
      hidden: this.hidden.has(index), borderColor: colour, backgroundColor: colour, borderWidth: 1.75,
      showLine: series.draw !== "points", stepped: series.draw === "step",
      borderDash: series.draw === "dashed" ? [7, 5] : group > 0 ? [2 + 2 * group, 3] : [],
      pointStyle: kPointStyles[(number + group) % kPointStyles.length], pointRadius: points ? 4 : 0, pointHitRadius: 6, ...more,
    };
  }

  points(series, values) {
    const xs = kData.columns[series.x[this.axis]];
    const show = (value, way) =>
      value === null || (this.logOf(way) && value <= 0) ? null : value / this.unit[way].size;
    const [from, to] = series.draw === "points" ? [0, xs.length] : this.visible(xs);
    return drawn(values, from, to, Math.max(300, this.canvas.clientWidth || 600))
      .map(i => ({ x: show(xs[i], "x"), y: show(values[i], "y"), i })).filter(point => point.x !== null);
  }

  // The stretch of an ascending column that the zoom shows, one point more at either end; all of another.
  visible(xs) {
    if (!this.zoom || xs.length < 600) return [0, xs.length];
    const [low, high] = this.zoom.map(x => x * this.unit.x.size);
    const from = xs.findIndex(x => x >= low), beyond = xs.findIndex(x => x > high);
    return [Math.max(0, (from < 0 ? xs.length : from) - 1), beyond < 0 ? xs.length : beyond + 1];
  }

  options() {
    const ink = this.style.getPropertyValue("--ink").trim(), grid = this.style.getPropertyValue("--line").trim();
    const legend = this.chart.series.length > 1;
    return {
      animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true, color: ink,
      interaction: { mode: "nearest", axis: this.chart.series.some(series => series.draw === "points") ? "xy" : "x", intersect: false },
      scales: { x: this.scale("x", this.chart.x[this.axis], ink, grid), y: this.scale("y", this.chart.y, ink, grid) },
      plugins: {
        legend: { display: legend, position: "bottom", onClick: (_, item, legend) => this.toggle(legend.chart.data.datasets[item.datasetIndex].of),
                  labels: { usePointStyle: true, boxWidth: 8, boxHeight: 8, filter: (item, data) => !data.datasets[item.datasetIndex].aside } },
        tooltip: { filter: item => !item.dataset.aside, callbacks: { title: items => this.tooltipTitle(items), label: item => this.tooltipLine(item) } },
      },
    };
  }

  scale(way, axis, ink, grid) {
    const log = this.logOf(way), unit = this.unit[way];
    const zoom = way === "x" && this.zoom ? { min: this.zoom[0], max: this.zoom[1] } : {};
    const shown = this.extent[way]?.map(edge => edge / unit.size) ?? [];
    const title = axis.label + (unit.name ? ` (${unit.name})` : "");
    return {
      type: log ? "logarithmic" : "linear", ...zoom, grid: { color: grid, borderColor: grid },
      suggestedMin: log && !(shown[0] > 0) ? undefined : shown[0], suggestedMax: shown[1],
      title: { display: title !== "", text: shortText(title, kLongestName), color: ink },
      ticks: { color: ink, maxRotation: 45, callback: value => this.tick(value, log) },
    };
  }

  tick(value, log) {
    const digit = Number(value.toExponential()[0]);
    const round = Math.abs(value / 10 ** Math.floor(Math.log10(value)) - digit) < 1e-6;
    return !log || (round && [1, 2, 5].includes(digit)) ? tickText(Number(value.toPrecision(6))) : null;
  }

  tooltipTitle(items) {
    if (items.length === 0) return "";
    const { series } = items[0].dataset, i = items[0].raw.i;
    return this.chart.x.map((axis, a) => `${shortText(axis.label, 30)} ${numberText(kData.columns[series.x[a]][i])}`).join(" · ");
  }

  tooltipLine(item) {
    const { series } = item.dataset, i = item.raw.i, unit = this.unit.y;
    const number = value => numberText(value === null ? null : Number((value / unit.size).toPrecision(6)));
    const band = series.low.length > 0 ? ` (${series.band[0]} ${number(series.low[i])}, ${series.band[1]} ${number(series.high[i])})` : "";
    const label = series.labels.length > 0 ? ` · ${shortText(series.labels[i], 80)}` : "";
    return ` ${item.dataset.label}: ${number(series.y[i])} ${unit.name}${band}${label}`;
  }

  toggle(index) {
    this.hidden.has(index) ? this.hidden.delete(index) : this.hidden.add(index);
    this.draw();
  }

  drawRanges(plot) {
    const { ctx, chartArea: area, scales } = plot;
    ctx.save();
    ctx.font = "11px system-ui, sans-serif";
    ctx.textAlign = "right";
    for (const range of this.chart.ranges) {
      if (this.logOf("y") && range.high <= 0) continue;
      const top = Math.max(area.top, scales.y.getPixelForValue(range.high / this.unit.y.size));
      const low = this.logOf("y") && range.low <= 0 ? area.bottom : scales.y.getPixelForValue(range.low / this.unit.y.size);
      const bottom = Math.min(area.bottom, low);
      if (bottom < area.top || top > area.bottom) continue;
      ctx.fillStyle = this.style.getPropertyValue("--c2").trim() + (range.low === range.high ? "" : "33");
      ctx.fillRect(area.left, top, area.right - area.left, Math.max(1, bottom - top));
      ctx.fillStyle = this.style.getPropertyValue("--faint").trim();
      const line = range.low === range.high;
      ctx.fillText(shortText(range.text, 40), area.right - 4, !line ? bottom - 4 : top < area.top + 14 ? top + 12 : top - 4);
    }
    ctx.restore();
  }

  // Every mark is a line; names hang from the top or stand on the bottom, as long as there is room for them.
  drawMarks(plot) {
    const { ctx, chartArea: area, scales } = plot;
    ctx.save();
    const faint = this.style.getPropertyValue("--faint").trim();
    ctx.setLineDash([3, 3]);
    ctx.font = "10px system-ui, sans-serif";
    const places = [{ y: area.top + 2, align: "right" }, { y: area.bottom - 2, align: "left" }];
    const written = places.map(() => -Infinity);
    let lastLine = -1;
    for (const mark of [...this.chart.marks].sort((a, b) => a.x[this.axis] - b.x[this.axis])) {
      const x = Math.round(scales.x.getPixelForValue(mark.x[this.axis] / this.unit.x.size));
      if (!(x >= area.left && x <= area.right) || x === lastLine) continue;
      lastLine = x;
      ctx.strokeStyle = ctx.fillStyle = mark.colour === null ? faint : this.style.getPropertyValue(`--c${mark.colour % kColours}`).trim();
      ctx.beginPath();
      ctx.moveTo(x + 0.5, area.top);
      ctx.lineTo(x + 0.5, area.bottom);
      ctx.stroke();
      const place = written.findIndex(last => x >= last + 12);
      if (place < 0) continue;
      written[place] = x;
      ctx.save();
      ctx.textAlign = places[place].align;
      ctx.translate(x - 3, places[place].y);
      ctx.rotate(-Math.PI / 2);
      ctx.fillText(shortText(mark.text, 24), 0, 0);
      ctx.restore();
    }
    ctx.restore();
  }

  // A stretch drawn with the mouse is shown larger; a double click shows all again.
  listen() {
    let begin = null;
    const inside = event => {
      const x = event.clientX - this.canvas.getBoundingClientRect().left, area = this.drawing.chartArea;
      return Math.min(Math.max(x, area.left), area.right);
    };
    this.canvas.onpointerdown = event => { begin = event.pointerType === "mouse" ? inside(event) : null; };
    this.canvas.onpointerup = event => {
      const end = begin === null ? null : inside(event);
      if (end !== null && Math.abs(end - begin) > 8) {
        this.zoom = [begin, end].sort((a, b) => a - b).map(x => this.drawing.scales.x.getValueForPixel(x));
        this.draw();
      }
      begin = null;
    };
    this.canvas.ondblclick = () => { this.zoom = null; this.draw(); };
  }
}
