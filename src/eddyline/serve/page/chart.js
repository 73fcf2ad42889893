// Drawings: an estimate with its interval as a band over time, and a group's interval as a bar.
// Everything is made of elements and text nodes: nothing from data is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function compact(number) {
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size >= 1e15 || size < 1e-4) return number.toExponential(2);
  return new Intl.NumberFormat(undefined, { notation: size >= 1e5 ? "compact" : "standard", maximumSignificantDigits: 5 }).format(number);
}

const clock = (seconds, span) =>
  new Date(seconds * 1000).toLocaleString(undefined, span > 86400
    ? { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }
    : { hour: "2-digit", minute: "2-digit", second: "2-digit" });

// Points are [epoch, time, value, low, high, exact]. Runs of neighbours whose cells are numbers; a gap ends one.
function runs(points, cells) {
  const found = [[]];
  for (const point of points) {
    if (cells.every((cell) => typeof point[cell] === "number")) found.at(-1).push(point);
    else if (found.at(-1).length) found.push([]);
  }
  return found.filter((run) => run.length);
}

function scale(points, width, height, left) {
  const times = points.map((point) => point[1]);
  const values = points.flatMap((point) => point.slice(2)).filter((value) => typeof value === "number");
  let [from, to] = [times[0], times.at(-1)];
  let low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
  if (from === to) { from -= 1; to += 1; }
  const size = Math.max(Math.abs(low), Math.abs(high));
  const room = high - low > size * 1e-9 ? (high - low) * 0.08 : size * 0.05 || 1;
  low -= room; high += room;
  return {
    from, to, low, high,
    x: (time) => left + (time - from) / (to - from) * (width - left - 8),
    y: (value) => 8 + (high - value) / (high - low) * (height - 30),
  };
}

const path = (run, at, cell) => run.map((point, i) => `${i ? "L" : "M"}${at.x(point[1]).toFixed(1)} ${at.y(point[cell]).toFixed(1)}`).join("");

// Round numbers between two ends, about three of them.
function ticks(low, high) {
  const rough = (high - low) / 3, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * size).find((each) => each >= rough);
  const first = Math.ceil(low / step), last = Math.floor(high / step);
  return Array.from({ length: Math.min(last - first + 1, 5) }, (_, i) => (first + i) * step);
}

// Draws the history of an estimate into a figure; label: what a screen reader says; unit: of the numbers at the side.
export function draw(figure, points, label, unit = "") {
  const width = Math.max(figure.clientWidth, 160), height = 150, left = 58;
  const at = scale(points, width, height, left);
  const parts = [];
  for (const value of ticks(at.low, at.high)) {
    const y = at.y(value);
    parts.push(svg("line", { class: "grid", x1: left, x2: width - 8, y1: y, y2: y }));
    parts.push(svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, `${compact(value)}${unit}`));
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
  parts.push(svg("text", { x: left, y: height - 6 }, clock(at.from, span)));
  parts.push(svg("text", { x: width - 8, y: height - 6, "text-anchor": "end" }, clock(at.to, span)));
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
