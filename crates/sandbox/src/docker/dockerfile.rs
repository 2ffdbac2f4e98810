//! Dockerfiles, as far as a build must know them: the images they need, the features that not every
//! engine has, and heredocs.

mod heredoc;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use heredoc::Heredoc;

/// The flags of instructions that only `BuildKit` and podman know.
const NEW_FLAGS: [(&str, &[&str]); 3] = [
    ("RUN", &["mount", "network", "security"]),
    ("COPY", &["chmod", "link", "parents", "exclude"]),
    (
        "ADD",
        &[
            "chmod",
            "link",
            "exclude",
            "checksum",
            "keep-git-dir",
            "unpack",
        ],
    ),
];

/// A Dockerfile.
#[derive(Clone, Debug)]
pub(super) struct Dockerfile {
    lines: Vec<String>,
    instructions: Vec<Instruction>,
}

/// An instruction with its arguments on one line.
#[derive(Clone, Debug)]
struct Instruction {
    /// The indices of its lines, without the bodies of heredocs.
    lines: Range<usize>,
    /// In upper case.
    keyword: String,
    arguments: String,
    heredocs: Vec<Heredoc>,
}

/// A use of an image.
#[derive(Clone, Debug)]
struct ImageUse {
    /// The indices of the lines that may have it.
    lines: Range<usize>,
    /// The text before the image's name.
    before: &'static str,
    /// The image as written.
    written: String,
    /// The image, with build arguments replaced.
    name: String,
}

impl Dockerfile {
    pub(super) fn parse(text: &str) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let escape = match directive(&lines, "escape").map(|(_, value)| value) {
            Some("`") => '`',
            _ => '\\',
        };
        let mut instructions = Vec::new();
        let mut next = 0;
        while next < lines.len() {
            if is_comment(&lines[next]) || lines[next].trim().is_empty() {
                next += 1;
                continue;
            }
            let start = next;
            let (joined, end) = join(&lines, start, escape);
            let joined = joined.trim();
            let at = joined.find(char::is_whitespace).unwrap_or(joined.len());
            let (keyword, arguments) = joined.split_at(at);
            let keyword = keyword.to_ascii_uppercase();
            next = end;
            let heredocs = match keyword.as_str() {
                "RUN" | "COPY" | "ADD" => heredoc::read(arguments, &lines, &mut next),
                _ => Vec::new(),
            };
            instructions.push(Instruction {
                lines: start..end,
                keyword,
                arguments: arguments.trim().to_owned(),
                heredocs,
            });
        }
        Self {
            lines,
            instructions,
        }
    }

    pub(super) fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }

    /// The images that a build needs: those of `FROM` lines, `COPY --from` and `RUN --mount`.
    pub(super) fn images(&self, args: &BTreeMap<String, String>) -> BTreeSet<String> {
        self.uses(args).into_iter().map(|it| it.name).collect()
    }

    /// The image of the program that reads the Dockerfile, if it names one.
    pub(super) fn syntax(&self) -> Option<&str> {
        let (_, image) = directive(&self.lines, "syntax")?;
        Some(image)
    }

    /// Leaves the reading to the engine.
    pub(super) fn remove_syntax(&mut self) {
        if let Some((line, _)) = directive(&self.lines, "syntax") {
            "#".clone_into(&mut self.lines[line]);
        }
    }

    /// Replaces images.
    pub(super) fn replace_images(
        &mut self,
        args: &BTreeMap<String, String>,
        images: &BTreeMap<String, String>,
    ) {
        let mut uses = self.uses(args);
        if let Some((line, image)) = directive(&self.lines, "syntax") {
            uses.push(ImageUse {
                lines: line..line + 1,
                before: "",
                written: image.to_owned(),
                name: image.to_owned(),
            });
        }
        for image in uses {
            let Some(other) = images.get(&image.name) else {
                continue;
            };
            let written = format!("{}{}", image.before, image.written);
            let lines = self.lines[image.lines].iter_mut();
            if let Some(line) = lines.into_iter().find(|line| line.contains(&written)) {
                *line = line.replacen(&written, &format!("{}{other}", image.before), 1);
            }
        }
        *self = Self::parse(&self.text());
    }

    /// The first feature that needs `BuildKit` or podman, with its line: `line 4: RUN --mount`.
    pub(super) fn new_feature(&self) -> Option<String> {
        self.instructions.iter().find_map(|it| {
            let line = it.lines.start + 1;
            if !it.heredocs.is_empty() {
                return Some(format!("line {line}: a heredoc of {}", it.keyword));
            }
            let (_, flags) = NEW_FLAGS.iter().find(|(name, _)| *name == it.keyword)?;
            let flag = it.flags().find(|(name, _)| flags.contains(name))?.0;
            Some(format!("line {line}: {} --{flag}", it.keyword))
        })
    }

    fn uses(&self, args: &BTreeMap<String, String>) -> Vec<ImageUse> {
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        let mut stages: Vec<String> = Vec::new();
        let mut has_stage = false;
        let mut uses = Vec::new();
        for it in &self.instructions {
            let mut add = |before, written: &str, name: String| {
                let is_stage = stages.iter().any(|it| it.eq_ignore_ascii_case(&name));
                let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
                if !is_stage && !is_number && name != "scratch" {
                    uses.push(ImageUse {
                        lines: it.lines.clone(),
                        before,
                        written: written.to_owned(),
                        name,
                    });
                }
            };
            match it.keyword.as_str() {
                "ARG" if !has_stage => it.add_values(args, &mut values),
                "FROM" => {
                    has_stage = true;
                    let words = it.arguments.split_whitespace();
                    let mut words = words.skip_while(|word| word.starts_with("--"));
                    if let Some(image) = words.next().map(|word| word.trim_matches('"')) {
                        add("", image, fill_in(image, &values));
                    }
                    stages.extend(words.nth(1).map(str::to_owned));
                }
                "COPY" | "RUN" => {
                    for image in it.flags().filter_map(|(flag, value)| match flag {
                        "from" => Some(value),
                        "mount" => value.split(',').find_map(|it| it.strip_prefix("from=")),
                        _ => None,
                    }) {
                        add("from=", image, image.to_owned());
                    }
                }
                _ => {}
            }
        }
        uses
    }
}

