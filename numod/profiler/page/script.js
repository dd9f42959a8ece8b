// Draws the report of a profile. What it shares with other pages is in common.js.
const KIND = {
  profile: "Python", step: "Python", user: "Python", module: "Python", gc: "Python", op: "dispatch", item: "dispatch", node: "dispatch", backward: "dispatch", optimizer: "dispatch",
  compiled: "dispatch", plan: "planning", kernel: "kernels", compile: "compiling", pass: "compiling", load: "loading", import: "loading", data: "data",
};

// ---- overview

function overview() {
  const built = data.compilations.filter((each) => each.category === "compile").length;
  at("summary").textContent = `${time(data.wall)} profiled, ${data.slices.rows.length + data.left_out} slices, ${data.kernels.length} kernels: `
    + `${built} compiled, ${data.compilations.length - built} loaded from the cache meanwhile. Recorded with ${data.options.join(", ") || "no options"}. Threads: ${data.sharing.text}.`;
  const whole = data.kinds.reduce((sum, [, us]) => sum + us, 0);
  for (const [kind, us] of data.kinds) {
    if (!us) continue;
    at("kinds").append(element("div", {style: `width:${100 * us / whole}%;background:var(--${kind})`, title: `${kind}: ${time(us)}`}));
    at("legend").append(element("span", {}, element("span", {className: "swatch", style: `background:var(--${kind})`}), `${kind} ${time(us)}, ${percent(us, whole)}`));
  }
  at("kinds").setAttribute("aria-label", data.kinds.map(([kind, us]) => `${kind} ${percent(us, whole)}`).join(", "));
  const memory = data.averages.some((row) => row[5]), flops = data.averages.some((row) => row[6]);
  const columns = [["name", (row) => row[0]], ["self", (row) => row[2], time], ["self %", (row) => row[2], (us) => percent(us, whole)], ["total", (row) => row[3], time],
    ["calls", (row) => row[4]], ["mean", (row) => row[3] / row[4], time]];
  if (memory) columns.push(["self memory", (row) => row[5], unless0(bytes)]);
  if (flops) columns.push(["GFLOP/s", (row) => row[6] / row[3] / 1e3, (rate) => rate ? rate.toFixed(2) : ""]);
  const all = table(at("averages"), columns, data.averages, 1, 25);
  if (data.averages.length > 25) {
    at("more").hidden = false;
    at("more").textContent = `Show all ${data.averages.length}`;
    at("more").onclick = () => { all(); at("more").hidden = true; };
  }
}

// ---- slices on a canvas: the timeline and the flame graph. A slice: {name, category, start, time, depth, lane, text, forward}

