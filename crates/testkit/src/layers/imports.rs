//! The imports among the top-level modules of a crate, read from its source.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};

use super::tokens::{Token, tokenize};

/// The place of the first import of one module by another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The importing file, relative to the crate's source directory.
    pub file: Utf8PathBuf,
    /// The line, starting at 1.
    pub line: usize,
}

/// The import graph among the top-level modules of a crate.
///
/// Items that the crate root defines itself belong to a module called `lib`, which exists only if a
/// module imports such an item.
#[derive(Debug, Default)]
pub struct Imports {
    modules: BTreeSet<String>,
    edges: BTreeMap<(String, String), Import>,
}

/// Words that start an item or statement, as opposed to a field or a variant.
const ITEM_KEYWORDS: [&str; 15] = [
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "let",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "unsafe",
    "use",
];

/// One source file.
struct File {
    path: Utf8PathBuf,
    /// Its module path below the crate root.
    module: Vec<String>,
    tokens: Vec<Token>,
}

impl Imports {
    /// Reads the graph of the crate whose `lib.rs` or `main.rs` is in `src`.
    pub fn read(src: &Utf8Path) -> Self {
        let root = ["lib.rs", "main.rs"].map(|name| src.join(name));
        let root = root.iter().find(|path| path.is_file());
        let root = root.unwrap_or_else(|| panic!("neither lib.rs nor main.rs in {src}"));
        let mut files = Vec::new();
        find_files(src, &mut Vec::new(), &mut files);
        let root = read(root);
        rename_modules(&root, &mut files);
        let root = without_tests(&tokenize(&root));
        remove_test_modules(&root, &mut files);
        Self::of(&root, &files)
    }

    fn of(root: &[Token], files: &[File]) -> Self {
        let modules: BTreeSet<_> = files.iter().map(|file| file.module[0].clone()).collect();
        let reexports = reexports(root, &modules);
        let foreign = foreign_names(root);
        let mut imports = Self {
            modules,
            edges: BTreeMap::new(),
        };
        for file in files {
            for (name, line) in paths_from_root(file) {
                if foreign.contains(&name) {
                    continue;
                }
                let target = match reexports.get(&name) {
                    _ if imports.modules.contains(&name) && name != "lib" => name,
                    Some(module) => module.clone(),
                    None => "lib".to_owned(),
                };
                imports.add(file, &target, line);
            }
        }
        if imports.edges.keys().any(|(_, to)| to == "lib") {
            imports.add_root(root);
        }
        imports
    }

    /// The names of all top-level modules.
    pub fn modules(&self) -> &BTreeSet<String> {
        &self.modules
    }

    /// All imports as (importing module, imported module), each with its first place.
    pub fn edges(&self) -> &BTreeMap<(String, String), Import> {
        &self.edges
    }

    fn add(&mut self, file: &File, target: &str, line: usize) {
        if file.module[0] == target {
            return;
        }
        let import = Import {
            file: file.path.clone(),
            line,
        };
        let edge = (file.module[0].clone(), target.to_owned());
        self.edges.entry(edge).or_insert(import);
    }

    /// Adds what the crate root itself uses: each module named outside `mod` and `pub use`.
    fn add_root(&mut self, root: &[Token]) {
        let file = File {
            path: "lib.rs".into(),
            module: vec!["lib".to_owned()],
            tokens: Vec::new(),
        };
        self.modules.insert("lib".to_owned());
        let mut at = 0;
        while at < root.len() {
            let declares = root[at].is("mod") || root[at].is("pub") && is(root, at + 1, "use");
            if declares {
                at = skip_to(root, at, ";");
            } else if self.modules.contains(&root[at].text) && is(root, at + 1, ":") {
                self.add(&file, &root[at].text, root[at].line);
            }
            at += 1;
        }
    }
}

fn read(path: &Utf8Path) -> String {
    fs_err::read_to_string(path.as_std_path()).unwrap_or_else(|error| panic!("{error}"))
}

