//! The treatment of a trial's agent: its files in the workspace and in HOME, and whether they reached the model.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader},
};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_agents::agent::Launch;
use proctor_gateway::{Observation, TextProbe, Watch, Watcher};
use proctor_record::{
    fs::{beneath::UntrustedDir, hex},
    record::delivery::{DeliveryKind, DeliveryRecord},
};
use proctor_sandbox::ExecEnv;
use sha2::{Digest, Sha256};

use super::{
    Contestant, Site, Trial, TrialError, chain, container, prepare::NotRun,
    workspace::workspace_failed,
};
use crate::{
    config::{FileContent, FileSource, TreatmentPath, TreatmentRoot},
    evaluate::make_executable,
    plan::{PlannedTreatment, claimed},
    task::Files,
    workspace::{Checkout, Workspace},
};

/// Extensions of files that agents give to their models.
const CONTEXT_FILES: [&str; 4] = ["md", "mdc", "txt", "rst"];
/// The longest line of output that is read.
const LONGEST_LINE: u64 = 4 << 20;
/// The bytes of a token, about.
const BYTES_OF_TOKEN: usize = 4;

/// The files of a trial's treatment, and how to recognize its parts in requests.
#[derive(Default)]
pub(super) struct TrialTreatment {
    /// The content by path; `None` removes a file.
    files: BTreeMap<TreatmentPath, Option<FileContent>>,
    parts: Vec<WatchedPart>,
}

/// A part of the treatment.
struct WatchedPart {
    record: DeliveryRecord,
    watch: Watch,
    /// Approximate numbers of tokens: when it is delivered, and when it is also used.
    tokens: (Option<u64>, Option<u64>),
    /// Whether its absence in all requests means that it was not delivered.
    is_conclusive: bool,
}

impl WatchedPart {
    fn new(kind: DeliveryKind, name: &str, watch: Watch) -> WatchedPart {
        let is_conclusive = match &watch {
            Watch::Text(probe) => !probe.is_empty(),
            Watch::Skill { description, .. } => !description.is_empty(),
            Watch::McpServer(_) => true,
        };
        WatchedPart {
            record: DeliveryRecord {
                kind,
                name: name.to_owned(),
                place: None,
                digest: None,
                delivered: None,
                first_call: None,
                found_in: None,
                approx_tokens: None,
                used: None,
                connected: None,
            },
            watch,
            tokens: (None, None),
            is_conclusive,
        }
    }

    /// A text, such as a context file.
    fn text(kind: DeliveryKind, name: &str, bytes: &[u8]) -> WatchedPart {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let mut part = WatchedPart::new(kind, name, Watch::Text(TextProbe::of(text)));
        part.record.digest = Some(hex(&Sha256::digest(bytes)));
        part.tokens = (Some(tokens(text)), None);
        part
    }

    /// An MCP server.
    fn mcp_server(name: &str) -> WatchedPart {
        WatchedPart::new(
            DeliveryKind::McpServer,
            name,
            Watch::McpServer(name.to_owned()),
        )
    }

    /// Adds the observations of one start of the agent. `saw_all` says whether all requests were seen.
    fn observe(&mut self, seen: &Observation, saw_all: bool) {
        let record = &mut self.record;
        let is_session = seen.reached.is_some_and(|it| it.call == 0);
        if let (Some(reached), true) = (seen.reached, record.delivered != Some(true)) {
            record.delivered = Some(true);
            record.first_call = (!is_session).then_some(reached.call);
            record.found_in = Some(reached.place.as_str().to_owned());
            record.approx_tokens = self.tokens.0;
        }
        if saw_all && self.is_conclusive {
            record.delivered.get_or_insert(false);
        }
        if matches!(self.watch, Watch::Text(_)) {
            return;
        }
        if let Some(call) = seen.used {
            if record.used != Some(true)
                && let (Some(before), Some(more)) = (record.approx_tokens, self.tokens.1)
            {
                record.approx_tokens = Some(before + more);
            }
            record.used = Some(true);
            if record.delivered != Some(true) {
                record.delivered = Some(true);
                record.first_call = (call > 0).then_some(call);
            }
        } else if saw_all {
            record.used.get_or_insert(false);
        }
    }
}

fn tokens(text: &str) -> u64 {
    text.len().div_ceil(BYTES_OF_TOKEN) as u64
}

