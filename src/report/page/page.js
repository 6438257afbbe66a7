// The page from its data. Texts reach it through textContent only: nothing in them is read as HTML.

const kData = JSON.parse(document.getElementById("data").textContent);
const kRowsShown = 25;

function element(parent, name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  parent.append(made);
  return made;
}

// A table of which one leaf at a time is in the page. `row(i)` gives the cells of a row.
// `shade[i][c]` is how dark the ground of a cell is, from 0 to 1; `bars[i]` how long the bar behind a row is.
function pagedTable(parent, { title = "", header, count, row, shade = [], bars = [] }) {
  const table = element(element(parent, "div", "", "scroll"), "table");
  if (title) element(table, "caption", title);
  const width = Math.max(header.length, count > 0 ? row(0).length : 0);
  const isNumber = cell => /^[-−+.\d][\d.,]*(e[-+]?\d+)?( ?[%\wµ]{0,5}(\/s)?)?$|^–?$/.test(cell);
  const sample = Array.from({ length: Math.min(count, 100) }, (_, i) => row(i));
  const numeric = Array.from({ length: width }, (_, c) => sample.every(cells => isNumber(cells[c] ?? "")));
  const cellsOf = (line, name, cells) => cells.forEach((cell, c) => element(line, name, cell, header.length && numeric[c] ? "number" : ""));
  if (header.length > 0) cellsOf(element(element(table, "thead"), "tr"), "th", header);
  const body = element(table, "tbody");
  const show = first => {
    body.replaceChildren();
    for (let i = first; i < Math.min(count, first + kRowsShown); ++i) {
      const line = element(body, "tr");
      cellsOf(line, "td", row(i));
      (shade[i] ?? []).forEach((dark, c) => {
        line.cells[c].style.background = `color-mix(in srgb, var(--c0) ${Math.round(60 * dark)}%, transparent)`;
      });
      if (bars.length > 0) {
        const bar = element(element(line, "td", "", "bar"), "div");
        bar.style.width = `${100 * bars[i]}%`;
      }
    }
  };
  show(0);
  if (count > kRowsShown) addLeaves(parent, count, show);
}

function addLeaves(parent, count, show) {
  const bar = element(parent, "div", "", "switches leaves");
  let first = 0;
  const go = to => {
    first = Math.min(Math.max(0, to), Math.floor((count - 1) / kRowsShown) * kRowsShown);
    place.textContent = `${numberText(first + 1)} to ${numberText(Math.min(count, first + kRowsShown))} of ${numberText(count)}`;
    show(first);
  };
  const button = (text, label, to) => {
    const made = element(bar, "button", text);
    made.setAttribute("aria-label", label);
    made.onclick = () => go(to());
  };
  button("«", "first rows", () => 0);
  button("‹", "rows before", () => first - kRowsShown);
  const place = element(bar, "span");
  button("›", "next rows", () => first + kRowsShown);
  button("»", "last rows", () => count);
  go(0);
}

// Tables have the numbers of the data, not those of the axes' units.
const kUnitOfData = { number: "", bytes: " (B)", seconds: " (s)", percent: " (fraction)" };

// Series with the same x stand side by side, others in tables of their own.
function chartTables(parent, chart) {
  const inData = (name, axis) => name + kUnitOfData[axis.format];
  const groups = new Map();
  for (const series of chart.series) {
    const key = series.x.join();
    groups.set(key, [...(groups.get(key) ?? []), series]);
  }
  for (const group of groups.values()) {
    const columns = chart.x.map((axis, a) => [inData(axis.label, axis), kData.columns[group[0].x[a]].map(numberText)]);
    for (const series of group) {
      columns.push([inData(series.name, chart.y), series.y.map(numberText)]);
      if (series.low.length > 0) columns.push([series.band[0], series.low.map(numberText)], [series.band[1], series.high.map(numberText)]);
      if (series.labels.length > 0) columns.push(["", series.labels]);
    }
    pagedTable(parent, { header: columns.map(column => column[0]), count: group[0].y.length, row: i => columns.map(column => column[1][i]) });
  }
  if (chart.marks.length > 0) {
    pagedTable(parent, { header: [...chart.x.map(axis => inData(axis.label, axis)), "mark"], count: chart.marks.length,
                         row: i => [...chart.marks[i].x.map(numberText), chart.marks[i].text] });
  }
}

// Filled when it is opened for the first time.
function lazyDetails(parent, title, fill) {
  const details = element(parent, "details", "", "screen");
  element(details, "summary", title);
  details.addEventListener("toggle", () => { if (details.open && details.children.length === 1) fill(details); });
}

