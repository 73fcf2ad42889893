// Drawings: an estimate with its interval as a band over time, and a group's interval as a bar.
// Everything is made of elements and text nodes: nothing from data is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const UNITS = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]];

// Labels of ticks that differ from each other: in thousands, millions or billions where few digits distinguish them.
function labels(values, step, unit) {
  const largest = values.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  if (largest >= 1e15 || (largest > 0 && largest < 1e-6)) return values.map((value) => value.toExponential(3) + unit);
  const places = (size) => Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  const [size, letter] = UNITS.find(([each]) => largest >= 10 * each && places(each) <= 2) ?? [1, ""];
  const digits = Math.min(places(size), 12);
  const format = new Intl.NumberFormat(undefined, { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return values.map((value) => (value === 0 ? "0" : format.format(value / size) + letter) + unit);
}

const clock = (seconds, span, timeZone) =>
  new Date(seconds * 1000).toLocaleString(undefined, span > 60 * 86400 || (timeZone && span % 86400 === 0)
    ? { timeZone, year: "numeric", month: "short", day: "numeric" }
    : span > 86400
    ? { timeZone, month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }
    : { timeZone, hour: "2-digit", minute: "2-digit", second: "2-digit" });

// Points are [epoch, time, value, low, high, exact]. Runs of neighbours whose cells are numbers; a gap ends one.
function runs(points, cells) {
  const found = [[]];
  for (const point of points) {
    if (cells.every((cell) => typeof point[cell] === "number")) found.at(-1).push(point);
    else if (found.at(-1).length) found.push([]);
  }
  return found.filter((run) => run.length);
}

// The least and the largest number to draw, with some margin.
function bounds(points) {
  const values = points.flatMap((point) => point.slice(2)).filter((value) => typeof value === "number");
  const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
  const size = Math.max(Math.abs(low), Math.abs(high));
  const margin = high - low > size * 1e-9 ? (high - low) * 0.08 : size * 0.05 || 1;
  return [low - margin, high + margin];
}

function scale(points, low, high, width, height, left) {
  let [from, to] = [points[0][1], points.at(-1)[1]];
  if (from === to) { from -= 1; to += 1; }
  return {
    from, to,
    x: (time) => left + (time - from) / (to - from) * (width - left - 8),
    y: (value) => 8 + (high - value) / (high - low) * (height - 30),
  };
}

const path = (run, at, cell) => run.map((point, i) => `${i ? "L" : "M"}${at.x(point[1]).toFixed(1)} ${at.y(point[cell]).toFixed(1)}`).join("");

// Round numbers between two ends, about three of them, and how far they are apart.
function ticks(low, high) {
  const rough = (high - low) / 3, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * size).find((each) => each >= rough);
  const first = Math.ceil(low / step), last = Math.floor(high / step);
  return [Array.from({ length: Math.min(last - first + 1, 5) }, (_, i) => (first + i) * step), step];
}

// Draws an estimate over time into a figure; label: what a screen reader says; unit: of the numbers at the side;
// timeZone: in which times are shown, that of the reader by default.
export function draw(figure, points, label, unit = "", timeZone = undefined) {
  const width = Math.max(figure.clientWidth, 160), height = 150;
  const [low, high] = bounds(points), [values, step] = ticks(low, high), texts = labels(values, step, unit);
  const left = 14 + 6.6 * texts.reduce((most, text) => Math.max(most, text.length), 0);
  const at = scale(points, low, high, width, height, left);
  const parts = [];
  for (const [i, value] of values.entries()) {
    const y = at.y(value);
    parts.push(svg("line", { class: "grid", x1: left, x2: width - 8, y1: y, y2: y }));
    parts.push(svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, texts[i]));
  }
  for (const run of runs(points, [3, 4])) {
    const back = [...run].reverse();
    parts.push(svg("path", { class: "band", d: `${path(run, at, 4)}${path(back, at, 3).replace("M", "L")}Z` }));
  }
  for (const run of runs(points, [5])) parts.push(svg("path", { class: "exact", d: path(run, at, 5) }));
  for (const run of runs(points, [2])) parts.push(svg("path", { class: "line", d: path(run, at, 2) }));
  const last = points.at(-1);
  parts.push(svg("circle", { class: "last", cx: at.x(last[1]), cy: at.y(last[2]), r: 3.5 }));
  const span = at.to - at.from;
  parts.push(svg("text", { x: left, y: height - 6 }, clock(at.from, span, timeZone)));
  parts.push(svg("text", { x: width - 8, y: height - 6, "text-anchor": "end" }, clock(at.to, span, timeZone)));
  figure.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...parts));
}

// A bar from 0 to a value with its interval, on the scale of all bars of a column.
export function interval(numbers, least, most) {
  const at = (value) => 2 + (value - least) / ((most - least) || 1) * 136;
  const zero = at(Math.min(Math.max(0, least), most)), value = at(numbers.value);
  const parts = [svg("rect", { class: "fill", x: Math.min(zero, value), y: 3, width: Math.max(Math.abs(value - zero), 1), height: 12 })];
  if (typeof numbers.low === "number" && typeof numbers.high === "number" && !numbers.exact) {
    const low = at(numbers.low), high = at(numbers.high);
    parts.push(svg("line", { class: "span", x1: low, x2: high, y1: 9, y2: 9 }));
    for (const end of [low, high]) parts.push(svg("line", { class: "span", x1: end, x2: end, y1: 5, y2: 13 }));
  }
  return svg("svg", { viewBox: "0 0 140 18", "aria-hidden": "true", preserveAspectRatio: "none" }, ...parts);
}
