//! The page as a single file, which opens from `file:`: modules become functions of one script, the module of
//! WebAssembly is inside as text.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

/// Replacement of `assets.js`.
const ASSETS: &str = include_str!("single.js");
/// All that the file may load: itself.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; \
                      connect-src data:; worker-src blob:; img-src data:; base-uri 'none'; form-action 'none'";
/// Parts of `index.html` that are replaced.
const STYLE: &str = "<link rel=\"stylesheet\" href=\"style.css\">\n";
const SCRIPT: &str = "<script type=\"module\" src=\"app.js\"></script>\n";
const POLICY_BEGIN: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"";

/// The text of the single file of a built page.
pub(super) fn page(site: &Path) -> Result<String> {
    let read = |name: &str| {
        let path = site.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let html = read("index.html")?;
    for part in [STYLE, SCRIPT, POLICY_BEGIN, "</body>"] {
        let count = html.matches(part).count();
        ensure!(count == 1, "index.html has {count} times {part}");
    }
    let (before, after) = html.split_once(POLICY_BEGIN).context("seen above")?;
    let (_, after) = after
        .split_once('"')
        .context("index.html: the policy does not end")?;
    let elements = format!(
        "<script type=\"text/plain\" id=\"lab.wasm\">{}</script>\n\
         <script type=\"text/plain\" id=\"worker.js\">\n{}</script>\n<script>\n{}</script>\n</body>",
        packed(&site.join("lab.wasm"))?,
        inline("worker.js", read("worker.js")?)?,
        inline("app.js", script(&read)?)?,
    );
    let style = format!("<style>\n{}</style>\n", read("style.css")?);
    let html = format!("{before}{POLICY_BEGIN}{POLICY}\"{after}");
    Ok(html
        .replace(STYLE, &style)
        .replace(SCRIPT, "")
        .replace("</body>", &elements))
}

/// A script that may stand in a page.
fn inline(name: &str, script: String) -> Result<String> {
    ensure!(!script.contains("</script"), "{name} would end its element");
    Ok(script)
}

/// A file as text: compressed by gzip, in base64.
fn packed(file: &Path) -> Result<String> {
    let mut gzip = Command::new("gzip")
        .args(["-9", "-n", "-c"])
        .arg(file)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start gzip")?;
    let pipe = gzip.stdout.take().context("its output is a pipe")?;
    let text = Command::new("base64").arg("-w0").stdin(pipe).output();
    let text = text.context("cannot start base64")?;
    ensure!(
        gzip.wait()?.success() && text.status.success(),
        "cannot pack {}",
        file.display()
    );
    Ok(String::from_utf8(text.stdout)?)
}

/// All modules as functions of one script, each after those that it imports.
fn script(read: &dyn Fn(&str) -> Result<String>) -> Result<String> {
    let mut modules = Modules {
        read,
        state: BTreeMap::new(),
        script: "\"use strict\";\n".to_owned(),
    };
    modules.add("app.js")?;
    Ok(modules.script)
}

/// The modules of a script so far.
struct Modules<'a> {
    read: &'a dyn Fn(&str) -> Result<String>,
    /// Modules by name: false while those that they import are added.
    state: BTreeMap<String, bool>,
    script: String,
}

impl Modules<'_> {
    fn add(&mut self, name: &str) -> Result<()> {
        match self.state.get(name) {
            Some(true) => return Ok(()),
            Some(false) => bail!("{name} imports itself"),
            None => self.state.insert(name.to_owned(), false),
        };
        let text = match name {
            "assets.js" => ASSETS.to_owned(),
            _ => (self.read)(name)?,
        };
        let (mut body, mut names) = (String::new(), Vec::new());
        for (place, line) in text.lines().enumerate() {
            let wrong = || {
                format!(
                    "{name}:{}: neither import {{ }} from \"./\" nor export of a declaration",
                    place + 1
                )
            };
            if line.starts_with("import ") {
                let (imported, from) = import(line).with_context(wrong)?;
                self.add(from)?;
                body.extend(["const {", imported, "} = ", &variable(from), ";\n"]);
                continue;
            }
            let line = match line.strip_prefix("export ") {
                Some(declaration) => {
                    names.push(declared(declaration).with_context(wrong)?);
                    declaration
                }
                None => line,
            };
            body += line;
            body.push('\n');
        }
        let names = names.join(", ");
        let head = format!("const {} = (() => {{\n", variable(name));
        let end = format!("return {{ {names} }};\n}})();\n");
        self.script.extend([head, body, end]);
        self.state.insert(name.to_owned(), true);
        Ok(())
    }
}

/// Names and file of an import.
fn import(line: &str) -> Option<(&str, &str)> {
    let (names, from) = line.strip_prefix("import {")?.split_once("} from \"./")?;
    let is_plain = names
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || ", _".contains(c))
        && !names.contains(" as ");
    is_plain.then_some((names, from.strip_suffix("\";")?))
}

/// The name that a declaration declares.
fn declared(declaration: &str) -> Option<&str> {
    let kinds = ["const ", "class ", "function ", "async function "];
    let rest = kinds
        .iter()
        .find_map(|kind| declaration.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    (end > 0).then_some(&rest[..end])
}

/// The variable of a module.
fn variable(name: &str) -> String {
    format!(
        "module_{}",
        name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Result<String> {
        script(&|name| {
            let file = files.iter().find(|(known, _)| *known == name);
            file.map(|(_, text)| (*text).to_owned()).context("no file")
        })
    }

    #[test]
    fn modules_become_functions_after_those_that_they_import() {
        let app = "import { a, B } from \"./one.js\";\na(B);\n";
        let one = "const hidden = 1;\nexport const a = (x) => x + hidden;\nexport class B {}\n";
        assert_eq!(
            of(&[("app.js", app), ("one.js", one)]).expect("a script"),
            "\"use strict\";\nconst module_one_js = (() => {\nconst hidden = 1;\nconst a = (x) => x + hidden;\nclass B {}\n\
             return { a, B };\n})();\nconst module_app_js = (() => {\nconst { a, B } = module_one_js;\na(B);\nreturn {  };\n})();\n"
        );
    }

    #[test]
    fn other_forms_of_modules_are_errors_with_their_line() {
        for app in [
            "\nimport all from \"./one.js\";",
            "\nimport { a as b } from \"./one.js\";",
            "\nexport default 1;",
            "\nexport { a };",
        ] {
            let error = of(&[("app.js", app), ("one.js", "")]).expect_err(app);
            assert!(error.to_string().starts_with("app.js:2: "), "{error}");
        }
        let circle = [
            ("app.js", "import { a } from \"./one.js\";"),
            ("one.js", "import { b } from \"./app.js\";"),
        ];
        assert!(of(&circle).is_err());
        assert!(inline("app.js", "'</script>'".to_owned()).is_err());
    }
}