impl Instruction {
    /// Its flags, with their values.
    fn flags(&self) -> impl Iterator<Item = (&str, &str)> {
        let words = self.arguments.split_whitespace();
        let flags = words.map_while(|word| word.strip_prefix("--"));
        flags.map(|flag| flag.split_once('=').unwrap_or((flag, "")))
    }

    /// Adds the values of an `ARG`.
    fn add_values(&self, args: &BTreeMap<String, String>, values: &mut BTreeMap<String, String>) {
        for word in self.arguments.split_whitespace() {
            let (key, default) = word.split_once('=').unwrap_or((word, ""));
            let default = fill_in(default.trim_matches(['"', '\'']), values);
            let value = args.get(key).cloned().unwrap_or(default);
            values.insert(key.to_owned(), value);
        }
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// The line and value of a parser directive, which is a comment before everything else.
fn directive<'a>(lines: &'a [String], name: &str) -> Option<(usize, &'a str)> {
    let pairs = lines.iter().map_while(|line| {
        let (key, value) = line.trim().strip_prefix('#')?.split_once('=')?;
        Some((key.trim(), value.trim()))
    });
    let mut pairs = pairs.enumerate();
    let (line, (_, value)) = pairs.find(|(_, (key, _))| key.eq_ignore_ascii_case(name))?;
    Some((line, value))
}

/// The instruction that starts at a line, on one line, and the line after it.
fn join(lines: &[String], start: usize, escape: char) -> (String, usize) {
    let mut joined = String::new();
    for (index, line) in lines.iter().enumerate().skip(start) {
        if index > start && (is_comment(line) || line.trim().is_empty()) {
            continue;
        }
        let Some(part) = line.trim_end().strip_suffix(escape) else {
            joined.push_str(line);
            return (joined, index + 1);
        };
        joined.push_str(part);
    }
    (joined, lines.len())
}

/// Expands `$NAME`, `${NAME}` and `${NAME:-default}`.
fn fill_in(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        filled.push_str(before);
        let (name, after) = if let Some(inside) = after.strip_prefix('{') {
            inside.split_once('}').unwrap_or((inside, ""))
        } else {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len()))
        };
        let (name, default) = name.split_once(":-").unwrap_or((name, ""));
        let value = values.get(name).filter(|value| !value.is_empty());
        filled.push_str(value.map_or(default, String::as_str));
        rest = after;
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs.map(|(a, b)| ((*a).into(), (*b).into())).collect()
    }

    #[track_caller]
    fn check(dockerfile: &str, args: &[(&str, &str)], expect: &[&str]) {
        let images = Dockerfile::parse(dockerfile).images(&map(args));
        let images: Vec<&str> = images.iter().map(String::as_str).collect();
        assert_eq!(images, expect, "{dockerfile}");
    }

    #[test]
    fn images_are_found_with_their_arguments() {
        check("FROM debian:12\nRUN x\n", &[], &["debian:12"]);
        check("ARG BASE=a:1\nFROM $BASE AS b\nFROM B\n", &[], &["a:1"]);
        check("ARG BASE=a:1\nFROM ${BASE}\n", &[("BASE", "c:2")], &["c:2"]);
        check(
            "ARG V\nfrom --platform=linux/amd64 x:${V:-9}-slim\n",
            &[],
            &["x:9-slim"],
        );
        check("ARG V=3\nARG I=p:$V\nFROM $I\nARG I=no\n", &[], &["p:3"]);
        check("FROM scratch\n", &[], &[]);
    }

    #[test]
    fn images_of_other_instructions_are_found() {
        let dockerfile = "FROM a AS first\nCOPY --chown=1 \\\n  # a comment\n  --from=b:1 /x /y\n\
                          COPY --from=first /x /\nCOPY --from=0 /x /\n\
                          RUN --mount=type=bind,from=c:1,target=/c --mount=from=first,target=/f x\n\
                          RUN <<EOF\nFROM no\nEOF\nRUN echo --from=none\n";
        check(dockerfile, &[], &["a", "b:1", "c:1"]);
    }

    #[test]
    fn images_are_replaced_everywhere() {
        let mut dockerfile = Dockerfile::parse(
            "# syntax=docker/dockerfile:1\nARG V=3.12\nFROM --platform=linux/amd64 python:${V} AS base\n\
             RUN echo python:3.12\nFROM base\nCOPY \\\n --from=uv:1 /uv /bin/\n\
             RUN --mount=from=uv:1,target=/uv x\n",
        );
        let images = [
            ("python:3.12", "local/python"),
            ("uv:1", "local/uv"),
            ("docker/dockerfile:1", "local/dockerfile"),
            ("base", "never"),
        ];
        dockerfile.replace_images(&BTreeMap::new(), &map(&images));
        let expect = "# syntax=local/dockerfile\nARG V=3.12\nFROM --platform=linux/amd64 local/python AS base\n\
                      RUN echo python:3.12\nFROM base\nCOPY \\\n --from=local/uv /uv /bin/\n\
                      RUN --mount=from=local/uv,target=/uv x\n";
        assert_eq!(dockerfile.text(), expect);
        assert_eq!(dockerfile.syntax(), Some("local/dockerfile"));
        dockerfile.remove_syntax();
        assert_eq!(dockerfile.syntax(), None);
    }

    #[test]
    fn first_feature_of_buildkit_is_named_with_its_line() {
        for (dockerfile, expect) in [
            (
                "FROM a\n\nRUN --mount=type=cache,target=/c x\n",
                Some("line 3: RUN --mount"),
            ),
            (
                "FROM a\nCOPY --from=b --chmod=7 x y\n",
                Some("line 2: COPY --chmod"),
            ),
            (
                "FROM a\nRUN cat <<EOF\nx\nEOF\n",
                Some("line 2: a heredoc of RUN"),
            ),
            (
                "FROM a\nRUN echo --mount $((1 << 2))\nCOPY --chown=1 x y\n",
                None,
            ),
        ] {
            let found = Dockerfile::parse(dockerfile).new_feature();
            assert_eq!(found.as_deref(), expect, "{dockerfile}");
        }
    }
}