function chart(canvas, slices, describe, output) {
  const ROW = 19, AXIS = 20;
  const end = Math.max(...slices.map((each) => each.start + each.time), 1);
  const rows = Math.max(...slices.map((each) => each.lane)) + 1;
  let from = 0, span = end, chosen = -1, wanted = "", queued = false;
  const height = AXIS + rows * ROW + 6;
  const context = canvas.getContext("2d");
  canvas.style.height = height + "px";

  function draw() {
    queued = false;
    const scale = devicePixelRatio || 1, width = canvas.clientWidth;
    canvas.width = width * scale;
    canvas.height = height * scale;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.font = "11.5px system-ui, sans-serif";
    context.textBaseline = "middle";
    axis(width);
    const colors = Object.fromEntries(Object.values(KIND).map((kind) => [kind, color(kind)])), paper = color("paper"), ink = color("ink");
    const filled = new Array(rows).fill(-1);  // slices thinner than a pixel are drawn once a pixel
    slices.forEach((each, k) => {
      const x = (each.start - from) / span * width, w = each.time / span * width;
      if (x > width || x + w < 0) return;
      if (w < 1 && k !== chosen) {
        if (Math.floor(x) === filled[each.lane]) return;
        filled[each.lane] = Math.floor(x);
      }
      const y = AXIS + each.lane * ROW, left = Math.max(x, -2), shown = Math.min(x + w, width + 2) - left;
      context.globalAlpha = wanted && !each.name.toLowerCase().includes(wanted) ? 0.2 : 1;
      context.fillStyle = colors[KIND[each.category]];
      context.fillRect(left, y + 1, Math.max(shown - (shown > 3 ? 1 : 0), 1), ROW - 2);
      if (k === chosen) {
        context.strokeStyle = ink;
        context.lineWidth = 2;
        context.strokeRect(left, y + 1, Math.max(shown, 2), ROW - 2);
      }
      if (shown > 28) {
        context.fillStyle = paper;
        const room = Math.floor((shown - 8) / 6.1);
        context.fillText(each.name.length > room ? each.name.slice(0, Math.max(room - 1, 0)) + "…" : each.name, left + 4, y + ROW / 2 + 0.5);
      }
    });
    context.globalAlpha = 1;
  }
  function axis(width) {
    context.fillStyle = color("soft");
    context.strokeStyle = color("line");
    context.lineWidth = 1;
    const step = 10 ** Math.floor(Math.log10(span / 4)), by = span / step > 20 ? 5 * step : span / step > 8 ? 2 * step : step;
    for (let t = Math.ceil(from / by) * by; t < from + span; t += by) {
      const x = (t - from) / span * width;
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, height);
      context.stroke();
      const label = t ? time(t).replace(/(\.\d*?)0+(?=[a-z])/, "$1").replace(/\.(?=[a-z])/, "") : "0";
      if (x + context.measureText(label).width + 3 < width) context.fillText(label, x + 3, AXIS / 2);
    }
  }
  function redraw() {
    if (!queued) requestAnimationFrame(draw);
    queued = true;
  }
  function move(start, length) {
    span = Math.min(Math.max(length, end / 1e7), end);
    from = Math.min(Math.max(start, 0), end - span);
    redraw();
  }
  function zoom(factor, middle) { move(middle - (middle - from) * factor, span * factor); }
  function choose(k, show) {
    if (k < 0 || k >= slices.length) return;
    chosen = k;
    const each = slices[k];
    output.textContent = describe(each);
    if (show && (each.start < from || each.start + each.time > from + span)) move(each.start + each.time / 2 - Math.max(span, each.time * 1.2) / 2, Math.max(span, each.time * 1.2));
    redraw();
  }
  function step(test, direction) {
    for (let k = chosen + direction; k >= 0 && k < slices.length; k += direction) if (test(slices[k])) return choose(k, true);
  }
  const inside = (inner, outer) => inner.start >= outer.start && inner.start + inner.time <= outer.start + outer.time + 1e-3 && inner.thread === outer.thread;

  canvas.addEventListener("keydown", (event) => {
    const now = slices[chosen], middle = now && event.key !== "0" ? now.start + now.time / 2 : from + span / 2;
    const keys = {
      ArrowLeft: () => move(from - span / 5, span), ArrowRight: () => move(from + span / 5, span), "+": () => zoom(0.6, middle), "=": () => zoom(0.6, middle), "-": () => zoom(1 / 0.6, middle),
      0: () => move(0, end), n: () => step((each) => !now || each.lane === now.lane, 1), p: () => step((each) => !now || each.lane === now.lane, -1),
      u: () => now && step((each) => each.depth === now.depth - 1 && inside(now, each), -1), d: () => now && step((each) => each.depth === now.depth + 1 && inside(each, now), 1),
      Enter: () => now && move(now.start - now.time * 0.05, now.time * 1.1), f: () => now && now.forward >= 0 && choose(now.forward, true),
    };
    const action = !event.ctrlKey && !event.metaKey && !event.altKey && keys[event.key];
    if (action) {
      action();
      event.preventDefault();
    }
  });
  canvas.addEventListener("wheel", (event) => {
    const place = from + event.offsetX / canvas.clientWidth * span;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(from + event.deltaX / canvas.clientWidth * span, span);
    else if (event.ctrlKey || document.activeElement === canvas) zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, place);
    else return;
    event.preventDefault();
  }, {passive: false});
  const under = (event) => {
    const place = from + event.offsetX / canvas.clientWidth * span, lane = Math.floor((event.offsetY - AXIS) / ROW), near = span / canvas.clientWidth;
    return slices.findIndex((each) => each.lane === lane && each.start - near <= place && place <= each.start + each.time + near);
  };
  let grip = null;
  canvas.addEventListener("pointerdown", (event) => { grip = {x: event.offsetX, from, moved: false}; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (!grip) {
      const k = under(event);
      return tip(k >= 0 ? describe(slices[k]) : "", event);
    }
    grip.moved = grip.moved || Math.abs(event.offsetX - grip.x) > 3;
    if (grip.moved) move(grip.from - (event.offsetX - grip.x) / canvas.clientWidth * span, span);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (grip && !grip.moved) choose(under(event), false);
    grip = null;
  });
  canvas.addEventListener("pointerleave", () => tip(""));
  addEventListener("resize", redraw);
  draw();
  const hit = (each) => each.name.toLowerCase().includes(wanted);
  return {
    find(text) { wanted = text.toLowerCase(); redraw(); return slices.filter(hit).length; },
    next(direction) {  // the hit after the chosen slice, or before it; from the last to the first
      const hits = slices.map((each, k) => k).filter((k) => hit(slices[k]));
      const after = direction > 0 ? hits.find((k) => k > chosen) ?? hits[0] : hits.findLast((k) => k < chosen) ?? hits.at(-1);
      if (after !== undefined) choose(after, true);
      return hits.indexOf(after) + 1;
    },
    show(start, length) { move(start - length * 0.02, length * 1.04); },
  };
}

