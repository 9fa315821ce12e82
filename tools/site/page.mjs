// The lab's page as a single file, and the sizes of both. Arguments: the page's folder, the single file.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const [site, single] = process.argv.slice(2);
/** Largest sum of all files, each compressed by gzip, in bytes. */
const SIZE_MAX = 1_500_000;
/** The single file may load nothing but itself. */
const POLICY = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; " +
  "connect-src data:; worker-src blob:; img-src data:; base-uri 'none'; form-action 'none'";

const read = (name) => readFileSync(`${site}/${name}`, "utf8");
const replace = (text, pattern, replacement) => {
  if (text.split(pattern).length !== 2) throw new Error(`index.html has not one ${pattern}`);
  return text.replace(pattern, () => replacement);
};
const inline = (script) => {
  if (script.includes("</script")) throw new Error("a script would end its element");
  return script;
};
const assets = {
  name: "assets",
  setup: ({ onResolve }) => onResolve({ filter: /\/assets\.js$/ }, () => ({ path: fileURLToPath(new URL("assets.js", import.meta.url)) })),
};
const bundle = await build({ entryPoints: [`${site}/app.js`], bundle: true, format: "iife", write: false, plugins: [assets] });
const pack = (name) => gzipSync(readFileSync(`${site}/${name}`), { level: 9 });
let html = read("index.html");
html = replace(html, /(?<=Content-Security-Policy" content=")[^"]*/, POLICY);
html = replace(html, '<link rel="stylesheet" href="style.css">\n', `<style>\n${read("style.css")}</style>\n`);
html = replace(html, '<script type="module" src="app.js"></script>\n', "");
html = replace(html, "</body>", `<script type="text/plain" id="lab.wasm">${pack("lab.wasm").toString("base64")}</script>
<script type="text/plain" id="worker.js">
${inline(read("worker.js"))}</script>
<script>
${inline(bundle.outputFiles[0].text)}</script>
</body>`);
writeFileSync(single, html);

const names = readdirSync(site);
const sum = names.reduce((all, name) => all + pack(name).length, 0);
console.log(`${names.length} files, ${sum} B compressed; single file ${html.length} B, ${gzipSync(html, { level: 9 }).length} B compressed`);
if (sum > SIZE_MAX) throw new Error(`the page is larger than ${SIZE_MAX} B`);
