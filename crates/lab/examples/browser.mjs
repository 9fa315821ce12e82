// Prints the default comparison, run in WebAssembly: node browser.mjs FILE.wasm SEEDS
import { readFileSync } from "node:fs";

const [file, seeds] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(readFileSync(file), {});
const { memory, carob_compare, carob_output } = instance.exports;
const length = carob_compare(Number(seeds));
process.stdout.write(new Uint8Array(memory.buffer, carob_output(), length));
