"use strict";
// What pages share: elements, numbers as text, tables and curves. They draw the JSON in the page. No library, no network.
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// ---- the theme: the system's until the reader chooses; pages redraw on `resize`

const system = matchMedia("(prefers-color-scheme: dark)");
function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  dispatchEvent(new Event("resize"));
}
setTheme(system.matches);
system.addEventListener("change", () => setTheme(system.matches));
let beforePrint = null;
addEventListener("beforeprint", () => { beforePrint = document.documentElement.dataset.theme; setTheme(false); });
addEventListener("afterprint", () => setTheme(beforePrint === "dark"));
document.querySelector("nav").append(Object.assign(document.createElement("button"), {
  type: "button", id: "theme", textContent: "◐", title: "Light or dark", onclick: () => setTheme(document.documentElement.dataset.theme !== "dark"),
}));
at("theme").setAttribute("aria-label", "Light or dark");

// Draws by `build(width)` into `target`, and again when its width changes, so that text keeps its size. Returns a function that draws again.
function responsive(target, build) {
  let drawn = 0;
  const draw = () => {
    const width = Math.max(target.clientWidth - 2, 320);
    if (width !== drawn) target.replaceChildren(...build(drawn = width));
  };
  addEventListener("resize", draw);
  draw();
  return () => { drawn = 0; draw(); };
}

// ---- numbers as text, as the terminal's table writes them

function time(us) {
  if (Math.abs(us) >= 1e6) return (us / 1e6).toFixed(3) + "s";
  if (Math.abs(us) >= 1e3) return (us / 1e3).toFixed(3) + "ms";
  return us.toFixed(3) + "us";
}
function bytes(count) {
  for (const [size, unit] of [[2 ** 30, "GB"], [2 ** 20, "MB"], [2 ** 10, "KB"]]) if (Math.abs(count) >= size) return (count / size).toFixed(2) + " " + unit;
  return count + " B";
}
function many(count) {
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (count >= size) return (count / size).toFixed(2) + " " + unit;
  return String(count);
}
const unless0 = (text) => (value, row) => (value ? text(value, row) : "");
const percent = (part, whole) => (whole ? (100 * part / whole).toFixed(1) : "0.0") + " %";

// ---- elements

function element(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) name in made ? made[name] = value : made.setAttribute(name, value);
  made.append(...children);
  return made;
}
function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A table whose headings sort. Columns: [title, value of a row, text of that value].
function table(target, columns, rows, first, limit) {
  let sorted = [...rows], column = first, down = true, shown = limit || Infinity;
  const head = element("tr"), body = element("tbody");
  function draw() {
    const value = column !== null && columns[column][1];
    if (value) sorted.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (down ? -1 : 1));
    body.replaceChildren(...sorted.slice(0, shown).map((row) => element("tr", {}, ...columns.map(([, get, text]) => element("td", {}, text ? text(get(row), row) : get(row))))));
    [...head.children].forEach((cell, k) => k === column ? cell.setAttribute("aria-sort", down ? "descending" : "ascending") : cell.removeAttribute("aria-sort"));
  }
  columns.forEach(([title], k) => head.append(element("th", {scope: "col"}, element("button", {type: "button", onclick: () => {
    [column, down] = [k, column === k ? !down : k > 0];
    draw();
  }}, title))));
  target.append(element("thead", {}, head), body);
  draw();
  return () => { shown = Infinity; draw(); };
}

// ---- curves in an SVG

// Lines over x and y. `series`: [{name, points: [[x, y]…], color, mark}]. A curve has holes where y is null.
function curves(series, options) {
  const {width = 1200, height = 260, title = "", log = false, label = "", text = String, across = (x) => String(+x.toPrecision(3)), unit = ""} = options;
  const all = series.flatMap(({points}) => points).filter(([, y]) => y !== null && (!log || y > 0));
  if (!all.length) return element("p", {className: "hint"}, "Nothing was recorded.");
  const scale = (y) => log ? Math.log10(y) : y, ys = all.map(([, y]) => scale(y)), xs = all.map(([x]) => x);
  const [left, right] = [Math.min(...xs), Math.max(...xs)], [low, high] = [Math.min(...ys), Math.max(...ys)];
  const heights = Array.from({length: 5}, (_, k) => [low + (high - low) * k / 4, height - 26 - (height - 60) * k / 4]);
  const labels = heights.map(([at]) => text(log ? 10 ** at : at)), edge = 14 + 7 * Math.max(...labels.map(({length}) => length), 6);
  const X = (x) => edge + (right > left ? (x - left) / (right - left) : 0.5) * (width - edge - 16);
  const Y = (y) => height - 26 - (high > low ? (scale(y) - low) / (high - low) : 0.5) * (height - 60);
  const made = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label});
  heights.forEach(([, y], k) => made.append(svg("path", {class: "axis", d: `M${edge} ${y}H${width - 16}`}), svg("text", {class: "soft", x: edge - 6, y: y + 4, "text-anchor": "end"}, labels[k])));
  if (title) made.append(svg("text", {class: "soft", x: 8, y: 18}, title));
  series.forEach(({name, points, color, mark}, k) => {
    let pen = "M";
    const line = points.map(([x, y]) => {
      if (y === null || (log && y <= 0)) { pen = "M"; return ""; }
      const step = `${pen}${X(x).toFixed(1)} ${Y(y).toFixed(1)}`;
      pen = "L";
      return step;
    }).join("");
    made.append(svg("path", {d: line, fill: "none", stroke: `var(--${color})`, "stroke-width": 1.8, "stroke-linejoin": "round"}));
    if (mark) points.filter(([, y]) => y !== null).forEach(([x, y]) => made.append(svg("circle", {cx: X(x), cy: Y(y), r: 3.5, fill: `var(--${color})`}, svg("title", {}, `${name} ${text(y)}`))));
    const at = width - series.slice(k).reduce((sum, {name}) => sum + Math.max(150, 40 + 7.5 * name.length), 0);
    made.append(svg("rect", {x: at, y: 8, width: 11, height: 11, fill: `var(--${color})`}), svg("text", {x: at + 16, y: 18}, name));
  });
  const gaps = Math.max(1, Math.floor(width / 200)), gap = (xs.every(Number.isInteger) ? Math.ceil : (x) => x)((right - left) / gaps), ticks = [];
  for (let x = left; x < right - gap / 2; x += gap) ticks.push(x);
  [...ticks, right].forEach((x, k) => {
    const last = k === ticks.length && k;
    made.append(svg("path", {class: "axis", d: `M${X(x)} ${height - 26}v5`}),
      svg("text", {class: "soft", x: X(x), y: height - 8, "text-anchor": last ? "end" : k ? "middle" : "start"}, across(x) + (last && unit ? ` ${unit}` : "")));
  });
  return made;
}
