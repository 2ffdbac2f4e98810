//! Creates a workspace without a container: the files that a Dockerfile of FROM, WORKDIR, ENV and
//! COPY puts into its working directory. Any other instruction requires a container.

use std::{collections::BTreeMap, io};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_document::{Fault, Span};
use proctor_record::{
    fs::{
        dir,
        expand::{Hidden, expand},
        glob::{self, Ignore, IgnoreSyntax},
    },
    platform,
};

use super::dockerfile::{Dockerfile, Instruction, Words};

/// The hint for features that require a container.
pub(crate) const NEEDS_DOCKER: &str = "use `--sandbox docker`";

/// The content of a workspace.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The base image of the Dockerfile, for information only.
    pub base: String,
    /// The working directory in the container.
    pub workdir: Utf8PathBuf,
    /// Variables that the Dockerfile sets.
    pub env: BTreeMap<String, String>,
    context: Utf8PathBuf,
    ignore: Ignore,
    copies: Vec<Copy>,
}

/// One COPY instruction.
#[derive(Clone, Debug)]
struct Copy {
    /// The sources, relative to the context.
    sources: Vec<Utf8PathBuf>,
    /// The destination in the container.
    to: Utf8PathBuf,
    /// Whether `to` is a directory.
    to_folder: bool,
    mode: Option<u32>,
    span: Span,
}

/// Interprets the instructions.
struct RecipeReader<'a> {
    escape: char,
    recipe: Recipe,
    stages: usize,
    faults: Vec<Fault>,
    known: BTreeMap<String, String>,
    context: &'a Utf8Path,
}

impl Recipe {
    /// Reads the Dockerfile `text` of a build context. `path` is PATH in its image.
    pub(crate) fn read(
        text: &str,
        context: &Utf8Path,
        workdir: Option<&Utf8Path>,
        path: &str,
    ) -> Result<Recipe, Vec<Fault>> {
        let dockerfile = Dockerfile::parse(text);
        let ignore = Ignore::read(
            context.join(".dockerignore").as_std_path(),
            IgnoreSyntax::Docker,
        );
        let whole = Span::default();
        let ignore = ignore.map_err(|error| vec![Fault::new(whole, error.to_string())])?;
        let mut reader = RecipeReader {
            escape: dockerfile.escape,
            recipe: Recipe {
                base: String::new(),
                workdir: "/".into(),
                env: BTreeMap::new(),
                context: context.to_owned(),
                ignore,
                copies: Vec::new(),
            },
            stages: 0,
            faults: Vec::new(),
            known: [("PATH".to_owned(), path.to_owned())].into(),
            context,
        };
        for instruction in &dockerfile.instructions {
            reader.instruction(instruction);
        }
        reader.finish(workdir)
    }

    /// Creates the files in the new directory `into`, which is the working directory.
    pub fn lay_out(&self, into: &Utf8Path) -> io::Result<()> {
        fs::create_dir_all(into)?;
        for copy in &self.copies {
            let below = copy.to.strip_prefix(&self.workdir).unwrap_or(&copy.to);
            let to = into.join(below);
            for source in &copy.sources {
                self.place(copy, source, into, &to)?;
            }
        }
        Ok(())
    }

    fn place(
        &self,
        copy: &Copy,
        source: &Utf8Path,
        into: &Utf8Path,
        to: &Utf8Path,
    ) -> io::Result<()> {
        let from = self.context.join(source);
        if from.is_dir() {
            stay_inside(into, to)?;
            let keep = |path: &std::path::Path| self.wants(path);
            dir::copy_where(from.as_std_path(), to.as_std_path(), &keep)?;
            if let Some(mode) = copy.mode {
                set_modes(from.as_std_path(), to.as_std_path(), mode)?;
            }
            return Ok(());
        }
        let name = source.file_name().unwrap_or_default();
        let target = if copy.to_folder || to.is_dir() {
            to.join(name)
        } else {
            to.to_owned()
        };
        stay_inside(into, &target)?;
        fs::create_dir_all(target.parent().unwrap_or(into))?;
        fs::copy(&from, &target)?;
        match copy.mode {
            Some(mode) => platform::set_mode(target.as_std_path(), mode),
            None => Ok(()),
        }
    }