/// Collects all files of modules below `dir`, sorted by name. `bin` holds other crates' roots.
fn find_files(dir: &Utf8Path, module: &mut Vec<String>, found: &mut Vec<File>) {
    let mut entries: Vec<_> = dir
        .read_dir_utf8()
        .unwrap_or_else(|error| panic!("{dir}: {error}"))
        .map(|entry| {
            entry
                .unwrap_or_else(|error| panic!("{dir}: {error}"))
                .into_path()
        })
        .collect();
    entries.sort();
    for path in entries {
        let Some(stem) = path.file_stem().map(str::to_owned) else {
            continue;
        };
        let is_root = module.is_empty() && ["lib", "main", "bin"].contains(&stem.as_str());
        if is_root {
            continue;
        }
        module.push(stem);
        if path.is_dir() {
            find_files(&path, module, found);
        } else if path.extension() == Some("rs") {
            let is_mod = module.last().is_some_and(|name| name == "mod");
            let len = module.len() - usize::from(is_mod);
            found.push(File {
                module: module[..len].to_vec(),
                tokens: without_tests(&tokenize(&read(&path))),
                path: relative(&path, module.len()),
            });
        }
        module.pop();
    }
}

fn relative(path: &Utf8Path, components: usize) -> Utf8PathBuf {
    let skip = path.components().count() - components;
    path.components().skip(skip).collect()
}

/// Gives modules that the crate root declares with a `path` attribute their declared names.
fn rename_modules(root: &str, files: &mut [File]) {
    let mut paths = Vec::new();
    for line in root.lines() {
        let path = line
            .split_once("path = \"")
            .and_then(|(_, rest)| rest.split_once('"'));
        if let Some((path, _)) = path.filter(|_| line.starts_with("#[")) {
            paths.push(path.trim_end_matches("/mod.rs").trim_end_matches(".rs"));
        } else if let Some((_, name)) = line.split_once("mod ").filter(|_| line.ends_with(';')) {
            let declared = name.trim_end_matches(';');
            let named = files.iter_mut();
            for file in named.filter(|file| paths.contains(&file.module[0].as_str())) {
                declared.clone_into(&mut file.module[0]);
            }
            paths.clear();
        }
    }
}

/// Removes the files of modules that are declared behind `#[cfg(test)]`.
///
/// Their declarations were removed with the attribute. Only names with `test` are considered, because a
/// `#[path]` attribute can give a module another name than its file.
fn remove_test_modules(root: &[Token], files: &mut Vec<File>) {
    let mut declared: BTreeSet<Vec<String>> = BTreeSet::new();
    declared.extend(declarations(root).map(|name| vec![name]));
    for file in files.iter() {
        let paths =
            declarations(&file.tokens).map(|name| [file.module.as_slice(), &[name]].concat());
        declared.extend(paths);
    }
    files.retain(|file| {
        let mut paths = (1..=file.module.len()).map(|len| &file.module[..len]);
        !paths.any(|path| path[path.len() - 1].contains("test") && !declared.contains(path))
    });
}

/// The names in `mod name;`.
fn declarations(tokens: &[Token]) -> impl Iterator<Item = String> {
    tokens.windows(3).filter_map(|window| {
        let declares = window[0].is("mod") && window[1].is_name() && window[2].is(";");
        declares.then(|| window[1].text.clone())
    })
}

/// The names that the crate root re-exports, each with the module it is from.
fn reexports(root: &[Token], modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (at, token) in root.iter().enumerate() {
        let module = root.get(at + 1).map(|token| &token.text);
        let Some(module) = module.filter(|name| token.is("use") && modules.contains(*name)) else {
            continue;
        };
        let names = &root[at + 2..skip_to(root, at, ";")];
        let names = names.iter().filter(|token| token.is_name());
        found.extend(names.map(|name| (name.text.clone(), module.clone())));
    }
    found
}

/// The names that the crate root imports from other crates of the workspace.
fn foreign_names(root: &[Token]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, token) in root.iter().enumerate() {
        let owner = root.get(at + 1).filter(|_| token.is("use"));
        if owner.is_some_and(|owner| owner.text.starts_with("proctor_")) {
            let names = &root[at + 2..skip_to(root, at, ";")];
            let names = names.iter().filter(|token| token.is_name());
            found.extend(names.map(|name| name.text.clone()));
        }
    }
    found
}

