//! The modules of a crate, the paths they name, and the files that define them.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{
    items::{self, Function, code_without_tests, is, is_name},
    rust_source::{Token, located_tokens},
    tree::Tree,
};

/// Re-exports followed before a path counts as unresolved.
const DEPTH_MAX: usize = 8;

/// One file of the crate, tests left out.
pub(super) struct Source {
    pub(super) path: String,
    pub(super) functions: Vec<Function>,
    /// Texts and lines of the tokens.
    pub(super) tokens: Vec<(String, usize)>,
    /// Paths within the crate that the file names.
    pub(super) paths: Vec<Named>,
    module: Vec<String>,
    /// Paths of the names that `use` brings in; `*` holds globs.
    imports: BTreeMap<String, Vec<Vec<String>>>,
    /// Items that the file declares.
    items: BTreeSet<String>,
}

/// A path from the crate's root and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// The modules of one crate.
pub(super) struct Modules {
    sources: Vec<Source>,
    /// Index of a module's source.
    by_module: BTreeMap<Vec<String>, usize>,
    /// Sources that define a method, by the type's source and name and the method's name.
    methods: BTreeMap<(String, String, String), BTreeSet<usize>>,
}

impl Modules {
    /// Reads the Rust files below `root`, those of tests left out.
    pub(super) fn of(tree: &Tree, root: &str) -> Self {
        let prefix = format!("{root}/");
        let files: Vec<_> = tree
            .texts_of("rs")
            .filter_map(|(path, text)| Some((path, path.strip_prefix(&prefix)?, text)))
            .map(|(path, below, text)| (path, module_of(below), text))
            .filter(|(_, module, _)| !module.iter().any(|name| name == "tests"))
            .collect();
        let known: BTreeSet<_> = files.iter().map(|(_, module, _)| module.clone()).collect();
        let sources: Vec<_> = files
            .into_iter()
            .map(|(path, module, text)| Source::of(path, module, text, &known))
            .collect();
        let by_module = sources.iter().enumerate();
        let by_module = by_module.map(|(at, source)| (source.module.clone(), at));
        let mut modules = Self {
            by_module: by_module.collect(),
            sources,
            methods: BTreeMap::new(),
        };
        modules.methods = modules.methods();
        modules
    }

    pub(super) fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The file that defines a path from the crate's root, re-exports followed.
    pub(super) fn resolve(&self, path: &[String]) -> Option<&Source> {
        self.index_of(path, DEPTH_MAX).map(|at| &self.sources[at])
    }

    fn index_of(&self, path: &[String], depth: usize) -> Option<usize> {
        let (length, at) = (0..=path.len())
            .rev()
            .find_map(|length| Some((length, *self.by_module.get(&path[..length])?)))?;
        let source = &self.sources[at];
        let Some(name) = path
            .get(length)
            .filter(|name| !source.items.contains(*name))
        else {
            return Some(at);
        };
        let named = source.imports.get(name).into_iter().flatten();
        let direct = named.map(|target| [target, &path[length + 1..]].concat());
        let globs = source.imports.get("*").into_iter().flatten();
        let through_globs = globs.map(|target| [target, &path[length..]].concat());
        let next = depth.checked_sub(1)?;
        let candidates = direct.chain(through_globs);
        let mut found = candidates.filter_map(|target| self.index_of(&target, next));
        found.find(|found| *found != at).or(Some(at))
    }

    /// The other file whose `impl` block of the same type defines a method.
    pub(super) fn definition(&self, from: &Source, owner: &str, method: &str) -> Option<&Source> {
        let (home, name) = self.home(from, owner);
        let key = (home, name, method.to_owned());
        let defined = self.methods.get(&key)?;
        let here = defined.iter().any(|at| self.sources[*at].path == from.path);
        let first = defined.iter().next().filter(|_| !here)?;
        Some(&self.sources[*first])
    }

    /// The file that defines a type named in `source`, by its path, and the type's own name.
    fn home(&self, source: &Source, owner: &str) -> (String, String) {
        let mut words = owner.split("::").peekable();
        let start = match words.peek() {
            Some(&"crate") => Some(Vec::new()),
            _ => Some(source.module.clone()),
        };
        let words = words.filter(|word| *word != "crate");
        let path = words.fold(start, extended).unwrap_or_default();
        let home = self.resolve(&path).unwrap_or(source);
        let name = owner.rsplit("::").next().unwrap_or(owner);
        (home.path.clone(), name.to_owned())
    }

    fn methods(&self) -> BTreeMap<(String, String, String), BTreeSet<usize>> {
        let mut methods: BTreeMap<_, BTreeSet<usize>> = BTreeMap::new();
        for (at, source) in self.sources.iter().enumerate() {
            for function in &source.functions {
                if let Some(owner) = &function.owner {
                    let (home, name) = self.home(source, owner);
                    let key = (home, name, function.name.clone());
                    methods.entry(key).or_default().insert(at);
                }
            }
        }
        methods
    }
}

