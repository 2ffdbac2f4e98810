//! Heredocs of Dockerfiles, and their equivalent for engines whose builder does not read them.

use std::collections::BTreeMap;

use super::{Dockerfile, Instruction};

/// The directory of inline files in the build context.
const INLINE_FILES: &str = ".proctor-heredocs";

/// Runs a script with an interpreter of its own, which the shell gets as its name.
const RUN_SCRIPT: &str = "script=\"$(mktemp)\" && printf %s \"$0\" >\"$script\" && chmod 755 \"$script\" && \
                          \"$script\"; code=$?; rm -f \"$script\"; exit $code";

/// A heredoc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heredoc {
    /// The word that begins it, as written: `<<"EOF"`.
    word: String,
    name: String,
    /// Whether variables in it are expanded by the builder.
    is_expanded: bool,
    /// Whether leading tabs of its lines are removed.
    is_chomped: bool,
    lines: Vec<String>,
}

impl Heredoc {
    /// The heredoc that a word begins: an optional file descriptor, `<<` or `<<-`, and a name.
    fn begin(word: &str) -> Option<Self> {
        let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
        let rest = rest.strip_prefix("<<")?;
        let (is_chomped, rest) = match rest.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let name = rest.replace(['"', '\''], "");
        (!name.is_empty() && !rest.contains('<')).then(|| Self {
            word: word.to_owned(),
            is_expanded: name == rest,
            name,
            is_chomped,
            lines: Vec::new(),
        })
    }

    /// A line, without leading tabs if the heredoc asks for that.
    fn chomp<'a>(&self, line: &'a str) -> &'a str {
        if self.is_chomped {
            line.trim_start_matches('\t')
        } else {
            line
        }
    }

    fn content(&self) -> String {
        let lines = self.lines.iter();
        lines.flat_map(|line| [self.chomp(line), "\n"]).collect()
    }

    /// The body in a shell's script, with its end.
    fn body(&self) -> String {
        let lines = self.lines.iter().map(String::as_str).chain([&*self.name]);
        lines.flat_map(|line| ["\n", line]).collect()
    }
}

/// The heredocs of an instruction. Their bodies begin at the line `next`, which is moved behind
/// them.
pub(super) fn read(arguments: &str, lines: &[String], next: &mut usize) -> Vec<Heredoc> {
    let mut heredocs: Vec<Heredoc> = words(arguments)
        .into_iter()
        .filter_map(Heredoc::begin)
        .collect();
    for heredoc in &mut heredocs {
        while let Some(line) = lines.get(*next) {
            *next += 1;
            if heredoc.chomp(line) == heredoc.name {
                break;
            }
            heredoc.lines.push(line.clone());
        }
    }
    heredocs
}

/// The words of a shell command, with their quotes.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut quote, mut is_escaped) = (None, None, false);
    for (at, c) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if c.is_whitespace() && quote.is_none() {
            words.extend(start.take().map(|start| &text[start..at]));
            continue;
        } else if c == '\\' && quote != Some('\'') {
            is_escaped = true;
        } else if quote == Some(c) {
            quote = None;
        } else if quote.is_none() && matches!(c, '"' | '\'') {
            quote = Some(c);
        }
        start.get_or_insert(at);
    }
    words.extend(start.map(|start| &text[start..]));
    words
}

/// A Dockerfile whose heredocs were replaced.
#[derive(Debug)]
pub(in super::super) struct WithoutHeredocs {
    pub(in super::super) text: String,
    /// Additional files of the build context.
    pub(in super::super) files: BTreeMap<String, String>,
    /// The rule of `.dockerignore` that keeps them.
    pub(in super::super) kept: String,
}

impl Dockerfile {
    /// The same without heredocs; `None` if it has none. An error is a feature that has no
    /// equivalent.
    pub(in super::super) fn without_heredocs(&self) -> Result<Option<WithoutHeredocs>, String> {
        let mut lines: Vec<String> = Vec::new();
        let mut files = BTreeMap::new();
        let mut shell = ["/bin/sh".to_owned(), "-c".to_owned()].to_vec();
        let mut copied = 0;
        for it in &self.instructions {
            match it.keyword.as_str() {
                "FROM" => shell = ["/bin/sh".to_owned(), "-c".to_owned()].to_vec(),
                "SHELL" => {
                    shell = serde_json::from_str(&it.arguments).unwrap_or(shell);
                }
                _ => {}
            }
            if it.heredocs.is_empty() {
                continue;
            }
            // Comments and instructions before it, on the same lines as before.
            let until = it.lines.start;
            lines.extend_from_slice(&self.lines[copied..until]);
            let end = it.end_of_heredocs();
            lines.push(match it.keyword.as_str() {
                "RUN" => it.run(&shell),
                _ => it.copy(&mut files)?,
            });
            lines.extend((until + 1..end.min(self.lines.len())).map(|_| String::new()));
            copied = end.min(self.lines.len());
        }
        if copied == 0 {
            return Ok(None);
        }
        lines.extend_from_slice(&self.lines[copied..]);
        Ok(Some(WithoutHeredocs {
            text: lines.join("\n") + "\n",
            files,
            kept: format!("!{INLINE_FILES}"),
        }))
    }
}

