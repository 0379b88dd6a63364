// Of a large run, everything of each cell is packed, in parts: what is asked for is unpacked, and no more of it.
const late = (() => {
  const parts = new Map();
  const unpacked = new Map();
  const KEPT = 8;
  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };
  const all = (kind) => {
    if (!parts.has(kind)) parts.set(kind, [...document.querySelectorAll(`script[data-later="${kind}"]`)]);
    return parts.get(kind);
  };
  // The last few stay unpacked.
  const part = (kind, number) => {
    const key = `${kind} ${number}`;
    const known = unpacked.get(key) ?? unpack(all(kind)[number].textContent);
    unpacked.delete(key);
    unpacked.set(key, known);
    if (unpacked.size > KEPT) unpacked.delete(unpacked.keys().next().value);
    return known;
  };
  return {
    part,
    // For each text of a kind, in their order.
    async each(kind, visit) {
      for (let number = 0, index = 0; number < all(kind).length; number++) {
        for (const text of await part(kind, number)) visit(text, index++);
      }
    },
  };
})();

// What of a text is seen.
const ENTITIES = { lt: "<", gt: ">", amp: "&", quot: '"' };
const seen = (markup) =>
  markup
    .replace(/<[^>]*>/g, "\n")
    .replace(/&(?:#(\d+)|(\w+));/g, (all, code, name) => (code ? String.fromCodePoint(code) : (ENTITIES[name] ?? all)));

const STEP = 200;
const lists = new Map();
for (const into of document.querySelectorAll("[data-list]")) {
  const kind = into.dataset.list;
  const [total, together] = [Number(into.dataset.all), Number(into.dataset.together)];
  const find = document.querySelector(`[data-find="${kind}"]`);
  const found = document.querySelector(`[data-found="${kind}"]`);
  const more = document.createElement("button");
  more.type = "button";
  // Which are to be seen, in their order; at first all of them, as they are.
  let view = null;
  let compare = null;
  let shown = into.children.length;
  // What was asked for last counts.
  let asked = 0;
  const say = () => {
    const left = (view?.length ?? total) - shown;
    more.textContent = `Show ${Math.min(left, STEP)} more of ${left}`;
    more.hidden = left === 0;
  };
  const busy = async (work) => {
    const own = ++asked;
    more.disabled = true;
    found.textContent = "…";
    try {
      const said = await work(() => own === asked);
      if (own === asked) found.textContent = said ?? "";
    } catch (error) {
      const why = typeof DecompressionStream === "undefined" ? "this browser is too old to unpack them" : error.message;
      if (own === asked) found.textContent = `not shown: ${why}; results.csv has every row`;
    }
    if (own === asked) more.disabled = false;
  };
  const append = async (current) => {
    const first = shown;
    const numbers = view?.slice(first, first + STEP) ?? [...Array(Math.min(STEP, total - first)).keys()].map((i) => first + i);
    const texts = [];
    for (const number of numbers) {
      const part = await late.part(kind, Math.floor(number / together));
      if (!current()) return;
      texts.push(part[number % together]);
    }
    const template = document.createElement("template");
    template.innerHTML = texts.join("\n");
    watch(template.content);
    if (first === 0) into.replaceChildren();
    shown = first + numbers.length;
    into.append(template.content);
    say();
  };
  const told = () => (view && find.value ? `${view.length} of ${total}` : "");
  const again = (current) => {
    shown = 0;
    return append(current).then(told);
  };
  const sorted = async () => {
    if (!compare) return;
    const keys = [];
    await late.each(kind, (text, number) => keys.push([compare.key(text), number]));
    view = (view ?? keys.map((_, number) => number)).sort((a, b) => compare.order(keys[a][0], keys[b][0]) || a - b);
  };
  more.addEventListener("click", () => busy((current) => append(current).then(told)));
  into.closest(".card").after(more);
  say();
  find.addEventListener("change", () =>
    busy(async (current) => {
      const wanted = find.value.toLowerCase();
      const numbers = [];
      await late.each(kind, (text, number) => seen(text).toLowerCase().includes(wanted) && numbers.push(number));
      if (!current()) return;
      view = numbers;
      await sorted();
      if (current()) return again(current);
    }),
  );
  lists.set(into, (by) => {
    compare = by;
    busy(async (current) => {
      view?.sort((a, b) => a - b);
      await sorted();
      if (current()) return again(current);
    });
  });
}

// Sorts a table by a clicked heading. The page of a small run is complete without it.
const collator = new Intl.Collator("en", { numeric: true });
for (const table of document.querySelectorAll("table[data-sort]")) {
  const body = table.tBodies[0];
  table.querySelectorAll("th").forEach((heading, column) => {
    heading.tabIndex = 0;
    const sort = () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      // What is empty comes last, whichever way.
      const order = (x, y) => {
        if (x === "" || y === "") return (x === "") - (y === "");
        const order = x - y || collator.compare(x, y);
        return down ? -order : order;
      };
      if (lists.has(body)) {
        const key = (text) => {
          const cell = text.split("<td", column + 2)[column + 1];
          return cell.match(/data-value="([^"]*)"/)?.[1] ?? seen(cell.slice(cell.indexOf(">") + 1, cell.indexOf("<")));
        };
        lists.get(body)({ key, order });
        return;
      }
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const keys = new Map([...body.rows].map((row) => [row, key(row)]));
      body.append(...[...keys.keys()].sort((a, b) => order(keys.get(a), keys.get(b))));
    };
    heading.addEventListener("click", sort);
    heading.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
}

// Draws what was sampled while a cell ran, once its account is opened: one panel a quantity, one line a connection.
let sampled = null;

const drawTimelines = async (into, index) => {
  sampled ??= JSON.parse(document.getElementById("timelines").textContent);
  const together = Number(document.querySelector("[data-together]")?.dataset.together);
  const part = sampled.cells ? sampled : await late.part("timelines", Math.floor(index / together));
  const own = sampled.cells ? index : index % together;
  const [lines, standstills] = [part.cells[own], part.standstills[own]];
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
    // "-": nothing was sampled, the line has a gap.
    const number = (value) => (value === "-" ? null : Number(value));
    return { quantity, which, at, values: values === "" ? [] : values.split(" ").map(number) };
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
    const all = own.flatMap((line) => line.values.filter((value) => value !== null));
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
      const begins = (i) => (line.values[i - 1] ?? null) === null;
      const step = (v, i) => `${begins(i) ? "M" : "L"}${x(line.at[i]).toFixed(1)} ${y(v).toFixed(1)}${begins(i) ? "h0" : ""}`;
      const d = line.values.map((v, i) => (v === null ? "" : step(v, i))).join("");
      const colour = colours[number % colours.length];
      const path = make(svg, "path", { d, fill: "none", stroke: colour, "stroke-width": 1.4, "stroke-linejoin": "round", "stroke-linecap": "round" });
      make(path, "title", {}, `${heading} ${line.which}`.trim());
    });
  });
  for (let t = 0; t <= end * 1.001; t += mark) {
    make(svg, "text", { x: x(t), y: height - 18, "text-anchor": "middle" }, short(t));
  }
  const axis = "seconds since the start of sending" + (bands.length ? "; grey: the machine stood still" : "");
  make(svg, "text", { x: (left + width) / 2, y: height - 3, "text-anchor": "middle" }, axis);
};

function watch(within) {
  for (const place of within.querySelectorAll("[data-timelines]")) {
    const details = place.closest("details");
    let drawn = false;
    const draw = () => {
      if (!details.open || drawn) return;
      drawn = true;
      drawTimelines(place, place.dataset.timelines).catch((error) => place.append(`not drawn: ${error.message}`));
    };
    details.addEventListener("toggle", draw);
    draw();
  }
}
watch(document);
