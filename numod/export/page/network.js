// Runs a network that numod exported to WebAssembly:
//   import { load } from "./NAME.js";
//   const net = await load();
//   const output = net.run(new Float32Array(net.inputs[0].count));
const DESCRIPTION = null;

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, complex64: Float32Array, complex128: Float64Array,
  int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
};

// The network. `source`: the bytes of NAME.wasm, or its address; `weights`: the bytes of NAME.safetensors, or its
// address, for a network whose weights are not in the code. Both lie beside this module if nothing else is said.
export async function load({ source, weights } = {}) {
  const name = DESCRIPTION.name;
  const code = await bytes(source ?? new URL(`./${name}.wasm`, import.meta.url));
  const { instance } = await WebAssembly.instantiate(code, {});
  const net = new Network(instance.exports);
  if (!DESCRIPTION.embedded && DESCRIPTION.weights_bytes) {
    const file = await bytes(weights ?? new URL(`./${name}.safetensors`, import.meta.url));
    net.setWeights(file);
  }
  return net;
}

// The bytes of a file: given, or by its address.
async function bytes(source) {
  if (!(source instanceof URL || typeof source === "string")) return new Uint8Array(source.buffer ?? source);
  if (typeof process !== "undefined" && String(source).startsWith("file:")) {
    const { readFile } = await import("node:fs/promises");
    return new Uint8Array(await readFile(new URL(source)));
  }
  const answer = await fetch(source);
  if (!answer.ok) throw new Error(`cannot load ${source}: ${answer.status} ${answer.statusText}`);
  return new Uint8Array(await answer.arrayBuffer());
}

class Network {
  // Memory: the arena, the weights, then inputs and outputs. A network with several functions has a method for each.
  constructor(functions) {
    this.functions = functions;
    this.memory = functions.memory;
    this.prepare(DESCRIPTION, "run", functions.__heap_base.value);
    this.check(this.call("check", DESCRIPTION.abi));
    if (DESCRIPTION.embedded && DESCRIPTION.stateful) this.check(this.call("state_init", this.weights));
    for (const [name, entry] of Object.entries(DESCRIPTION.entries)) {
      const part = Object.create(Network.prototype, Object.getOwnPropertyDescriptors(this));
      part.prepare({ ...DESCRIPTION, ...entry }, `${name}_run`, this.end, this.weights);
      this[name] = (...inputs) => part.run(...inputs);
      this.end = part.end;
    }
  }

  prepare(about, symbol, start, weights) {
    this.about = about;
    this.symbol = symbol;
    const least = about.sizes.map((size) => size.low);
    this.inputs = about.inputs.map((port) => sized(described(port), least));
    this.outputs = about.outputs.map((port) => sized(described(port), least));
    let place = start;
    const reserve = (size) => {
      const start = Math.ceil(place / 64) * 64;
      place = start + size;
      return start;
    };
    this.arena = reserve(about.arena_bytes + 8);
    this.weights = weights ?? (about.embedded && !about.stateful ? 0 : reserve(about.weights_bytes));
    const most = about.sizes.map((size) => size.high);
    this.places = [...this.inputs, ...this.outputs].map((port) => reserve(sized(port, most).bytes));
    this.end = place;
    const missing = place - this.memory.buffer.byteLength;
    if (missing > 0) this.memory.grow(Math.ceil(missing / 65536));
  }

  // The output for these inputs: a typed array, or a list of them where the network has several outputs.
  // Inputs are typed arrays of the right kind, or arrays of numbers, nested or not.
  // Of a dynamic dimension, the size is that of the nested array, or what the others leave of a typed array.
  run(...inputs) {
    if (inputs.length !== this.inputs.length)
      throw new TypeError(`run: expected ${this.inputs.length} inputs, got ${inputs.length}`);
    const sizes = this.about.sizes.map((size) => measured(inputs[size.input], this.inputs[size.input], size));
    const [given, results] = [this.inputs, this.outputs].map((ports) => ports.map((port) => sized(port, sizes)));
    given.forEach((port, k) => this.view(port, this.places[k]).set(numbers(inputs[k], port)));
    if (!this.functions[`${DESCRIPTION.name}_${this.symbol}`])
      throw new TypeError(`run: this network has the functions ${Object.keys(DESCRIPTION.entries).join(", ")}`);
    const room = this.about.arena_bytes + 8;
    this.check(this.call(this.symbol, this.weights, this.arena, room, ...sizes.map(BigInt), ...this.places));
    const found = results.map((port, k) => this.view(port, this.places[this.inputs.length + k]).slice());
    return found.length === 1 ? found[0] : found;
  }

  setWeights(file) {
    const start = 8 + Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
    if (file.length - start !== DESCRIPTION.weights_bytes)
      throw new RangeError(`expected ${DESCRIPTION.weights_bytes} bytes of weights, got ${file.length - start}`);
    new Uint8Array(this.memory.buffer, this.weights, file.length - start).set(file.subarray(start));
  }

  call(name, ...values) {
    return this.functions[`${DESCRIPTION.name}_${name}`](...values);
  }

  view(port, place) {
    return new port.array(this.memory.buffer, place, port.count);
  }

  check(code) {
    if (code === 0) return;
    const all = new Uint8Array(this.memory.buffer), start = this.call("error", code);
    throw new Error(`${DESCRIPTION.name}: ${new TextDecoder().decode(all.subarray(start, all.indexOf(0, start)))}`);
  }
}

function described(port) {
  const numbers = port.storage.startsWith("complex") ? 2 : 1, array = ARRAYS[port.storage];
  const count = product(port.shape) * numbers, bytes = count * array.BYTES_PER_ELEMENT;
  return { name: port.name, dtype: port.dtype, shape: port.shape, dims: port.dims, numbers, count, array, bytes };
}

function product(values) {
  return values.reduce((a, b) => a * b, 1);
}

// A port with the shape that it has for these sizes of the dynamic dimensions.
function sized(port, sizes) {
  if (!port.dims.length) return port;
  const value = ([factor, powers]) => factor * product(powers.map((power, k) => sizes[k] ** power));
  const shape = port.dims.map((terms) => terms.reduce((sum, term) => sum + value(term), 0));
  const count = product(shape) * port.numbers;
  return { ...port, shape, count, bytes: count * port.array.BYTES_PER_ELEMENT };
}

// The size of a dynamic dimension in the input that has it.
function measured(value, port, { name, index, factor, offset, low, high }) {
  const others = product(port.shape.filter((_, k) => k !== index)) * port.numbers;
  for (let k = 0; k < index && Array.isArray(value?.[0]); k++) value = value[0];
  const nested = Array.isArray(value) && (index > 0 || port.shape.length === 1 || Array.isArray(value[0]));
  const length = nested ? value.length : value.length / others;
  const size = (length - offset) / factor;
  if (!(Number.isInteger(size) && size >= low && size <= high))
    throw new RangeError(`run: ${name} must be from ${low} to ${high}, got ${size}`);
  return size;
}

// What to write into an input.
function numbers(value, port) {
  const typed = ArrayBuffer.isView(value);
  if (typed && !(value instanceof port.array))
    throw new TypeError(`run: ${port.name} must be a ${port.array.name} or an array, got a ${value.constructor.name}`);
  const flat = typed ? value : [value].flat(Infinity);
  if (flat.length !== port.count)
    throw new RangeError(`run: ${port.name} must have ${port.count} numbers ([${port.shape}]), got ${flat.length}`);
  return port.dtype.includes("int64") && !typed ? flat.map(BigInt) : flat;
}