impl Instruction {
    /// The line after its heredocs.
    fn end_of_heredocs(&self) -> usize {
        let bodies = self.heredocs.iter().map(|heredoc| heredoc.lines.len() + 1);
        self.lines.end + bodies.sum::<usize>()
    }

    /// The equivalent of a `RUN`: the heredocs are a part of the shell's script.
    fn run(&self, shell: &[String]) -> String {
        let mut command = self.arguments.as_str();
        while command.starts_with("--") {
            let rest = command.split_once(char::is_whitespace);
            command = rest.map_or("", |(_, rest)| rest.trim_start());
        }
        let flags = &self.arguments[..self.arguments.len() - command.len()];
        let mut argv = shell.to_vec();
        match &self.heredocs[..] {
            [only] if command == only.word => {
                let script = only.content();
                if script.starts_with("#!") {
                    argv = ["/bin/sh", "-c", RUN_SCRIPT].map(str::to_owned).to_vec();
                }
                argv.push(script);
            }
            heredocs => {
                let bodies: String = heredocs.iter().map(Heredoc::body).collect();
                argv.push(command.to_owned() + &bodies);
            }
        }
        let argv = serde_json::Value::from(argv);
        format!("RUN {flags}{argv}")
    }

    /// The equivalent of a `COPY` or `ADD`: the heredocs are files of the context.
    fn copy(&self, files: &mut BTreeMap<String, String>) -> Result<String, String> {
        let mut line = self.keyword.clone();
        let mut heredocs = self.heredocs.iter();
        for word in words(&self.arguments) {
            line.push(' ');
            if Heredoc::begin(word).is_none() {
                line.push_str(word);
                continue;
            }
            let Some(heredoc) = heredocs.next() else {
                continue;
            };
            let content = heredoc.content();
            if heredoc.is_expanded && content.contains('$') {
                let number = self.lines.start + 1;
                let keyword = &self.keyword;
                return Err(format!(
                    "line {number}: a heredoc of {keyword} with variables"
                ));
            }
            let path = format!("{INLINE_FILES}/{}/{}", files.len(), heredoc.name);
            line.push_str(&path);
            files.insert(path, content);
        }
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(dockerfile: &str, expect: &str) {
        let done = Dockerfile::parse(dockerfile).without_heredocs().unwrap();
        assert_eq!(done.unwrap().text, expect);
    }

    #[test]
    fn run_gets_the_script_as_an_argument() {
        check(
            "FROM a\nRUN --mount=type=cache,target=/c <<EOF\n# kept\necho \"$X\"\nEOF\n# after\nRUN b\n",
            "FROM a\nRUN --mount=type=cache,target=/c [\"/bin/sh\",\"-c\",\"# kept\\necho \\\"$X\\\"\\n\"]\n\n\n\n# after\nRUN b\n",
        );
        check(
            "FROM a\nSHELL [\"bash\", \"-ec\"]\nRUN <<-EOF\n\tx\n\tEOF\n",
            "FROM a\nSHELL [\"bash\", \"-ec\"]\nRUN [\"bash\",\"-ec\",\"x\\n\"]\n\n\n",
        );
        check(
            "RUN cat <<A <<'B' > /x && \\\n  echo\na\nA\nb\nB\n",
            "RUN [\"/bin/sh\",\"-c\",\"cat <<A <<'B' > /x &&   echo\\na\\nA\\nb\\nB\"]\n\n\n\n\n\n",
        );
    }

    #[test]
    fn copy_gets_files_of_the_context() {
        let text = "COPY --chmod=600 <<'one' <<two /d/\n$1\none\n2\ntwo\n";
        let done = Dockerfile::parse(text).without_heredocs().unwrap().unwrap();
        let expect =
            "COPY --chmod=600 .proctor-heredocs/0/one .proctor-heredocs/1/two /d/\n\n\n\n\n";
        assert_eq!(done.text, expect);
        assert_eq!(done.files[".proctor-heredocs/0/one"], "$1\n");
        assert_eq!(done.files[".proctor-heredocs/1/two"], "2\n");
        let text = "FROM a\nCOPY <<EOF /x\n$HOME\nEOF\n";
        let refused = Dockerfile::parse(text).without_heredocs().unwrap_err();
        assert_eq!(refused, "line 2: a heredoc of COPY with variables");
    }

    #[test]
    fn shifts_and_here_strings_are_not_heredocs() {
        for text in [
            "RUN echo $((1 << 2))\nRUN x\n",
            "RUN cat <<<EOF\n",
            "RUN echo '<<EOF'\n",
            "RUN echo \"a <<EOF\"\n",
            "# RUN <<EOF\n",
        ] {
            let done = Dockerfile::parse(text).without_heredocs().unwrap();
            assert!(done.is_none(), "{text}: {done:?}");
        }
    }
}
