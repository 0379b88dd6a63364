// Sorts a table by a selected heading.
const collator = new Intl.Collator("en", { numeric: true });
for (const table of document.querySelectorAll("table[data-sort]")) {
  const body = table.tBodies[0];
  const headings = [...table.querySelectorAll("th")];
  headings.forEach((heading, column) => {
    heading.tabIndex = 0;
    const sort = () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const keys = new Map([...body.rows].map((row) => [row, key(row)]));
      // Empty fields come last in both directions.
      const order = (a, b) => {
        const [x, y] = [keys.get(a), keys.get(b)];
        if (x === "" || y === "") return (x === "") - (y === "");
        return (down ? -1 : 1) * (x - y || collator.compare(x, y));
      };
      body.append(...[...keys.keys()].sort(order));
    };
    heading.addEventListener("click", sort);
    heading.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
}

// Three digits at most, and the unit that suits the size.
const short = (value) => String(Number(value.toPrecision(3))).replace(/e\+?/, "·10^");
const count = (value) => (Math.abs(value) < 1e4 ? String(value) : value.toLocaleString("en").replaceAll(",", "\u202f"));
const UNITS = {
  us: [[1e6, "s"], [1e3, "ms"], [1, "µs"]],
  bytes: [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
};
const say = (value, unit) => {
  if (value === 0 || !UNITS[unit]) return short(value);
  const [size, name] = UNITS[unit].find(([size]) => Math.abs(value) >= size) ?? UNITS[unit].at(-1);
  return `${short(value / size)} ${name}`;
};

const make = (parent, name, text, attributes = {}) => {
  const svg = parent.namespaceURI === "http://www.w3.org/2000/svg" || name === "svg";
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  if (text !== undefined) element.textContent = text;
  return parent.appendChild(element);
};

// A table with a heading above it; columns after `texts` hold numbers.
const tabulate = (into, title, headings, texts, rows) => {
  if (rows.length === 0) return;
  make(into, "h3", title);
  const table = make(make(into, "div", undefined, { class: "scroll" }), "table");
  const line = (parent, cell, values) => {
    const row = make(parent, "tr");
    values.forEach((value, column) => make(row, cell, value, texts.includes(column) ? {} : { class: "n" }));
  };
  line(make(table, "thead"), "th", headings);
  const body = make(table, "tbody");
  rows.forEach((values) => line(body, "td", values));
};

// Quantities over time: one panel a quantity, one line a connection, grey bands where the machine stood still.
const draw = (into, quantities, { timelines, standstills }) => {
  const [width, left, right, panel, pitch] = [820, 70, 10, 76, 112];
  const round = (step) => {
    const one = 10 ** Math.floor(Math.log10(step));
    return [1, 2, 5, 10].map((m) => m * one).find((mark) => mark >= step * 0.999);
  };
  const panels = quantities.map((quantity, index) => [quantity, timelines.filter(([own]) => own === index)]);
  const shown = panels.filter(([, lines]) => lines.length > 0);
  const end = Math.max(...timelines.map(([, , points]) => points.at(-1)?.[0] ?? 0), 0) || 1;
  const x = (t) => left + (t / end) * (width - left - right);
  const height = shown.length * pitch + 36;
  const svg = make(make(into, "div", undefined, { class: "timelines" }), "svg", undefined, { viewBox: `0 0 ${width} ${height}`, role: "img" });
  make(svg, "title", "Quantities over time");
  const bands = standstills.map(([at, length]) => [at / 1e3, length / 1e3]).filter(([at]) => at >= 0 && at <= end);
  shown.forEach(([[heading, unit], lines], index) => {
    const top = index * pitch + 24;
    const all = lines.flatMap(([, , points]) => points.map(([, value]) => value).filter((value) => value !== null));
    const [low, high] = all.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [0, 0]);
    const step = round((high - low || 1) / 3);
    const [from, to] = [Math.floor(low / step) * step, Math.max(Math.ceil(high / step) * step, step)];
    const y = (value) => top + panel - ((value - from) / (to - from)) * panel;
    make(svg, "text", heading, { x: 0, y: top - 11, class: "what" });
    bands.forEach(([at, length]) => {
      const wide = Math.max(x(Math.min(at + length, end)) - x(at), 1);
      const band = make(svg, "rect", undefined, { x: x(at), y: top, width: wide, height: panel, class: "still" });
      make(band, "title", `the machine stood still for ${short(length * 1e3)} ms`);
    });
    const names = make(svg, "text", undefined, { x: width - right, y: top - 11, "text-anchor": "end" });
    if (lines.length === 1) names.textContent = `max ${say(high, unit)}, at the end ${say(all.at(-1) ?? 0, unit)}`;
    for (let value = from; value <= to + step / 2; value += step) {
      make(svg, "line", undefined, { x1: left, x2: width - right, y1: y(value), y2: y(value), class: value === from ? "axis" : "grid" });
      make(svg, "text", Math.abs(value) < step / 2 ? "0" : say(value, unit), { x: left - 8, y: y(value) + 4, "text-anchor": "end" });
    }
    lines.forEach(([, which, points], number) => {
      const colour = `s${number % 7}`;
      if (lines.length > 1) make(names, "tspan", which || "#1", { class: `f ${colour}`, dx: number === 0 ? 0 : 10 });
      const begins = (i) => i === 0 || points[i - 1][1] === null;
      const step = ([t, v], i) => (v === null ? "" : `${begins(i) ? "M" : "L"}${x(t).toFixed(1)} ${y(v).toFixed(1)}${begins(i) ? "h0" : ""}`);
      make(svg, "path", undefined, { d: points.map(step).join(""), class: `l ${colour}` });
    });
  });
  const mark = round(end / 8);
  for (let t = 0; t <= end * 1.001; t += mark) {
    make(svg, "text", short(t), { x: x(t), y: height - 18, "text-anchor": "middle" });
  }
  const axis = "seconds since the start of sending" + (bands.length ? "; grey: the machine stood still" : "");
  make(svg, "text", axis, { x: (left + width) / 2, y: height - 3, "text-anchor": "middle" });
};

// What is known of a cell, once it is opened.
let details = null;
const open = (into, index) => {
  details ??= JSON.parse(document.getElementById("details").textContent);
  const cell = details.cells[index];
  const inside = make(into, "div", undefined, { class: "inside" });
  if (cell.timelines.length > 0) draw(inside, details.quantities, cell);
  cell.remarks.forEach((remark) => make(inside, "p", remark, { class: "note" }));
  const ledger = cell.ledger.map((entry) => [entry.place, entry.name, count(entry.count), entry.unit, entry.source]);
  tabulate(inside, "Ledger, in the order of the packet's way", ["Place", "What", "Count", "Unit", "Counter"], [0, 1, 3, 4], ledger);
  const quantiles = [...new Set(cell.samples.flatMap(([, sample]) => sample.values.map(([q]) => q)))].sort((a, b) => a - b);
  const samples = cell.samples.map(([name, { n, mean, max, values }]) => {
    const at = new Map(values);
    const word = (value) => (value == null ? "" : say(value, "us"));
    return [name, count(n), word(mean), ...quantiles.map((q) => word(at.get(q))), word(max)];
  });
  const names = quantiles.map((q) => `p${Number((q * 100).toFixed(4))}`);
  tabulate(inside, "Distributions", ["", "n", "mean", ...names, "max"], [0], samples);
  const drops = cell.drops.map(([link, flow, dropped, packets, first]) => [link, flow, dropped, count(packets), first]);
  tabulate(inside, "Planned drops", ["Link", "Flow", "Dropped", "of packets", "Packet indexes"], [0, 1, 4], drops);
};
document.querySelectorAll("details").forEach((cell, index) => {
  const once = () => cell.open && cell.children.length === 1 && open(cell, index);
  cell.addEventListener("toggle", once);
  once();
});