// What is under the pointer.
function tip(text, event) {
  const box = at("tip") || document.body.appendChild(element("div", {id: "tip", hidden: true}));
  box.hidden = !text;
  box.textContent = text;
  if (!text) return;
  box.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - box.offsetWidth - 8)) + "px";
  box.style.top = Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8) + "px";
}

function timeline() {
  const {names, rows} = data.slices;
  const depths = [];
  for (const row of rows) depths[row[7]] = Math.max(depths[row[7]] || 0, row[6] + 1);
  const first = depths.map((_, k) => depths.slice(0, k).reduce((sum, each) => sum + each, 0));
  const slices = rows.map(([name, category, module, line, start, length, depth, thread, forward]) => ({
    name: names[name], category: names[category], module: names[module], line: names[line], start, time: length, depth, thread, lane: first[thread] + depth, forward,
  }));
  const drawn = chart(at("slices"), slices, (each) => [
    `${each.name}: ${time(each.time)}, from ${time(each.start)}`, each.module && `module ${each.module}`, each.line && `line ${each.line}`,
    each.forward >= 0 && slices[each.forward] && `gradient of ${slices[each.forward].name} (f goes there)`, depths.length > 1 && `thread ${each.thread}`,
  ].filter(Boolean).join(" · "), at("slice"));
  at("find").addEventListener("input", () => {
    const text = at("find").value, hits = drawn.find(text);
    at("hits").textContent = text ? `${hits} slices` : "";
  });
  at("find").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !at("find").value) return;
    const hits = drawn.find(at("find").value), number = drawn.next(event.shiftKey ? -1 : 1);
    at("hits").textContent = `${number} of ${hits} slices`;
    event.preventDefault();
  });
  steps(drawn);
  if (data.left_out) at("hits").textContent = `the first ${rows.length} slices; ${data.left_out} later ones are in the tables only`;
}

// A row per step, with the time of each kind in it. Its name shows it in the timeline.
function steps(drawn) {
  if (!data.steps.length) return at("steps").append(element("p", {className: "hint"}, "No steps: call prof.step() after each step of the program."));
  const kinds = data.kinds.map(([kind]) => kind).filter((kind) => data.steps.some((row) => row[3][kind]));
  const columns = [["step", (row) => row[1], (_, row) => element("a", {href: "#timeline", onclick: () => drawn.show(row[1], row[2])}, row[0])], ["time", (row) => row[2], time],
    ...kinds.map((kind) => [kind, (row) => row[3][kind] || 0, unless0(time)])];
  table(at("steptable"), columns, data.steps, null);
}

function flame() {
  const slices = data.flame.map(([name, category, depth, start, length]) => ({name, category, start, time: length, depth, lane: depth, thread: 0, forward: -1}));
  const whole = slices.filter((each) => !each.depth).reduce((sum, each) => sum + each.time, 0);
  chart(at("flames"), slices, (each) => `${each.name}: ${time(each.time)}, ${percent(each.time, whole)}`, at("flameslice"));
}

// ---- modules