/// The parts of a treatment that can be recognized.
fn parts(
    planned: &PlannedTreatment,
    files: &BTreeMap<TreatmentPath, Option<FileContent>>,
) -> Vec<WatchedPart> {
    let mut parts = Vec::new();
    for (path, content) in files {
        let of_skill = |(place, _): &(String, _)| path.path.starts_with(place);
        let Some(content) = content.as_ref() else {
            continue;
        };
        if planned.skills.iter().any(of_skill) {
            continue;
        }
        let name = path.to_string();
        let mut part = WatchedPart::text(DeliveryKind::File, &name, &content.bytes);
        let extension = path.path.extension();
        part.is_conclusive &= extension.is_none_or(|it| CONTEXT_FILES.contains(&it));
        part.record.place = Some(name);
        parts.push(part);
    }
    for (place, skill) in &planned.skills {
        let (name, description, body) = skill.about();
        let watch = Watch::Skill {
            name,
            description: TextProbe::of(&description),
            body: TextProbe::of(&body),
        };
        let mut part = WatchedPart::new(DeliveryKind::Skill, &skill.name, watch);
        part.record.place = Some(place.clone());
        part.record.digest = Some(skill.digest());
        part.tokens = (Some(tokens(&description)), Some(tokens(&body)));
        parts.push(part);
    }
    for (key, text) in planned.prompt.texts() {
        let text = text.replace("{prompt}", "\n");
        let part = WatchedPart::text(DeliveryKind::Prompt, key, text.as_bytes());
        parts.push(part);
    }
    for server in &planned.mcp_servers {
        parts.push(WatchedPart::mcp_server(server));
    }
    parts
}

