// Numbers for people, and long series made short for drawing.

// The unit of an axis, chosen by the largest value on it: the divisor, and the unit's name.
const kUnits = {
  number: [[1, ""]],
  bytes: [[1, "B"], [2 ** 10, "KiB"], [2 ** 20, "MiB"], [2 ** 30, "GiB"], [2 ** 40, "TiB"]],
  seconds: [[1e-6, "µs"], [1e-3, "ms"], [1, "s"], [60, "min"], [3600, "h"]],
  percent: [[0.01, "%"]],
};

function unitFor(format, largest) {
  const units = kUnits[format];
  const fitting = units.filter(([size]) => size <= largest * (format === "seconds" ? 0.5 : 1));
  const [size, name] = fitting.length > 0 ? fitting[fitting.length - 1] : units[0];
  return { size, name };
}

const kGrouped = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 });
const kWhole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

function numberText(value) {
  if (value === null || !Number.isFinite(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return kWhole.format(value);
  const size = Math.abs(value);
  return size < 1e-4 || size >= 1e9 ? Number(value.toPrecision(6)).toExponential() : kGrouped.format(value);
}

// For the little room beside an axis: 50G, 2.5M.
function tickText(value) {
  const steps = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"]];
  const [size, name] = steps.find(([step]) => Math.abs(value) >= step) ?? [1, ""];
  return size === 1 || Math.abs(value) >= 1e18 ? numberText(value) : numberText(Number((value / size).toPrecision(6))) + name;
}

function shortText(text, most) {
  const characters = Array.from(text);
  return characters.length <= most ? text : characters.slice(0, most - 1).join("") + "…";
}

// The least and greatest finite value of many lists; null where there is none.
function extent(lists) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) {
    for (const value of list) {
      if (value === null) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : null;
}

// An exponential moving average with the weight that the start lacks made up for, so that it begins at the first value.
function smoothed(values, memory) {
  let sum = 0, weight = 0;
  return values.map(value => {
    if (value === null) return null;
    sum = memory * sum + (1 - memory) * value;
    weight = memory * weight + (1 - memory);
    return sum / weight;
  });
}

// Indices of what must be drawn of values[from, to) so that no least or greatest one is lost: at most two for
// each of `buckets` equal stretches, and one for a gap.
function drawn(values, from, to, buckets) {
  if (to - from <= 2 * buckets) return Array.from({ length: to - from }, (_, i) => from + i);
  const kept = [from];
  for (let b = 0; b < buckets; ++b) {
    const begin = from + Math.floor((to - from) * b / buckets), end = from + Math.floor((to - from) * (b + 1) / buckets);
    let low = -1, high = -1;
    for (let i = begin; i < end; ++i) {
      if (values[i] === null) continue;
      if (low < 0 || values[i] < values[low]) low = i;
      if (high < 0 || values[i] > values[high]) high = i;
    }
    const chosen = low < 0 ? [begin] : [Math.min(low, high), Math.max(low, high)];
    for (const i of chosen) if (i > kept[kept.length - 1]) kept.push(i);
  }
  if (kept[kept.length - 1] < to - 1) kept.push(to - 1);
  return kept;
}