function modules() {
  if (!data.modules.length) return at("modules").append(element("p", {className: "hint"}, "No module was called."));
  const longest = Math.max(...data.modules.map((row) => row[3] + row[5]));
  const columns = [["module", (row) => row[0], (path, row) =>
    element("span", {style: `padding-left:${14 * (path.split(".").length - 1)}px`}, element("code", {}, path), ` ${row[1]}`)], ["calls", (row) => row[2]], ["forward", (row) => row[3], time], ["own", (row) => row[4], time], ["backward", (row) => row[5], time], ["", (row) => row[3] + row[5], (us) =>
    element("span", {className: "bars"}, element("span", {className: "bar", style: `width:${120 * us / longest}px`}))], ["first calls", (row) => row[9], unless0(time)],
    ["memory kept", (row) => row[7], unless0(bytes)], ["operations", (row) => row[8], unless0(many)]];
  table(at("moduletree"), columns, data.modules, null);
}

function lines() {
  if (!data.lines.length) return at("lines").append(element("p", {className: "hint"}, "Not recorded: profile with with_stack=True."));
  const columns = [["line", (row) => row[0], (place) => element("span", {title: place}, place.replace(/^.*[/\\]/, ""))], ["text", (row) => row[6], (text) => element("span", {className: "source"}, text)], ["function", (row) => row[1]], ["ops", (row) => row[2]], ["forward", (row) => row[3], time], ["backward", (row) => row[4], time],
    ["both", (row) => row[3] + row[4], time], ["first calls", (row) => row[5], unless0(time)]];
  table(at("linetable"), columns, data.lines, 6, 40);
}

// ---- roofline: operations per byte against operations per second, both logarithmic

function roofline() {
  const [peak, cache, shared, memory] = data.machine;
  at("limits").textContent = `This machine, one thread, measured: ${peak.toFixed(0)} GFLOP/s in products, ${cache.toFixed(0)} GB/s within a core's caches, ${shared.toFixed(0)} in the shared one, ${memory.toFixed(0)} through memory.`;
  const points = data.kernels.filter((each) => each.flops && each.bytes && each.time);
  if (!points.length) return at("roof").append(element("p", {className: "hint"}, "No operations were counted: profile with with_flops=True and with_jit=True."));
  responsive(at("roof"), (W) => [roof(points, Math.min(W, 1200))]);
}
function roof(points, W) {
  const [peak, cache, shared, memory] = data.machine;
  const H = 380, L = 60, B = 40, T = 14, R = 14;
  const xs = points.map((each) => each.flops / each.bytes), ys = points.map((each) => each.gflops);
  const x0 = Math.log10(Math.min(...xs, 0.05)) - 0.2, x1 = Math.log10(Math.max(...xs, peak / memory * 2)) + 0.3;
  const y0 = Math.log10(Math.max(Math.min(...ys), 1e-4)) - 0.3, y1 = Math.log10(Math.max(peak, ...ys)) + 0.2;
  const X = (value) => L + (Math.log10(value) - x0) / (x1 - x0) * (W - L - R), Y = (value) => H - B - (Math.log10(value) - y0) / (y1 - y0) * (H - B - T);
  const picture = svg("svg", {viewBox: `0 0 ${W} ${H}`, role: "group", "aria-label": "Roofline: kernels by operations per byte and operations per second"});
  for (let k = Math.ceil(x0); k <= x1; k++) picture.append(svg("path", {class: "axis", d: `M${X(10 ** k)} ${T}V${H - B}`}), svg("text", {x: X(10 ** k), y: H - B + 16, "text-anchor": "middle"}, String(10 ** k)));
  for (let k = Math.ceil(y0); k <= y1; k++) picture.append(svg("path", {class: "axis", d: `M${L} ${Y(10 ** k)}H${W - R}`}), svg("text", {x: L - 6, y: Y(10 ** k) + 4, "text-anchor": "end"}, String(+(10 ** k).toPrecision(1))));
  picture.append(svg("text", {x: (W + L) / 2, y: H - 6, "text-anchor": "middle"}, "operations per byte"), svg("text", {x: L + 6, y: T + 2, "dominant-baseline": "hanging"}, "GFLOP/s"));
  const taken = [];  // places of labels: none hides another
  const free = (box) => !taken.some((b) => box[0] < b[0] + b[2] && b[0] < box[0] + box[2] && box[1] < b[1] + b[3] && b[1] < box[1] + box[3]) && taken.push(box);
  for (const [rate, name] of [[cache, "own caches"], [shared, "shared cache"], [memory, "memory"]]) {
    const left = Math.max(10 ** x0, 10 ** y0 / rate), knee = peak / rate;
    picture.append(svg("path", {class: "roof", d: `M${X(left)} ${Y(left * rate)}L${X(knee)} ${Y(peak)}H${W - R}`}));
    for (let part = 0.04; part < 0.9; part += 0.08) {
      const place = left * (Math.max(knee, left) / left) ** part, x = X(place) + 2, y = Y(place * rate) - 8;
      if (!free([x, y - 12, 6.5 * name.length, 15])) continue;
      picture.append(svg("text", {x, y, class: "soft"}, name));
      break;
    }
  }
  const longest = Math.max(...points.map((each) => each.time));
  points.forEach((each, k) => {
    const link = svg("a", {href: `#kernel-${data.kernels.indexOf(each)}`, "aria-label": `${each.name}: ${each.gflops.toFixed(2)} GFLOP/s, ${percent(each.roofline, 1)} of the roofline`});
    link.append(svg("circle", {class: "point", cx: X(xs[k]), cy: Y(Math.max(ys[k], 10 ** y0)), r: 4 + 9 * Math.sqrt(each.time / longest)}),
      svg("title", {}, `${each.name}\n${each.gflops.toFixed(2)} GFLOP/s, ${each.gbs.toFixed(2)} GB/s, ${percent(each.roofline, 1)} of the roofline at best`));
    link.addEventListener("click", () => setTimeout(openKernel));
    picture.append(link);
  });
  for (const each of [...points].sort((a, b) => b.time - a.time).slice(0, 12)) {
    const x = X(each.flops / each.bytes), y = Y(each.gflops) - 12, left = x > W - 220, name = each.name.replace(/_[0-9a-f]{16}$/, "");
    const box = [left ? x - 6 * name.length - 12 : x + 12, y - 12, 6 * name.length, 15];
    if (!free(box)) continue;
    picture.append(svg("text", {x: left ? x - 12 : x + 12, y, "text-anchor": left ? "end" : "start", style: "font-size:11px"}, name));
  }
  return picture;
}