/// The first segments of all paths of `file` that start at the crate root, with their lines.
fn paths_from_root(file: &File) -> Vec<(String, usize)> {
    let tokens = &file.tokens;
    let mut found = Vec::new();
    let mut braces = 0;
    let mut inline_modules = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let token = &tokens[at];
        if token.is("{") {
            braces += 1;
            let is_module = at >= 2 && tokens[at - 2].is("mod") && tokens[at - 1].is_name();
            inline_modules.extend(is_module.then_some(braces));
        } else if token.is("}") {
            inline_modules.pop_if(|depth| *depth == braces);
            braces -= 1;
        }
        let depth = file.module.len() + inline_modules.len();
        let starts = at == 0 || !tokens[at - 1].is(":");
        if let Some(end) = root_prefix(tokens, at, depth).filter(|_| starts) {
            first_segments(tokens, end, &mut found);
            at = end;
        } else {
            at += 1;
        }
    }
    found
}

/// The index after `crate::` or after as many `super::` as lead from `depth` to the crate root.
fn root_prefix(tokens: &[Token], at: usize, depth: usize) -> Option<usize> {
    if is(tokens, at, "crate") {
        return is_path_separator(tokens, at + 1).then_some(at + 3);
    }
    let mut end = at;
    for _ in 0..depth {
        let up = is(tokens, end, "super") && is_path_separator(tokens, end + 1);
        end = up.then_some(end + 3)?;
    }
    Some(end)
}

fn is_path_separator(tokens: &[Token], at: usize) -> bool {
    is(tokens, at, ":") && is(tokens, at + 1, ":")
}

/// Adds the segment at `at`, or the first segment of each path in the braces there.
fn first_segments(tokens: &[Token], at: usize, found: &mut Vec<(String, usize)>) {
    let Some(first) = tokens.get(at) else {
        return;
    };
    if !first.is("{") {
        found.push((first.text.clone(), first.line));
        return;
    }
    let mut depth = 0;
    let mut expects_segment = false;
    for token in &tokens[at..] {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," => {}
            _ if expects_segment => found.push((token.text.clone(), token.line)),
            _ => {}
        }
        if depth == 0 {
            return;
        }
        expects_segment = depth == 1 && (token.is("{") || token.is(","));
    }
}

fn is(tokens: &[Token], at: usize, text: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.is(text))
}

fn skip_to(tokens: &[Token], at: usize, text: &str) -> usize {
    let found = tokens[at..].iter().position(|token| token.is(text));
    found.map_or(tokens.len(), |offset| at + offset)
}

/// The tokens without the items behind `#[cfg(test)]`; none if the whole file is a test.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let inner = is(tokens, at + 1, "!");
        let open = at + 1 + usize::from(inner);
        if tokens[at].is("#") && is(tokens, open, "[") {
            let end = group_end(tokens, open);
            if is_test_cfg(&tokens[open..end]) {
                if inner {
                    return Vec::new();
                }
                at = item_end(tokens, end);
                continue;
            }
        }
        kept.push(tokens[at].clone());
        at += 1;
    }
    kept
}

/// Whether an attribute's tokens, from its bracket, are `cfg(test)` or `cfg(all(test, …))`.
fn is_test_cfg(attribute: &[Token]) -> bool {
    let texts: Vec<_> = attribute.iter().map(|token| token.text.as_str()).collect();
    let all = texts.starts_with(&["[", "cfg", "(", "all", "("]);
    let negated = texts.contains(&"not") || texts.contains(&"any");
    texts.starts_with(&["[", "cfg", "(", "test", ")"]) || all && texts.contains(&"test") && !negated
}

/// The index after the brackets or braces that open at `at`.
fn group_end(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0;
    for (offset, token) in tokens[at..].iter().enumerate() {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + offset + 1;
        }
    }
    tokens.len()
}

