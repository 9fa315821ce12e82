// One instance of the lab. The page posts {id, request}, or {id, name, file, steps} with a trace; the worker posts {id, result, took_ms}.

let lab;

function call(request) {
  const { memory, carob_input, carob_call, carob_output } = lab.exports;
  const bytes = new TextEncoder().encode(request);
  const address = carob_input(bytes.length);
  new Uint8Array(memory.buffer, address, bytes.length).set(bytes);
  const length = carob_call();
  return new TextDecoder().decode(new Uint8Array(memory.buffer, carob_output(), length));
}

/** Long columns of numbers as typed arrays, which reach the page without a copy. */
function columns(value, moved) {
  for (const [key, part] of Object.entries(value ?? {})) {
    if (Array.isArray(part) && part.length > 64 && typeof part[0] === "number") {
      value[key] = Float64Array.from(part);
      moved.push(value[key].buffer);
    } else if (part && typeof part === "object" && !Array.isArray(part)) {
      columns(part, moved);
    }
  }
  return moved;
}

onmessage = async ({ data }) => {
  if (data.module) {
    lab = await WebAssembly.instantiate(data.module, {});
    postMessage({ ready: true });
    return;
  }
  const began = performance.now();
  try {
    const { name, file, steps } = data;
    const request = file ? JSON.stringify({ call: "trace", name, text: await file.text(), steps }) : data.request;
    const text = call(request);
    const result = JSON.parse(text);
    const took_ms = performance.now() - began;
    postMessage({ id: data.id, result, took_ms }, columns(result.ok, []));
  } catch (error) {
    postMessage({ id: data.id, result: { error: `the lab stopped: ${error.message}`, remedy: "reload the page" } });
  }
};