    /// Whether a path below the context is copied. A repository is not: the workspace has its own.
    fn wants(&self, path: &std::path::Path) -> bool {
        let below = path.strip_prefix(&self.context).unwrap_or(path);
        let Some(below) = below.to_str() else {
            return true;
        };
        let below = platform::slashed(below);
        if below.split('/').any(|part| part == ".git") {
            return false;
        }
        !self.ignore.has(&below) || (path.is_dir() && self.ignore.has_exceptions())
    }
}

/// Checks that a copied link does not point out of the directory.
fn stay_inside(into: &Utf8Path, target: &Utf8Path) -> io::Result<()> {
    let below = target.strip_prefix(into).unwrap_or(target);
    let mut path = into.to_owned();
    for part in below.components() {
        path.push(part);
        if path
            .symlink_metadata()
            .is_ok_and(|about| about.is_symlink())
        {
            return Err(io::Error::other(format!(
                "COPY would write through the symbolic link {below}"
            )));
        }
    }
    Ok(())
}

/// Sets the mode of every copied file.
fn set_modes(from: &std::path::Path, to: &std::path::Path, mode: u32) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if !target.exists() {
            continue;
        }
        if entry.file_type()?.is_dir() {
            set_modes(&entry.path(), &target, mode)?;
        } else if entry.file_type()?.is_file() {
            platform::set_mode(&target, mode)?;
        }
    }
    Ok(())
}

impl RecipeReader<'_> {
    fn instruction(&mut self, one: &Instruction) {
        let read = match one.keyword.as_str() {
            "FROM" => self.from(one),
            "WORKDIR" => self.workdir(one),
            "ENV" => self.env(one),
            "COPY" => self.copy(one),
            other => Err(format!("`{other}` requires a container")),
        };
        if let Err(message) = read {
            let fault = Fault::new(one.span, message);
            self.faults.push(fault.with_hint(NEEDS_DOCKER));
        }
    }

    fn words(&self) -> Words<'_> {
        Words {
            variables: &self.known,
            escape: self.escape,
        }
    }

    fn from(&mut self, one: &Instruction) -> Result<(), String> {
        self.stages += 1;
        if self.stages > 1 {
            return Err("a second `FROM` requires a container".to_owned());
        }
        let mut words = one.rest.split_whitespace();
        let base = words.find(|word| !word.starts_with("--"));
        let base = base.ok_or("`FROM` has no image")?;
        self.recipe.base = self.words().fill(base)?;
        Ok(())
    }

    fn workdir(&mut self, one: &Instruction) -> Result<(), String> {
        let path = self.words().fill(&one.rest)?;
        if path.is_empty() {
            return Err("`WORKDIR` has no directory".to_owned());
        }
        self.recipe.workdir = cleaned(&self.recipe.workdir.join(path));
        Ok(())
    }

    fn env(&mut self, one: &Instruction) -> Result<(), String> {
        let pairs = self.words().pairs(&one.rest)?;
        for (name, value) in pairs {
            self.known.insert(name.clone(), value.clone());
            self.recipe.env.insert(name, value);
        }
        Ok(())
    }

    fn copy(&mut self, one: &Instruction) -> Result<(), String> {
        let (flags, rest) = flags(&one.rest);
        let mut mode = None;
        for flag in flags {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            match name {
                // Without a container there is only one user.
                "--chown" | "--link" => {}
                "--chmod" => {
                    let octal = u32::from_str_radix(value, 8).ok();
                    let octal = octal.filter(|octal| *octal <= 0o7777);
                    mode = Some(octal.ok_or_else(|| {
                        format!("`{flag}` is not a number such as 755 and requires a container")
                    })?);
                }
                _ => return Err(format!("`COPY {name}` requires a container")),
            }
        }
        let words = copy_words(rest)?;
        let words: Vec<String> = words
            .iter()
            .map(|word| self.words().fill(word))
            .collect::<Result<_, _>>()?;
        let Some((to, sources)) = words
            .split_last()
            .filter(|(_, sources)| !sources.is_empty())
        else {
            return Err("`COPY` requires a source and a destination".to_owned());
        };
        if words.iter().any(|word| word.starts_with("<<")) {
            return Err("a here-document requires a container".to_owned());
        }
        let mut found = Vec::new();
        for source in sources {
            found.extend(self.sources(source)?);
        }
        let to_folder = to.ends_with('/') || to == "." || to.ends_with("/.");
        if found.len() > 1 && !to_folder {
            return Err(format!("with several sources `{to}` must end with a `/`"));
        }
        self.recipe.copies.push(Copy {
            sources: found,
            to: cleaned(&self.recipe.workdir.join(to)),
            to_folder,
            mode,
            span: one.span,
        });
        Ok(())
    }

    /// The paths below the context that match a source.
    fn sources(&self, written: &str) -> Result<Vec<Utf8PathBuf>, String> {
        let relative = written.trim_start_matches('/');
        if relative.split('/').any(|part| part == "..") {
            return Err(format!("`{written}` is outside of the build context"));
        }
        let found = if glob::is_pattern(relative) {
            matching(self.context, relative)
        } else {
            let path = self.context.join(relative);
            let path = path.exists().then(|| Utf8PathBuf::from(relative));
            path.into_iter().collect()
        };
        let wanted: Vec<Utf8PathBuf> = found
            .into_iter()
            .filter(|path| {
                path.as_str().is_empty() || self.recipe.wants(self.context.join(path).as_std_path())
            })
            .collect();
        if wanted.is_empty() {
            return Err(format!("`{written}` not found in the build context"));
        }
        let root = platform::canonical(self.context);
        let root = root.map_err(|error| error.to_string())?;
        for path in &wanted {
            let real = platform::canonical(&self.context.join(path));
            if !real.is_ok_and(|real| real.starts_with(&root)) {
                return Err(format!("`{path}` is a link out of the build context"));
            }
        }
        Ok(wanted)
    }

    fn finish(mut self, workdir: Option<&Utf8Path>) -> Result<Recipe, Vec<Fault>> {
        let whole = Span::default();
        if self.stages == 0 {
            self.faults.push(Fault::new(whole, "`FROM` is missing"));
        }
        if let Some(workdir) = workdir {
            self.recipe.workdir = workdir.to_owned();
        }
        let workdir = &self.recipe.workdir;
        if workdir == "/" && self.faults.is_empty() {
            let message = "`WORKDIR` is missing: it is required without a container";
            self.faults
                .push(Fault::new(whole, message).with_hint(NEEDS_DOCKER));
        }
        for copy in &self.recipe.copies {
            if !copy.to.starts_with(workdir) {
                let message = format!(
                    "`{}` is not below the working directory `{workdir}`, which requires a container",
                    copy.to
                );
                self.faults
                    .push(Fault::new(copy.span, message).with_hint(NEEDS_DOCKER));
            }
        }
        if self.faults.is_empty() {
            Ok(self.recipe)
        } else {
            Err(self.faults)
        }
    }
}