impl Trial<'_> {
    /// Reads the files of the treatment, before the agent's key is made: the key watches for them.
    pub(super) async fn read_treatment(&mut self) -> Result<(), NotRun> {
        let planned = std::sync::Arc::clone(&self.plan.treatment);
        let mut files = BTreeMap::new();
        for (path, source) in &planned.files {
            match source {
                FileSource::Content(content) => {
                    self.check_content(path, content)?;
                    files.insert(path.clone(), Some(content.clone()));
                }
                FileSource::Removed => {
                    files.insert(path.clone(), None);
                }
                FileSource::Git { revision, path: of } => {
                    for (path, content) in self.files_of_git(path, revision, of).await? {
                        if let Some(definition) = &mut self.record.agent.definition {
                            definition.find(&format!("file {path}"), &content.digest());
                        }
                        files.insert(path, Some(content));
                    }
                }
            }
        }
        let mut parts = parts(&planned, &files);
        for server in self.required_mcp(Contestant::Primary) {
            if !planned.mcp_servers.contains(&server) {
                parts.push(WatchedPart::mcp_server(&server));
            }
        }
        self.treatment = TrialTreatment { files, parts };
        let records = self.treatment.parts.iter().map(|part| part.record.clone());
        self.record.delivery = records.collect();
        Ok(())
    }

    /// Refuses content with secrets, which containers never get.
    fn check_content(&self, path: &TreatmentPath, content: &FileContent) -> Result<(), NotRun> {
        let found = self.context.host.secrets.found_in(&content.bytes);
        match (found.first(), self.docker()) {
            (Some(name), Some(_)) => {
                let problem = format!("`{path}` contains the value of {name}, a secret");
                Err(self.refused(problem))
            }
            _ => Ok(()),
        }
    }

    /// A file or folder of the task's repository at a revision.
    async fn files_of_git(
        &self,
        path: &TreatmentPath,
        revision: &str,
        of: &Utf8Path,
    ) -> Result<Vec<(TreatmentPath, FileContent)>, NotRun> {
        let Files::Repo(checkout) = &self.plan.task.files else {
            return Ok(Vec::new());
        };
        let checkout = Checkout {
            branch: Some(revision.to_owned()),
            commit: None,
            ..checkout.clone()
        };
        let opened = self.context.bases.open(&checkout, self.context.host).await;
        let opened = opened.map_err(|error| self.not_made(error))?;
        let found = opened.base.files_at(of, self.context.host).await;
        let found = found.map_err(|error| workspace_failed(&error))?;
        if found.is_empty() {
            return Err(self.refused(format!("`{of}` does not exist at `{revision}`")));
        }
        let place = |file: &Utf8Path| match file.strip_prefix(of) {
            Ok(below) if !below.as_str().is_empty() => path.path.join(below),
            _ => path.path.clone(),
        };
        let files = found.into_iter().map(|file| {
            let path = TreatmentPath {
                root: path.root,
                path: place(&file.path),
            };
            let content = FileContent {
                bytes: file.bytes.into(),
                is_executable: file.is_executable,
            };
            (path, content)
        });
        Ok(files.collect())
    }

    fn refused(&self, problem: String) -> NotRun {
        NotRun::Usage(TrialError::Treatment {
            agent: self.plan.name.clone(),
            task: self.plan.task.name.clone(),
            problem,
        })
    }

    /// The texts, skills and tools to look for in requests.
    pub(super) fn watches(&self) -> Vec<Watch> {
        let parts = self.treatment.parts.iter();
        parts.map(|part| part.watch.clone()).collect()
    }

    /// Lays the files over the workspace. They are part of the commit that the agent starts from, not of its work.
    pub(super) async fn lay_treatment(&self, site: &mut Site) -> Result<(), NotRun> {
        let of_workspace = |path: &TreatmentPath| path.root == TreatmentRoot::Workspace;
        let files = self.treatment.files.iter();
        let files: Vec<(Utf8PathBuf, Option<FileContent>)> = files
            .filter(|(path, _)| of_workspace(path))
            .map(|(path, content)| (path.path.clone(), content.clone()))
            .collect();
        if files.is_empty() {
            return Ok(());
        }
        self.copy_over(&mut site.workspace, &files).await?;
        self.put_into_image(site, &files).await?;
        self.hand_over(&site.exec_env, &[site.workspace.path()])
            .await
    }

    async fn copy_over(
        &self,
        made: &mut Workspace,
        files: &[(Utf8PathBuf, Option<FileContent>)],
    ) -> Result<(), NotRun> {
        self.check_hidden_tests(made, files).await?;
        let mut declared = BTreeSet::new();
        for (path, content) in files {
            declared.insert(path.to_string());
            put(&made.files, path, content.as_ref())?;
        }
        let started = made.start_agent_here(declared).await;
        started.map_err(|error| workspace_failed(&error))
    }

    /// Refuses files in the place of hidden tests, whose names only their revision has.
    async fn check_hidden_tests(
        &self,
        made: &Workspace,
        files: &[(Utf8PathBuf, Option<FileContent>)],
    ) -> Result<(), NotRun> {
        for evaluator in self.plan.task.evaluators.iter() {
            let Some(revision) = evaluator.hidden_revision() else {
                continue;
            };
            let hidden = made.files_since(revision, &made.base_tree).await;
            let hidden = hidden.map_err(|error| self.not_made(error))?;
            let is_hidden = |path: &Utf8Path| hidden.iter().any(|file| file.path == path);
            if let Some((path, _)) = files.iter().find(|(path, _)| is_hidden(path)) {
                let by = &evaluator.name;
                let problem = format!("`{path}` is a hidden test of the task (evaluator `{by}`)");
                return Err(self.refused(problem));
            }
        }
        Ok(())
    }

    /// Copies the files into the container of a task with its own image, which does not see the workspace.
    async fn put_into_image(
        &self,
        site: &Site,
        files: &[(Utf8PathBuf, Option<FileContent>)],
    ) -> Result<(), NotRun> {
        let (ExecEnv::Docker(exec_env), Some(_)) = (&site.exec_env, self.plan.task.environment())
        else {
            return Ok(());
        };
        let workdir = self.workdir(site);
        let folder = self.private.join("treatment");
        fs_err::create_dir_all(&folder)?;
        let own = UntrustedDir::new(&folder);
        let mut removed = vec!["rm".to_owned(), "-rf".to_owned(), "--".to_owned()];
        for (path, content) in files {
            match content {
                Some(_) => put(&own, path, content.as_ref())?,
                None => removed.push(format!("{workdir}/{path}")),
            }
        }
        if removed.len() > 3 {
            let argv: Vec<&str> = removed.iter().map(String::as_str).collect();
            let asked = exec_env.ask(&argv, container::ASKED).await;
            asked.map_err(container::failed)?;
        }
        self.hand_over(&site.exec_env, &[&folder]).await?;
        let uploaded = exec_env
            .container
            .upload(folder.as_std_path(), workdir.as_str());
        uploaded.await.map_err(container::failed)
    }

    /// Writes the files of HOME, which is fresh at each start of the agent.
    pub(super) fn lay_home(&self, launch: &Launch, site: &Site) -> Result<(), NotRun> {
        let home_dir = &site.trial_dir.home;
        let home = UntrustedDir::new(home_dir);
        for (path, content) in &self.treatment.files {
            if path.root != TreatmentRoot::Home {
                continue;
            }
            let outside = home_dir.join(&path.path);
            let mut own = launch
                .files
                .iter()
                .map(|(file, _)| site.exec_env.outside(file));
            if own.any(|file| file == outside) {
                let problem = format!("Proctor itself writes `{path}` for this agent");
                return Err(self.refused(problem));
            }
            put(&home, &path.path, content.as_ref())?;
        }
        Ok(())
    }

    /// Checks and records another start revision of the agent: the task's definition keeps the task's own tree.
    pub(super) async fn start_elsewhere(
        &mut self,
        made: &Workspace,
        checkout: &Checkout,
    ) -> Result<(), NotRun> {
        if self.plan.treatment.revision.is_none() {
            return Ok(());
        }
        let opened = self.context.bases.open(checkout, self.context.host).await;
        let base = opened.map_err(|error| self.not_made(error))?.base;
        let commit = self.context.bases.commit(checkout, self.context.host).await;
        let commit = commit
            .map_err(|error| self.not_made(error))?
            .unwrap_or_default();
        let changed = made.files_since(&commit, &made.base_tree).await;
        let changed = changed.map_err(|error| self.not_made(error))?;
        for file in changed {
            if let Some((why, by)) = claimed(&self.plan.task, &file.path) {
                let path = &file.path;
                let problem = format!(
                    "`ref` changes `{path}`, which is {why} of the task (evaluator `{by}`)"
                );
                return Err(self.refused(problem));
            }
        }
        if let Some(definition) = &mut self.record.agent.definition {
            definition.find("ref tree", &made.base_tree);
        }
        if let (Some(definition), Some(tree)) = (&mut self.record.task.definition, base.tree()) {
            definition.find("tree", tree);
        }
        Ok(())
    }

    /// Records which parts of the treatment reached the model, according to the gateway.
    pub(super) fn note_delivery(&mut self, seen: &[Observation], calls: u64) {
        for (part, seen) in self.treatment.parts.iter_mut().zip(seen) {
            part.observe(seen, calls > 0);
        }
    }

    /// Whether the model may have had tools of an MCP server: no other evidence, or seen in a request or
    /// in the agent's output.
    pub(super) fn may_have_tools_of(&self, server: &str) -> bool {
        let is_it = |part: &&WatchedPart| {
            part.record.kind == DeliveryKind::McpServer && part.record.name == server
        };
        let part = self.treatment.parts.iter().find(is_it);
        part.is_none_or(|part| part.record.delivered == Some(true))
    }

    /// Notes the delivery without a gateway: the agent's own output shows some of the requests' content.
    pub(super) fn observe_session(&mut self) {
        if self.treatment.parts.is_empty() || self.record.gateway.is_some() {
            return;
        }
        let watcher = Watcher::new(self.watches());
        let opened = UntrustedDir::new(&self.artifacts).open("raw/stdout".as_ref());
        match opened {
            Ok(file) => {
                let mut lines = BufReader::new(file);
                while let Ok(Some(line)) = next_line(&mut lines) {
                    watcher.observe_session(&line);
                }
            }
            Err(error) => self.note(format!(
                "the delivery of files is unknown: {}",
                chain(&error)
            )),
        }
        for (part, seen) in self.treatment.parts.iter_mut().zip(&watcher.report()) {
            part.observe(seen, false);
        }
    }

    /// Records the delivery.
    pub(super) fn record_delivery(&mut self) {
        let servers = self.record.agent.mcp_servers.iter().flatten();
        let states: BTreeMap<&str, bool> = servers
            .filter(|server| !server.is_connecting())
            .map(|server| (server.name.as_str(), server.is_usable()))
            .collect();
        for part in &mut self.treatment.parts {
            if part.record.kind == DeliveryKind::McpServer {
                let state = states.get(part.record.name.as_str()).copied();
                let offered = (part.record.delivered == Some(true)).then_some(true);
                part.record.connected = state.or(offered);
            }
        }
        let records = self.treatment.parts.iter().map(|part| part.record.clone());
        self.record.delivery = records.collect();
    }
}

/// Writes or removes a file.
fn put(dir: &UntrustedDir, path: &Utf8Path, content: Option<&FileContent>) -> std::io::Result<()> {
    let Some(content) = content else {
        return dir.remove(path);
    };
    dir.write(path, &content.bytes)?;
    if content.is_executable {
        make_executable(&dir.path_for_child().join(path))?;
    }
    Ok(())
}

/// The next line; a longer one is cut, and the rest is skipped.
fn next_line(lines: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    use std::io::Read;
    let mut line = Vec::new();
    let read = lines
        .by_ref()
        .take(LONGEST_LINE)
        .read_until(b'\n', &mut line)?;
    if read as u64 == LONGEST_LINE && line.last() != Some(&b'\n') {
        lines.skip_until(b'\n')?;
    }
    Ok((read > 0).then_some(line))
}
