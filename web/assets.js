// The module and the script of the workers as files of a server. The single file has its own: tools/site/assets.js.

/** The module, compiled once and shared by all workers. */
export const compiled = WebAssembly.compileStreaming(fetch("lab.wasm"));

/** Address of the script of a worker. */
export const worker = "worker.js";
