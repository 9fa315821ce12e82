// The module and the script of the workers, from elements of the single file.

const text = (id) => document.getElementById(id).textContent;

/** The module, compiled once and shared by all workers. */
export const compiled = fetch(`data:application/gzip;base64,${text("lab.wasm")}`)
  .then(({ body }) => new Response(body.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer())
  .then((bytes) => WebAssembly.compile(bytes));

/** Address of the script of a worker. */
export const worker = URL.createObjectURL(new Blob([text("worker.js")], { type: "text/javascript" }));
