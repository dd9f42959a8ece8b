// Draws a training run. What it shares with other pages is in the profiler's common.js.
const short = (value) => value === null ? "" : value && Math.abs(value) < 1e-3 ? value.toExponential(1) : Number(value.toPrecision(4)).toString();
const hint = (text) => element("p", {className: "hint"}, text);
const COLORS = ["dispatch", "compiling", "kernels", "data", "loading", "planning"];

function loss() {
  at("summary").textContent = data.summary;
  const series = [{name: "training", points: data.train, color: "dispatch"}, {name: "validation", points: data.valid, color: "compiling", mark: true}].filter(({points}) => points.length);
  at("log").onchange = responsive(at("losscurve"), (width) => [curves(series, {width, log: at("log").checked, label: "Loss by batch", text: short, unit: "batches"})]);
}
// One picture for each of `all`, [{name, points}].
function pictures(target, all, unit, mark) {
  responsive(target, (width) => all.map(({name, points}, k) => curves([{name, points, color: COLORS[k % COLORS.length], mark}], {width, height: 180, label: `${name} by ${unit}`, text: short, unit: {epoch: "epochs", batch: "batches"}[unit]})));
}
function metrics() {
  if (data.metrics.length) pictures(at("metriccurves"), data.metrics, "epoch", true);
  table(at("epochs"), data.names.map((name, k) => [name, (row) => row[k], (value) => typeof value === "number" ? short(value) : value || ""]), data.epochs, null);
}
function schedule() {
  if (data.schedule.length) return pictures(at("schedulecurves"), data.schedule, "batch", false);
  at("schedulecurves").append(hint("Hyper-parameters were constant."));
}
function confusion() {
  if (!data.confusion) return at("matrix").append(hint("No classes were predicted."));
  const {names, counts} = data.confusion, most = Math.max(...counts.flat(), 1);
  const body = counts.map((row, k) => element("tr", {}, element("th", {scope: "row"}, names[k]), ...row.map((count, j) => {
    const share = Math.round(85 * count / most);
    return element("td", {title: `${names[k]} predicted as ${names[j]}: ${count}`, style: count ? `background:color-mix(in srgb, var(--${k === j ? "kernels" : "compiling"}) ${Math.max(share, k === j ? 8 : 25)}%, transparent)` : ""}, count ? String(count) : "");
  })));
  at("matrix").append(element("table", {className: "matrix"}, element("caption", {}, "Rows are the actual classes, columns the predicted ones."),
    element("thead", {}, element("tr", {}, element("th"), ...names.map((name) => element("th", {scope: "col"}, name)))), element("tbody", {}, ...body)));
}
function samples() {
  for (const {title, pixels, height, width, values} of data.worst) {
    const shown = pixels ? element("canvas", {width, height, "aria-label": title}) : element("p", {className: "details"}, values);
    if (pixels) {
      const image = new ImageData(width, height), channels = pixels.length / (width * height);
      for (let k = 0; k < width * height; k++) {
        for (let c = 0; c < 3; c++) image.data[4 * k + c] = pixels[k * channels + (channels === 3 ? c : 0)];
        image.data[4 * k + 3] = 255;
      }
      shown.getContext("2d").putImageData(image, 0, 0);
    }
    at("samples").append(element("figure", {}, shown, element("figcaption", {}, title)));
  }
  if (!data.worst.length) at("samples").append(hint("There was no validation set."));
}
function model() {
  table(at("layers"), [["layer", (row) => row[0]], ["output", (row) => row[1]], ["parameters", (row) => row[2], (count) => count ? String(count) : ""], ["trained", (row) => row[3]]], data.layers, null);
  at("facts").append(...data.facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

for (const part of [loss, metrics, schedule, confusion, samples, model]) part();
document.documentElement.dataset.ready = "yes";