/// The options before the words.
fn flags(rest: &str) -> (Vec<&str>, &str) {
    let mut flags = Vec::new();
    let mut rest = rest.trim_start();
    while rest.starts_with("--") {
        let (flag, tail) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        flags.push(flag);
        rest = tail.trim_start();
    }
    (flags, rest)
}

/// Words at spaces, or a JSON list of words.
fn copy_words(rest: &str) -> Result<Vec<String>, String> {
    if rest.starts_with('[')
        && let Ok(words) = serde_json::from_str::<Vec<String>>(rest)
    {
        return Ok(words);
    }
    let words: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        return Err("`COPY` has no files".to_owned());
    }
    Ok(words)
}

/// An absolute path without `.` and `..`.
fn cleaned(path: &Utf8Path) -> Utf8PathBuf {
    let mut clean = Vec::new();
    for part in platform::slashed(path.as_str()).split('/') {
        match part {
            "" | "." => {}
            ".." => {
                clean.pop();
            }
            name => clean.push(name.to_owned()),
        }
    }
    format!("/{}", clean.join("/")).into()
}

/// The matches of a pattern below `folder`, relative to it.
fn matching(folder: &Utf8Path, pattern: &str) -> Vec<Utf8PathBuf> {
    let found = expand(&folder.join(pattern), Hidden::Meant);
    let below = |path: Utf8PathBuf| path.strip_prefix(folder).map(Utf8Path::to_owned).ok();
    found.into_iter().filter_map(below).collect()
}
