// The page: an element for each input, which calls `changed`, and bars for each output.
const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};
const decoded = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
const isImage = (port) => {
  const [height, width, channels] = [port.shape.at(-2), port.shape.at(-1), port.shape.at(-3) ?? 1];
  return port.dtype === "float32" && port.count === height * width * channels && [1, 3].includes(channels) && height > 4 && width > 4;
};

// A place to draw on, or to show a picture's file. `read` gives the network's input: numbers from 0 to 1, ink is 1.
function drawing(port, changed) {
  const size = 320, [height, width] = port.shape.slice(-2), channels = port.count / height / width;
  const canvas = element("canvas", { width: size, height: size, id: "draw" });
  const seen = element("canvas", { width, height, className: "seen", title: "what the network sees" });
  const ink = canvas.getContext("2d", { willReadFrequently: true });
  let last = null, picture = false;
  const clear = () => {
    ink.fillStyle = "#fff";
    ink.fillRect(0, 0, size, size);
    picture = false;
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) * size) / box.width, ((event.clientY - box.top) * size) / box.height];
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (picture) clear();
    last = at(event);
    try { canvas.setPointerCapture(event.pointerId); } catch { /* a pointer that a script made */ }
    draw(event);
  });
  canvas.addEventListener("pointermove", (event) => last && draw(event));
  for (const each of ["pointerup", "pointercancel"]) canvas.addEventListener(each, () => (last = null));
  function draw(event) {
    const next = at(event);
    Object.assign(ink, { lineWidth: size / 8, lineCap: "round", strokeStyle: "#000" });
    ink.beginPath();
    ink.moveTo(...last);
    ink.lineTo(...next);
    ink.stroke();
    last = next;
    changed();
  }
  const file = element("input", { type: "file", accept: "image/*", ariaLabel: "picture" });
  file.addEventListener("change", async () => {
    const image = await createImageBitmap(file.files[0]);
    ink.drawImage(image, 0, 0, size, size);
    picture = true;
    changed();
  });
  const button = element("button", { type: "button", textContent: "Clear", onclick: () => { clear(); changed(); } });
  clear();

  // The part of the canvas that the network sees: all of it, or what is drawn, made as large as possible.
  function frame(pixels) {
    if (!OPTIONS.fit || picture) return [0, 0, size, size];
    let [left, top, right, bottom] = [size, size, 0, 0];
    for (let k = 0; k < size * size; k++) {
      if (pixels[4 * k] > 128) continue;
      const x = k % size, y = (k - x) / size;
      [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x + 1), Math.min(top, y), Math.max(bottom, y + 1)];
    }
    if (right <= left) return [0, 0, size, size];
    const side = Math.max(right - left, bottom - top);
    return [(left + right - side) / 2, (top + bottom - side) / 2, side, side];
  }
  function read() {
    const pixels = ink.getImageData(0, 0, size, size).data;
    const [left, top, wide, high] = frame(pixels), parts = 8, values = new port.array(port.count);
    const shown = seen.getContext("2d").createImageData(width, height);
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++)
        for (let c = 0; c < 3; c++) {
          let sum = 0; // the mean of parts * parts points
          for (let k = 0; k < parts * parts; k++) {
            const px = Math.floor(left + ((x + ((k % parts) + 0.5) / parts) * wide) / width);
            const py = Math.floor(top + ((y + (Math.floor(k / parts) + 0.5) / parts) * high) / height);
            const inside = px >= 0 && py >= 0 && px < size && py < size;
            sum += inside ? pixels[4 * (py * size + px) + c] : 255;
          }
          const light = sum / parts / parts / 255, place = y * width + x;
          shown.data.set([255 * light, 255], 4 * place + c);
          if (c < channels) values[c * height * width + place] = channels === 1 ? 1 - light : light;
        }
    for (let k = 3; k < shown.data.length; k += 4) shown.data[k] = 255;
    seen.getContext("2d").putImageData(shown, 0, 0);
    return values;
  }
  return { read, parts: [canvas, element("div", { className: "row" }, button, file), seen] };
}

// A field for each number, or one for all.
function fields(port, changed) {
  if (port.count <= 16) {
    const all = Array.from({ length: port.count }, () => element("input", { type: "number", step: "any", value: 0, oninput: changed }));
    return { read: () => all.map((each) => Number(each.value)), parts: all.map((each, k) => element("label", {}, `[${k}]`, each)) };
  }
  const area = element("textarea", { value: Array(port.count).fill(0).join(" "), oninput: changed, ariaLabel: port.name });
  return { read: () => area.value.split(/[\s,;[\]]+/).filter(Boolean).map(Number), parts: [area] };
}

function show(port, values) {
  const numbers = Array.from(values, Number), labels = OPTIONS.labels ?? [];
  const best = numbers.indexOf(Math.max(...numbers));
  const title = element("h2", { textContent: `${port.name}: ${port.dtype} [${port.shape.join(", ")}]` });
  if (numbers.length > 100) return [title, element("p", { textContent: numbers.map((each) => each.toPrecision(4)).join(" ") })];
  const [low, high] = [Math.min(...numbers, 0), Math.max(...numbers, 0)];
  const bars = numbers.map((each, k) => {
    const bar = element("i", { style: `width: ${(100 * (each - low)) / (high - low || 1)}%` });
    const label = element("span", { textContent: labels[k] ?? `[${k}]` });
    return element("div", { className: k === best ? "bar best" : "bar" }, label, bar, element("b", { textContent: each.toPrecision(4) }));
  });
  const answer = labels.length ? [element("p", { className: "answer", id: "answer", textContent: labels[best] })] : [];
  return [...answer, title, ...bars];
}

const net = await load({ source: decoded(CODE), weights: WEIGHTS && decoded(WEIGHTS) });
const byId = (id) => document.getElementById(id);
function changed() {
  byId("error").textContent = "";
  try {
    const values = sources.map((each, k) => integers(each.read(), net.inputs[k])), start = performance.now();
    const found = [net.run(...values)].flat();
    byId("time").textContent = `computed in ${Math.max(performance.now() - start, 0).toFixed(2)} ms, on this page`;
    byId("outputs").replaceChildren(...net.outputs.flatMap((port, k) => show(port, found[k])));
  } catch (problem) {
    byId("error").textContent = problem.message;
  }
}
const integers = (values, port) => (port.dtype.includes("int64") ? Array.from(values, Math.trunc) : values);
const sources = net.inputs.map((port) => (isImage(port) ? drawing : fields)(port, changed));
sources.forEach((each, k) => {
  const hint = isImage(net.inputs[k]) ? "draw, or choose a picture" : "type numbers";
  const title = OPTIONS.prompt ?? `${net.inputs[k].name}: ${hint}`;
  byId("inputs").append(element("h2", { textContent: title }), ...each.parts);
});
changed();
document.body.dataset.ready = "yes";
