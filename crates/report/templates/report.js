// Sorts a table by a clicked heading. The page is complete without it.
for (const table of document.querySelectorAll("table[data-sort]")) {
  table.querySelectorAll("th").forEach((heading, column) => {
    heading.tabIndex = 0;
    const sort = () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        const order = x === "" || y === "" ? (x === "") - (y === "") : x - y || x.localeCompare(y, "en", { numeric: true });
        return down ? -order : order;
      });
      table.tBodies[0].append(...rows);
    };
    heading.addEventListener("click", sort);
    heading.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
}

// Draws what was sampled while a cell ran, once its account is opened: one panel a quantity, one line a connection.
const sampled = JSON.parse(document.getElementById("timelines")?.textContent ?? "null");

const drawTimelines = (into, lines, standstills) => {
  const [width, left, right, panel, pitch] = [820, 70, 10, 76, 112];
  const make = (parent, name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    if (text !== undefined) element.textContent = text;
    return parent.appendChild(element);
  };
  // Three digits at most, and the unit that suits the size.
  const short = (value) => String(Number(value.toPrecision(3))).replace(/e\+?/, "·10^");
  const scaled = (value, units) => {
    const [size, unit] = units.find(([size]) => Math.abs(value) >= size) ?? units.at(-1);
    return `${short(value / size)} ${unit}`;
  };
  const say = (value, unit) => {
    if (value === 0) return "0";
    if (unit === "us") return scaled(value, [[1e6, "s"], [1e3, "ms"], [1, "µs"]]);
    if (unit === "bytes") return scaled(value, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
    return short(value);
  };
  const round = (step) => {
    const one = 10 ** Math.floor(Math.log10(step));
    return [1, 2, 5, 10].map((m) => m * one).find((mark) => mark >= step * 0.999);
  };
  const parsed = lines.map(([quantity, which, times, values]) => {
    let now = 0;
    const at = times === "" ? [] : times.split(" ").map((step) => (now += Number(step)) / 1e3);
    return { quantity, which, at, values: values === "" ? [] : values.split(" ").map(Number) };
  });
  const shown = sampled.quantities.map((_, index) => parsed.filter((line) => line.quantity === index));
  const panels = shown.map((own, index) => [sampled.quantities[index], own]).filter(([, own]) => own.length > 0);
  const end = parsed.reduce((most, line) => Math.max(most, line.at.at(-1) ?? 0), 0) || 1;
  const x = (t) => left + (t / end) * (width - left - right);
  const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a828b"];
  const height = panels.length * pitch + 36;
  const svg = make(into, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  make(svg, "title", {}, "Quantities of the connections over time");
  const mark = round(end / 8);
  // Where the machine stood still: a band behind the lines of each panel.
  const still = standstills === "" ? [] : standstills.split(" ").map(Number);
  const bands = still.flatMap((at, i) => (i % 2 ? [] : [[at / 1e3, still[i + 1] / 1e3]])).filter(([at]) => at >= 0 && at <= end);
  panels.forEach(([{ heading, unit }, own], index) => {
    const top = index * pitch + 24;
    const all = own.flatMap((line) => line.values);
    const [low, high] = all.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [0, 0]);
    const step = round((high - low || 1) / 3);
    const [from, to] = [Math.floor(low / step) * step, Math.max(Math.ceil(high / step), 1) * step];
    const y = (value) => top + panel - ((value - from) / (to - from)) * panel;
    make(svg, "text", { x: 0, y: top - 11, class: "what" }, heading);
    bands.forEach(([at, length]) => {
      const wide = Math.max(x(Math.min(at + length, end)) - x(at), 1);
      const band = make(svg, "rect", { x: x(at).toFixed(1), y: top, width: wide.toFixed(1), height: panel, class: "still" });
      make(band, "title", {}, `the machine stood still for ${short(length * 1e3)} ms`);
    });
    if (own.length === 1) {
      const words = `largest ${say(high, unit)}, at the end ${say(all.at(-1) ?? 0, unit)}`;
      make(svg, "text", { x: width - right, y: top - 11, "text-anchor": "end" }, words);
    } else {
      const names = make(svg, "text", { x: width - right, y: top - 11, "text-anchor": "end" });
      own.forEach((line, number) => {
        const style = `fill: ${colours[number % colours.length]}; font-weight: 600`;
        make(names, "tspan", { style, dx: number === 0 ? 0 : 10 }, line.which || "#1");
      });
    }
    for (let value = from; value <= to + step / 2; value += step) {
      const kind = Math.abs(value - from) < step / 2 ? "axis" : "rule";
      make(svg, "line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: kind });
      const label = Math.abs(value) < step / 2 ? "0" : say(value, unit);
      make(svg, "text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, label);
    }
    own.forEach((line, number) => {
      const d = line.values.map((v, i) => `${i ? "L" : "M"}${x(line.at[i]).toFixed(1)} ${y(v).toFixed(1)}`).join("");
      const colour = colours[number % colours.length];
      const path = make(svg, "path", { d, fill: "none", stroke: colour, "stroke-width": 1.4, "stroke-linejoin": "round" });
      make(path, "title", {}, `${heading} ${line.which}`.trim());
    });
  });
  for (let t = 0; t <= end * 1.001; t += mark) {
    make(svg, "text", { x: x(t), y: height - 18, "text-anchor": "middle" }, short(t));
  }
  const axis = "seconds since the start of sending" + (bands.length ? "; grey: the machine stood still" : "");
  make(svg, "text", { x: (left + width) / 2, y: height - 3, "text-anchor": "middle" }, axis);
};

for (const place of document.querySelectorAll("[data-timelines]")) {
  const details = place.closest("details");
  const index = place.dataset.timelines;
  const draw = () => {
    if (details.open && place.childElementCount === 0) drawTimelines(place, sampled.cells[index], sampled.standstills[index]);
  };
  details.addEventListener("toggle", draw);
  draw();
}