// ---- compiling: a bar per kernel where it was built, with the compiler's passes in it

function waterfall() {
  const all = data.compilations;
  if (!all.length) return at("waterfall").append(element("p", {className: "hint"}, "Every kernel was there already: nothing was compiled or loaded."));
  responsive(at("waterfall"), (W) => bars(all, W));
}
function bars(all, W) {
  const row = 20, label = W < 700 ? 140 : 300, letters = Math.floor(label / 6.5), first = all[0].start, end = Math.max(...all.map((each) => each.start + each.time));
  const X = (us) => label + (us - first) / Math.max(end - first, 1) * (W - label - 90);
  const tones = [...new Set(all.flatMap((each) => each.passes.map(([name]) => name)))];
  const tone = (name) => `hsl(${(tones.indexOf(name) * 47 + 10) % 360} 52% 50%)`;
  const picture = svg("svg", {viewBox: `0 0 ${W} ${all.length * row + 8}`, role: "img", "aria-label": `${all.length} kernels built in ${time(all.reduce((sum, each) => sum + each.time, 0))}`});
  all.forEach((each, k) => {
    const y = 4 + k * row;
    picture.append(svg("text", {x: 6, y: y + 14}, each.name.replace(/_([0-9a-f]{6})[0-9a-f]{10}$/, " $1").slice(0, letters)),
      svg("rect", {x: X(each.start), y: y + 2, width: Math.max(X(each.start + each.time) - X(each.start), 1), height: row - 5, fill: `var(--${each.category === "load" ? "loading" : "compiling"})`, "fill-opacity": 0.45},
        svg("title", {}, `${each.category}: ${time(each.time)}; ${each.why}`)));
    for (const [name, start, length] of each.passes) picture.append(svg("rect", {x: X(each.start + start), y: y + 2, width: Math.max(X(each.start + start + length) - X(each.start + start), 0.5), height: row - 5, fill: tone(name)}, svg("title", {}, `${name}: ${time(length)}`)));
    picture.append(svg("text", {x: X(each.start + each.time) + 6, y: y + 14}, time(each.time)));
  });
  const totals = new Map();
  all.forEach((each) => each.passes.forEach(([name, , length]) => totals.set(name, (totals.get(name) || 0) + length)));
  const legend = element("div", {id: "passes", className: "hint", style: "display:flex;flex-wrap:wrap;gap:2px 16px;margin-top:8px"});
  [...totals].sort((a, b) => b[1] - a[1]).slice(0, 12).forEach(([name, us]) => legend.append(element("span", {}, element("span", {className: "swatch", style: `background:${tone(name)}`}), `${name} ${time(us)}`)));
  return [picture, legend];
}