function checkbox(parent, text, checked, change) {
  const label = element(parent, "label");
  const box = element(label, "input");
  box.type = "checkbox";
  box.checked = checked;
  box.onchange = () => change(box.checked);
  label.append(text);
}

function axisSwitch(bar, plot) {
  const select = element(element(bar, "label", "x "), "select", "", "x-axis");
  for (const axis of plot.chart.x) element(select, "option", axis.label);
  select.onchange = () => {
    kShared.x = select.value;
    for (const other of document.querySelectorAll("select.x-axis")) {
      if ([...other.options].some(option => option.value === select.value)) other.value = select.value;
    }
    kShared.plots.forEach(each => each.redraw());
  };
}

function smoothingSwitch(bar) {
  const range = element(element(bar, "label", "smoothing "), "input", "", "smoothing");
  Object.assign(range, { type: "range", min: 0, max: 0.99, step: 0.01, value: kShared.smoothing });
  range.oninput = () => {
    kShared.smoothing = Number(range.value);
    document.querySelectorAll("input.smoothing").forEach(other => { other.value = range.value; });
    kShared.plots.filter(each => each.chart.series.some(series => series.smooth)).forEach(each => each.redraw());
  };
}

function addChart(parent, chart) {
  const figure = element(parent, "figure");
  const canvas = document.createElement("canvas");
  const plot = new Plot(chart, canvas);
  plot.measure();
  const title = chart.title + (plot.unit.y.name ? ` (${plot.unit.y.name})` : "");
  element(figure, "figcaption", title);
  if (!chart.series.some(series => series.y.some(value => value !== null))) {
    element(figure, "p", "Nothing was measured.", "note");
    return;
  }
  const bar = element(figure, "div", "", "switches");
  if (chart.x.length > 1) axisSwitch(bar, plot);
  checkbox(bar, "log x", chart.x[0].log, on => { plot.log.x.fill(on); plot.draw(); });
  checkbox(bar, "log y", chart.y.log, on => { plot.log.y = on; plot.draw(); });
  if (chart.series.some(series => series.smooth)) smoothingSwitch(bar);
  const holder = element(figure, "div", "", "canvas");
  holder.append(canvas);
  holder.style.setProperty("--legend", `${Math.max(0, Math.ceil(chart.series.length / 3) - 2)}`);  // lines of names
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${title}; its numbers stand in the table below`);
  const longest = Math.max(...chart.series.map(series => series.each));
  if (longest > 1) {
    element(figure, "p", `Each point is the mean of ${numberText(longest)} rows; the shade reaches from their least to their greatest value.`, "note");
  }
  lazyDetails(figure, "numbers", details => chartTables(details, chart));
  kInView.observe(canvas);
  canvas.plot = plot;
}

// Plots are drawn when they come into view: a page may have dozens.
const kInView = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    kInView.unobserve(target);
    target.plot.draw();
  }
}, { rootMargin: "300px" });

function addSection(section) {
  const details = element(element(document.querySelector("main"), "section"), "details");
  details.open = section.open;
  element(details, "summary", section.title);
  for (const text of section.paragraphs) element(details, "p", text);
  if (section.charts.length > 0) {
    const plots = element(details, "div", "", "plots");
    for (const chart of section.charts) addChart(plots, chart);
  }
  const many = section.pictures.length > 1 || section.pictures.some(picture => picture.caption.includes("\n"));
  const side = many ? element(details, "div", "", "pictures") : details;
  for (const picture of section.pictures) {
    const figure = element(side, "figure");
    element(figure, "figcaption", picture.caption);
    Object.assign(element(figure, "img"), { src: `data:image/png;base64,${picture.png}`, alt: picture.caption });
  }
  for (const table of section.tables) pagedTable(details, { ...table, count: table.rows.length, row: i => table.rows[i] });
  for (const listing of section.listings) {
    if (listing.title) element(details, "p", listing.title);
    element(details, "pre", listing.text);
  }
}

function applyTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const chosen = document.getElementById("theme").value || (dark ? "dark" : "light");
  document.documentElement.classList.toggle("dark", chosen === "dark" && !kPrint.matches);
  kShared.plots.forEach(plot => plot.redraw());
}

const kPrint = matchMedia("print");
document.title = kData.title;
document.querySelector("h1").textContent = kData.title;
document.getElementById("subtitle").textContent = kData.subtitle;
applyTheme();
kData.sections.forEach(addSection);
document.getElementById("theme").onchange = applyTheme;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);

// Paper is white, and shows everything.
addEventListener("beforeprint", () => {
  document.documentElement.classList.remove("dark");
  document.querySelectorAll("section > details").forEach(details => { details.open = true; });
  kShared.plots.filter(plot => plot.canvas.isConnected).forEach(plot => plot.draw());
});
addEventListener("afterprint", applyTheme);