impl Source {
    fn of(path: &str, module: Vec<String>, text: &str, known: &BTreeSet<Vec<String>>) -> Self {
        let code = code_without_tests(text);
        let tokens = located_tokens(&code);
        let mut reader = PathReader {
            tokens: &tokens,
            module: &module,
            known,
            paths: Vec::new(),
            imports: BTreeMap::new(),
        };
        reader.read();
        let (paths, imports) = (reader.paths, reader.imports);
        Self {
            path: path.to_owned(),
            functions: items::functions(&tokens),
            items: items_of(&tokens),
            tokens: tokens.iter().map(|t| (t.text.to_owned(), t.line)).collect(),
            paths,
            module,
            imports,
        }
    }
}

/// The module of a file: `a/mod.rs` and `a.rs` are `a`, `lib.rs` is the root.
fn module_of(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs");
    let mut module: Vec<_> = path.split('/').map(str::to_owned).collect();
    let last = module.last().map(String::as_str);
    if last == Some("mod") || path == "lib" || path == "main" {
        module.pop();
    }
    module
}

/// Names after the words that declare an item; those of nested items do no harm.
fn items_of(tokens: &[Token<'_>]) -> BTreeSet<String> {
    const WORDS: &[&str] = &[
        "struct",
        "enum",
        "union",
        "trait",
        "type",
        "fn",
        "const",
        "static",
        "macro_rules",
    ];
    let mut found = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        if WORDS.contains(&token.text) {
            let name = tokens[at + 1..].iter().find(|t| is_name(t.text));
            found.extend(name.map(|name| name.text.to_owned()));
        }
    }
    found
}

/// Reads the paths of a file that lead into its own crate.
struct PathReader<'a> {
    tokens: &'a [Token<'a>],
    module: &'a [String],
    known: &'a BTreeSet<Vec<String>>,
    paths: Vec<Named>,
    imports: BTreeMap<String, Vec<Vec<String>>>,
}

impl<'a> PathReader<'a> {
    fn read(&mut self) {
        let mut at = 0;
        while at < self.tokens.len() {
            let is_import = self.tokens[at].text == "use";
            let start = at + usize::from(is_import);
            let continues = at > 0 && self.tokens[at - 1].text == ":";
            let begins_path = is_name(self.text(start)) && self.is_separator(start + 1);
            if begins_path && !continues {
                at = self.tree(start, None, is_import).max(at + 1);
            } else {
                at += 1;
            }
        }
    }

    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn is_separator(&self, at: usize) -> bool {
        is(self.tokens, at, ":") && is(self.tokens, at + 1, ":")
    }

    /// Reads one path, or a tree of a `use`, and returns the index after it.
    fn tree(&mut self, mut at: usize, prefix: Option<&[String]>, is_import: bool) -> usize {
        let mut path = prefix.map(<[String]>::to_vec);
        let line = self.tokens.get(at).map_or(0, |token| token.line);
        let mut first = prefix.is_none();
        let mut last = "";
        loop {
            let word = self.text(at);
            if word == "{" && is_import {
                return self.group(at + 1, path.as_deref());
            }
            if !is_name(word) && word != "*" {
                break;
            }
            path = if first {
                self.start(word)
            } else {
                extended(path, word)
            };
            first = false;
            last = word;
            at += 1;
            if !self.is_separator(at) {
                break;
            }
            at += 2;
        }
        if is_import && self.text(at) == "as" {
            last = self.text(at + 1);
            at += 2;
        }
        self.note(path, last.to_owned(), line, is_import);
        at
    }

    /// Reads the paths between braces and returns the index after the closing one.
    fn group(&mut self, mut at: usize, prefix: Option<&[String]>) -> usize {
        let none = Vec::new();
        // A foreign crate's names are read and dropped.
        let foreign = prefix.is_none();
        while at < self.tokens.len() && self.text(at) != "}" {
            let before = (self.paths.len(), self.imports.clone());
            at = if self.text(at) == "," {
                at + 1
            } else {
                self.tree(at, Some(prefix.unwrap_or(&none)), true)
                    .max(at + 1)
            };
            if foreign {
                self.paths.truncate(before.0);
                self.imports = before.1;
            }
        }
        at + 1
    }

    /// The module that a path's first word stands for; `None` for another crate or an item.
    fn start(&self, word: &str) -> Option<Vec<String>> {
        match word {
            "crate" => Some(Vec::new()),
            "self" => Some(self.module.to_vec()),
            "super" => Some(self.module[..self.module.len().checked_sub(1)?].to_vec()),
            child => extended(Some(self.module.to_vec()), child)
                .filter(|module| self.known.contains(module)),
        }
    }

    fn note(&mut self, path: Option<Vec<String>>, name: String, line: usize, is_import: bool) {
        let Some(mut path) = path else { return };
        let is_glob = path.last().is_some_and(|last| last == "*");
        if is_glob {
            path.pop();
        }
        if is_import {
            let module = || path.last().cloned().unwrap_or_default();
            let name = if name == "self" { module() } else { name };
            self.imports.entry(name).or_default().push(path.clone());
        }
        self.paths.push(Named { path, line });
    }
}

/// A path and its next word; `super` climbs and `self` stays.
fn extended(path: Option<Vec<String>>, word: &str) -> Option<Vec<String>> {
    let mut path = path?;
    match word {
        "super" => {
            path.pop()?;
        }
        "self" => {}
        _ => path.push(word.to_owned()),
    }
    Some(path)
}