function builds() {
  const {kernels, names, seconds, accounted, phases} = data.building, short = (us) => us ? time(us) : "";
  if (!kernels.length) return;
  at("built").textContent = `Kernels took ${time(1e6 * seconds)} of this process, with importing Numba (${time(1e6 * (phases.import || 0))}); ${(100 * accounted).toFixed(0)} % of it is in a phase.`;
  const columns = [["kernel", (row) => row.name, (name) => element("code", {}, name.replace(/_([0-9a-f]{6})[0-9a-f]{10}$/, " $1"))], ["total", (row) => 1e6 * row.seconds, time],
    ...names.map((phase) => [phase, (row) => 1e6 * (row.phases[phase] || 0), short]), ["behind", (row) => 1e6 * row.background, short], ["why", (row) => row.reason]];
  table(at("buildtable"), columns, kernels, 1, 40);
}

// ---- kernel pages

function facts(kernel) {
  const vector = kernel.vector_bits === undefined ? "" : kernel.vector_bits ? `${kernel.vector_bits} bits, ${kernel.unroll} at a time` : kernel.hot[1] > 0 ? "none: one number at a time" : "no loop";
  return [
    ["calls", kernel.calls], ["time in the kernel", time(kernel.time)], ["dispatch around it", time(kernel.dispatch)], ["mean", kernel.calls ? time(kernel.time / kernel.calls) : ""],
    ["ops", kernel.ops.join(", ")], ["modules", kernel.modules.slice(0, 4).join(", ")], ["operations", kernel.flops ? many(kernel.flops) : ""], ["bytes", kernel.bytes ? bytes(kernel.bytes) : ""],
    ["GFLOP/s", kernel.flops ? kernel.gflops.toFixed(2) : ""], ["GB/s", kernel.bytes ? kernel.gbs.toFixed(2) : ""], ["best, of the roofline", kernel.roofline ? percent(kernel.roofline, 1) : ""],
    ["variant", kernel.variant], ["busiest thread / mean", kernel.imbalance ? kernel.imbalance.toFixed(2) : ""], ["threads starting, waiting", kernel.imbalance ? percent(kernel.waiting, 1) : ""], ["cache", `${kernel.built || "built earlier"}: ${kernel.why}`], ["built in", time(1e6 * kernel.seconds)], ["code", kernel.code_bytes ? bytes(kernel.code_bytes) : ""],
    ["vectors in the hot loop", vector], ["hash", kernel.key.slice(0, 16)],
  ].filter(([, value]) => value !== "");
}
// Source beside machine code. A line of the source that is chosen (arrow keys, or a click in either) shows which instructions are from it.
function code(kernel, number) {
  const said = element("p", {className: "hint", "aria-live": "polite"}), source = element("pre", {tabIndex: 0, role: "listbox", "aria-label": "Source; arrow keys choose a line"});
  const shown = element("div", {className: "code"}, element("div", {}, element("h3", {}, "Source"), source));
  const row = (text, mark, properties) => element("div", properties, element("span", {className: "mark"}, mark), text || " ");
  if (!kernel.assembly) {
    source.append(...kernel.source.trimEnd().split("\n").map((text, k) => row(text, k + 1, {role: "option"})));
    const why = element("p", {className: "hint"}, "Its machine code was left out, as showing it takes compiling it once more. In Python: prof.kernels()[" + number + "].machine_code.assembly");
    return {parts: [shown, why], finish() {}};
  }
  const [first, last] = kernel.hot, made = new Map(), hot = new Map(), machine = element("pre", {tabIndex: 0, "aria-label": "Machine code"});
  const rows = kernel.assembly.split("\n").map((text, k) => {
    const line = kernel.lines[k] || 0, inside = k >= first && k <= last;
    if (line) made.set(line, (made.get(line) || 0) + 1);
    if (line && inside) hot.set(line, (hot.get(line) || 0) + 1);
    return row(text, line || "", {className: inside ? "hot" : "", onclick: () => choose(line)});
  });
  const lines = kernel.source.trimEnd().split("\n").map((text, k) =>
    row(text, k + 1, {id: `line-${number}-${k + 1}`, role: "option", className: hot.has(k + 1) ? "hot" : made.has(k + 1) ? "" : "none", onclick: () => choose(k + 1)}));
  let chosen = 0;
  function choose(line) {
    if (!made.has(line)) return;
    lines.forEach((each, k) => { each.classList.toggle("chosen", k + 1 === line); each.setAttribute("aria-selected", k + 1 === line); });
    rows.forEach((each, k) => each.classList.toggle("chosen", kernel.lines[k] === line));
    show(source, lines[line - 1]);
    show(machine, rows.find((_, k) => kernel.lines[k] === line && k >= first && k <= last) || rows[kernel.lines.indexOf(line)]);
    said.textContent = `line ${line}: ${made.get(line)} instructions, ${hot.get(line) || 0} of them in the hot loop`;
    source.setAttribute("aria-activedescendant", lines[line - 1].id);
    chosen = line;
  }
  function show(box, line) {
    const top = line.offsetTop - box.offsetTop;
    if (top < box.scrollTop || top > box.scrollTop + box.clientHeight - 30) box.scrollTop = top - box.clientHeight / 3;
  }
  source.addEventListener("keydown", (event) => {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (!step) return;
    const known = [...made.keys()].sort((x, y) => step * (x - y));
    choose(chosen ? known.find((line) => step * (line - chosen) > 0) : known[0]);
    event.preventDefault();
  });
  source.append(...lines);
  machine.append(...rows);
  said.textContent = hot.size ? `The hot loop is marked in both; its instructions are from ${hot.size > 1 ? "lines" : "line"} ${[...hot.keys()].sort((x, y) => x - y).join(", ")}. Arrow keys in the source choose a line.`
    : "Arrow keys in the source choose a line.";
  shown.append(element("div", {}, element("h3", {}, "Machine code, with the lines of the source it is from, its hot loop marked"), machine));
  return {parts: [said, shown], finish() { if (last > first) show(machine, rows[first]); }};
}
function kernelPages() {
  data.kernels.forEach((kernel, number) => {
    const page = element("details", {id: `kernel-${number}`}, element("summary", {}, element("b", {}, kernel.name), ...[`${kernel.calls} calls`, kernel.calls ? time(kernel.time) : "",
      kernel.flops ? `${kernel.gflops.toFixed(2)} GFLOP/s` : "", kernel.roofline ? `${percent(kernel.roofline, 1)} of roof` : ""].map((text) => element("span", {}, text))));
    page.addEventListener("toggle", () => {  // filled when first opened
      if (page.children.length > 1) return;
      const list = element("dl", {}, ...facts(kernel).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, String(value)))));
      const {parts, finish} = code(kernel, number);
      const body = element("div", {className: "kernel"}, list, element("p", {className: "hint"}, `signature: ${kernel.signature}`), ...parts);
      if (kernel.passes.length) body.append(element("h3", {}, "Compiler passes"), element("p", {className: "hint"}, kernel.passes.slice(0, 12).map(([name, us]) => `${name} ${time(us)}`).join(" · ")));
      page.append(body);
      finish();
    });
    at("kernelpages").append(page);
  });
  if (!data.kernels.length) at("kernelpages").append(element("p", {className: "hint"}, "No kernel was timed or built: profile with with_jit=True."));
}

// ---- memory in use over time

function memoryGraph() {
  const points = data.memory, most = points.reduce((most, [, used]) => Math.max(most, used), 1);
  if (!points.length) return at("memorygraph").append(element("p", {className: "hint"}, "Not recorded: profile with profile_memory=True."));
  const steps = points.flatMap(([us, used], k) => k ? [[us, points[k - 1][1]], [us, used]] : [[us, used]]);  // memory is constant between changes
  responsive(at("memorygraph"), (width) => [curves([{name: `at most ${bytes(most)}`, points: steps, color: "data"}], {
    width, title: "in use", label: `Memory made while profiling, at most ${bytes(most)}`, text: (count) => bytes(Math.round(count)), across: time, unit: "since the start",
  })]);
}

function openKernel() {
  const page = location.hash.startsWith("#kernel-") && at(location.hash.slice(1));
  if (page) { page.open = true; page.scrollIntoView(); }
}
addEventListener("hashchange", openKernel);

for (const part of [overview, timeline, flame, modules, lines, roofline, waterfall, builds, kernelPages, memoryGraph, openKernel]) part();
document.documentElement.dataset.ready = "yes";