/// The index after the item, field or variant at `at`, with its attributes.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    while is(tokens, at, "#") {
        at = group_end(tokens, at + 1);
    }
    if is(tokens, at, "pub") {
        at += 1;
        if is(tokens, at, "(") {
            at = group_end(tokens, at);
        }
    }
    let first = tokens.get(at).map_or("", |token| token.text.as_str());
    let is_item = ITEM_KEYWORDS.contains(&first);
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            ")" | "]" | "}" => return at,
            "{" if first != "use" => return group_end(tokens, at),
            "(" | "[" | "{" => at = group_end(tokens, at),
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, source: &str) -> File {
        let module = path.trim_end_matches(".rs").split('/');
        File {
            path: path.into(),
            module: module.map(str::to_owned).collect(),
            tokens: without_tests(&tokenize(source)),
        }
    }

    fn edges(root: &str, files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files
            .iter()
            .map(|(path, source)| file(path, source))
            .collect();
        let imports = Imports::of(&tokenize(root), &files);
        let edges = imports.edges.iter();
        edges
            .map(|((from, to), import)| format!("{from} -> {to} ({}:{})", import.file, import.line))
            .collect()
    }

    #[test]
    fn every_form_of_a_path_from_the_root_is_an_import() {
        let source =
            "use crate::b::X;\nuse crate::{c::{Y, b}, d};\nfn f() { crate::e::g() }\nuse super::h;";
        let modules = ["b", "c", "d", "e", "h"].map(|name| format!("{name}.rs"));
        let mut files = vec![("a.rs", source)];
        files.extend(modules.iter().map(|path| (path.as_str(), "")));
        let expected = [
            "a -> b (a.rs:1)",
            "a -> c (a.rs:2)",
            "a -> d (a.rs:2)",
            "a -> e (a.rs:3)",
            "a -> h (a.rs:4)",
        ];
        assert_eq!(edges("", &files), expected);
    }

    #[test]
    fn module_with_a_path_has_its_declared_name() {
        let root = "#[cfg_attr(unix, path = \"unix/mod.rs\")]\n\
            #[cfg_attr(windows, path = \"windows/mod.rs\")]\nmod sys;\nmod a;";
        let mut files = [
            file("unix/x.rs", ""),
            file("windows.rs", ""),
            file("a.rs", ""),
        ];
        rename_modules(root, &mut files);
        let names = files.map(|file| file.module.join("::"));
        assert_eq!(names, ["sys::x", "sys", "a"]);
    }

    #[test]
    fn super_reaches_the_root_only_from_the_right_depth() {
        let source = "use super::b;\nuse super::super::b;\nmod inner { use super::super::c; }";
        let files = [("a/x.rs", source), ("b.rs", ""), ("c.rs", "")];
        assert_eq!(edges("", &files), ["a -> b (a/x.rs:2)"]);
        let inline = "mod inner { use super::super::b; }\nuse super::c;";
        let files = [("a.rs", inline), ("b.rs", ""), ("c.rs", "")];
        assert_eq!(edges("", &files), ["a -> b (a.rs:1)", "a -> c (a.rs:2)"]);
    }

    #[test]
    fn test_code_is_not_an_import() {
        let source = "#[cfg(test)]\nuse crate::b::{X, Y};\n#[cfg(test)]\nmod tests { use crate::b; }\n\
            struct S { #[cfg(test)] x: crate::b::X, y: u8 }\n#[cfg(not(test))]\nuse crate::c;";
        let files = [
            ("a.rs", source),
            ("b.rs", "#![cfg(test)]\nuse crate::c;"),
            ("c.rs", ""),
        ];
        assert_eq!(edges("", &files), ["a -> c (a.rs:7)"]);
    }

    #[test]
    fn files_of_test_modules_are_removed() {
        let mut files = vec![
            file("a.rs", "#[cfg(test)] mod tests; mod test_runner; mod b;"),
            file("a/tests.rs", "mod inner;"),
            file("a/tests/inner.rs", ""),
            file("a/test_runner.rs", ""),
            file("a/b.rs", ""),
            file("testing.rs", ""),
        ];
        remove_test_modules(
            &without_tests(&tokenize("mod a; #[cfg(test)] mod testing;")),
            &mut files,
        );
        let kept: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(kept, ["a.rs", "a/test_runner.rs", "a/b.rs"]);
    }

    #[test]
    fn names_at_the_root_belong_to_the_module_they_are_from() {
        let root = "mod a; mod b; mod c; pub use b::{X, deep::Y}; pub const Z: u8 = c::Z;";
        let files = [("a.rs", "use crate::Y;"), ("b.rs", ""), ("c.rs", "")];
        assert_eq!(edges(root, &files), ["a -> b (a.rs:1)"]);
        let files = [("a.rs", "use crate::Z;"), ("b.rs", ""), ("c.rs", "")];
        assert_eq!(
            edges(root, &files),
            ["a -> lib (a.rs:1)", "lib -> c (lib.rs:1)"]
        );
    }
}
