// Builds the documentation's site with mdBook, follows its links, and opens each page at two widths, light and dark.
// Arguments: the repository, the folder of the site, the command `mdbook`.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { finish, probe, start } from "./browser.mjs";

const [root, out, mdbook] = process.argv.slice(2);
const [source, site] = [join(out, "source"), join(out, "html")];
/** Pages that mdBook adds. */
const ADDED = ["404.html", "toc.html", "print.html"];

const files = (folder, extension) => readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith(extension))
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name));

/** Makes the commands of the introduction's table links to the pages that they print. */
function linkGenerated() {
  const page = join(source, "introduction.md");
  const site = readFileSync(join(root, "xtask/documents.toml"), "utf8").split("[site]")[1];
  let text = readFileSync(page, "utf8");
  for (const [, file, command] of site.matchAll(/^"docs\/(.+)" = "(.+)"$/gm)) {
    const isWhole = command.includes(".py ") || command.startsWith("carob-studies ");
    const shown = isWhole ? `\`${command}\`` : `\`carob ${command}\``;
    if (!text.includes(shown)) throw new Error(`docs/introduction.md lacks ${shown}`);
    text = text.replace(shown, `[${shown}](${file})`);
  }
  writeFileSync(page, text);
}

/** Copies `docs`: links to other files of the repository lead to copies, of their text except for images. */
function stage() {
  cpSync(join(root, "docs"), source, { recursive: true });
  linkGenerated();
  for (const page of files(source, ".md")) {
    const folder = dirname(join(root, "docs", relative(source, page)));
    let text = readFileSync(page, "utf8");
    text = text.replaceAll(/\]\((\.\.\/[^)#\s]+)(#[^)\s]*)?\)/g, (link, target) => {
      const file = relative(root, join(folder, target));
      if (file.startsWith("docs/")) return link;
      // mdBook would take `.md` for a page.
      const name = file.endsWith(".svg") ? file : `${file.replace(/\.md$/, "")}.txt`;
      const copy = join(source, "repository", name);
      mkdirSync(dirname(copy), { recursive: true });
      const isFolder = statSync(join(root, file)).isDirectory();
      writeFileSync(copy, isFolder ? readdirSync(join(root, file)).join("\n") : readFileSync(join(root, file)));
      return `](${relative(dirname(page), copy)})`;
    });
    writeFileSync(page, text);
  }
}

/** Links to nothing, and sources from elsewhere. */
function broken(pages) {
  const texts = new Map(pages.map((page) => [page, readFileSync(page, "utf8")]));
  const attributes = (text, name) => [...text.matchAll(new RegExp(`\\s${name}="([^"]*)"`, "g"))].map((match) => match[1]);
  const ids = new Map(pages.map((page) => [page, new Set(attributes(texts.get(page), "id"))]));
  const found = [];
  for (const [page, text] of texts) {
    for (const link of [...attributes(text, "href"), ...attributes(text, "src"), ...attributes(text, "srcset")]) {
      if (/^(data:|mailto:)/.test(link)) continue;
      if (link.includes("://")) {
        if (!text.includes(`href="${link}"`)) found.push(`${page}: ${link} is loaded from outside`);
        continue;
      }
      const [file, anchor] = link.split("#");
      const target = file ? join(dirname(page), decodeURIComponent(file)) : page;
      const isThere = existsSync(target) && (!anchor || !ids.has(target) || ids.get(target).has(decodeURIComponent(anchor)));
      if (!isThere) found.push(`${page}: ${link} leads to nothing`);
    }
  }
  return found;
}

/** Defects of each page in the browser. */
async function views(pages) {
  const browser = await start();
  const found = [];
  for (const width of [375, 1440]) {
    for (const theme of ["light", "navy"]) {
      const page = await browser.newPage({ viewport: { width, height: 900 } });
      await page.addInitScript(`localStorage.setItem("mdbook-theme", "${theme}")`);
      for (const file of pages) {
        const note = (defect) => found.push(`${relative(site, file)} at ${width} px, ${theme}: ${defect}`);
        page.removeAllListeners("pageerror").on("pageerror", note);
        await page.goto(`file://${file}`);
        (await page.evaluate(probe, "main p, main td, main h1")).forEach(note);
        const others = await page.evaluate(() => {
          const images = [...document.querySelectorAll("main img")];
          const onPhone = innerWidth < 400;
          return [
            ...images.filter((image) => !image.naturalWidth).map((image) => `${image.src} is not shown`),
            ...[...document.querySelectorAll(onPhone ? "main .table-wrapper" : ".none")]
              .filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => `the table ${box.textContent.slice(0, 60)} scrolls`),
          ];
        });
        others.forEach(note);
      }
      await page.close();
    }
  }
  await browser.close();
  return found;
}

for (const folder of [source, site]) rmSync(folder, { recursive: true, force: true });
stage();
execFileSync(mdbook, ["build", source, "--dest-dir", site], { stdio: "inherit" });
const pages = files(site, ".html").filter((page) => !ADDED.includes(relative(site, page)));
const defects = broken(pages);
if (existsSync("/usr/bin/chromium")) defects.push(...await views(pages));
console.log(`${pages.length} pages, ${defects.length} defects`);
finish(defects);
