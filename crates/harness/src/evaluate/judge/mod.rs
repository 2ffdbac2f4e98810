//! `agentic-judge` and `rubric`: criteria judged by an agent or a model. An answer counts only
//! when it answers what was asked and its evidence is found; a judge counts only when it fails a
//! change of nothing and passes the reference solution.

mod answer;
mod ask;
mod criteria;
mod evidence;
mod request;
mod settings;
mod shorten;
mod tally;
mod view;

use camino::Utf8PathBuf;
use serde_json::json;
use sha2::{Digest, Sha256};

pub(super) use self::settings::{Rule, Settings};
use self::{
    answer::{Answer, Kept, NoAnswer, Subject},
    ask::{Question, Said},
    request::{Chance, PLAIN_FENCE, Request},
    settings::Who,
    tally::{Spent, Tally},
};
use super::{Artifact, Finding, Judging, Place, answer_cache::CachedAnswer};
use crate::{agent::PromptSource, fs::hex, record, workspace::WorkspaceError};

/// The version of the request and of the checks: other ones make other verdicts.
const JUDGE_VERSION: u32 = 3;
/// The longest change that a judge is shown.
const LONGEST_DIFF: usize = 800_000;
/// How many files are searched for what a judge quotes.
const SEARCHED_FILES: usize = 200;
const ANSWERS_FILE: &str = "answers.json";

/// The name of an evaluator that is a judge, and what has to hold for it.
pub(super) fn rule_of(name: &str) -> Option<Rule> {
    let is_judge = |rest: &str| rest.is_empty() || rest.starts_with(['-', ':']);
    if name.strip_prefix("agentic-judge").is_some_and(is_judge) {
        Some(Rule::Every)
    } else if name.strip_prefix("rubric").is_some_and(is_judge) {
        Some(Rule::Mean)
    } else {
        None
    }
}

/// Judge: is the judge any good, then what does it say.
pub(super) async fn judge(
    settings: &Settings,
    judging: &Judging<'_>,
    place: &Place,
) -> Result<Finding, String> {
    let mut bench = CleanCopy {
        settings,
        judging,
        folder: judging.artifacts.join(&place.folder),
        number: place.number,
        asked: asked(judging).await,
        spent: Spent::default(),
        is_unverified: false,
    };
    let calibration = bench.calibrate().await?;
    let work = bench.subject(&judging.change.tree).await?;
    let mut answers = Vec::new();
    for number in 1..=settings.samples {
        answers.push(
            bench
                .sample(&work, &format!("sample-{number}"), number)
                .await?,
        );
    }
    let tally = Tally::of(settings, &answers);
    let mut metrics = tally.metrics();
    metrics.insert("calibration".to_owned(), json!(calibration));
    metrics.insert(
        "judge".to_owned(),
        json!({
            "name": settings.who.name(), "model": settings.who.model(), "version": JUDGE_VERSION,
        }),
    );
    metrics.insert("judge_usage".to_owned(), bench.spent.metrics());
    metrics.insert("unverified".to_owned(), json!(bench.is_unverified));
    let mut message = tally.message();
    if bench.is_unverified {
        message.push_str("; unverified: no gateway saw a model answer the judge");
    }
    // Where every answer is from the cache, the folder does not exist.
    fs_err::create_dir_all(&bench.folder).map_err(|error| error.to_string())?;
    let file = format!("{}/{ANSWERS_FILE}", place.folder);
    record::write_json(&judging.artifacts.join(&file), &answers)
        .map_err(|error| error.to_string())?;
    Ok(Finding {
        status: tally.status(),
        score: Some(tally.score()),
        message,
        metrics,
        restored: Vec::new(),
        tampered: Vec::new(),
        assertions: Some(criteria::asked(&settings.criteria)),
        artifacts: vec![Artifact {
            kind: "report".to_owned(),
            path: file,
            description: "what the judge answered".to_owned(),
        }],
    })
}

/// The prompt of the agent, the same for every trial of a task.
async fn asked(judging: &Judging<'_>) -> String {
    let about = &judging.desk.about;
    let prompt = match &about.prompt {
        None => None,
        Some(PromptSource::Text(text)) => Some(text.clone()),
        Some(PromptSource::WorkspaceFile(file)) => {
            let workspace = judging.workspace;
            let bytes = workspace.file_at(&workspace.base_tree, file.as_str()).await;
            bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        }
    };
    match prompt {
        Some(prompt) => format!("{}\n\n{prompt}", about.description),
        None => about.description.clone(),
    }
}

/// A tree and its change.
struct Work {
    tree: String,
    diff: String,
    /// The change as the judge is shown it, where it is too long.
    shortened: Option<String>,
}

impl Work {
    fn shown(&self) -> &str {
        self.shortened.as_deref().unwrap_or(&self.diff)
    }
}

/// The answers on the null change and on the reference.
#[derive(serde::Serialize)]
struct Calibration {
    /// Its score of a change of nothing; it does not pass.
    null: f64,
    /// Its score of the reference solution, which passes; absent when there is none to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<f64>,
}

struct CleanCopy<'a> {
    settings: &'a Settings,
    judging: &'a Judging<'a>,
    folder: Utf8PathBuf,
    number: usize,
    asked: String,
    spent: Spent,
    /// Whether the gateway saw no model answer the judge, in one of its answers or more.
    is_unverified: bool,
}

impl CleanCopy<'_> {
    /// A judge that passes nothing, or fails the reference, says nothing about agents.
    async fn calibrate(&mut self) -> Result<Calibration, String> {
        let workspace = self.judging.workspace;
        let uncalibrated = |what: &str, problem: String| {
            format!("the judge could not be calibrated with {what}: {problem}")
        };
        let null = self.subject(&workspace.base_tree).await?;
        let answer = self.sample(&null, "null", 1).await;
        let answer = answer.map_err(|problem| uncalibrated("a change of nothing", problem))?;
        let answers = [answer];
        let null = Tally::of(self.settings, &answers);
        if null.passes() {
            return Err(format!(
                "the judge passes a change of nothing ({}): its verdicts do not count",
                null.message()
            ));
        }
        let mut calibration = Calibration {
            null: null.score(),
            reference: None,
        };
        let Some(reference) = self.judging.reference else {
            return Ok(calibration);
        };
        let tree = match workspace.reference_tree(reference).await {
            Ok(tree) => tree,
            Err(WorkspaceError::NoTree) => return Ok(calibration),
            Err(error) => return Err(uncalibrated("the reference", error.to_string())),
        };
        let work = self.subject(&tree).await?;
        let answer = self.sample(&work, "reference", 1).await;
        let answer = answer.map_err(|problem| uncalibrated("the reference", problem))?;
        let answers = [answer];
        let tally = Tally::of(self.settings, &answers);
        if !tally.passes() {
            return Err(format!(
                "the judge fails the reference solution ({}): its verdicts do not count",
                tally.message()
            ));
        }
        calibration.reference = Some(tally.score());
        Ok(calibration)
    }

    async fn subject(&self, tree: &str) -> Result<Work, String> {
        let workspace = self.judging.workspace;
        let diff = workspace.text_between(&workspace.base_tree, tree).await;
        let diff = diff.map_err(|error| format!("the change could not be read: {error}"))?;
        let diff = String::from_utf8_lossy(&diff).into_owned();
        let shortened = if diff.len() > LONGEST_DIFF {
            let names = workspace.names_in(tree).await;
            let names = names.map_err(|error| format!("the files could not be listed: {error}"))?;
            Some(shorten::shortened(&diff, LONGEST_DIFF, &names))
        } else {
            None
        };
        Ok(Work {
            tree: tree.to_owned(),
            diff,
            shortened,
        })
    }

    /// One good answer: a kept one, or one that is asked for now. The kept one is checked as well.
    async fn sample(&mut self, work: &Work, name: &str, number: u32) -> Result<Answer, String> {
        let key = self.key(work, number);
        let cached = CachedAnswer::lock(&self.judging.desk.cache.join("judge"), &key).await;
        let cached = cached.map_err(|error| format!("the cache of answers: {error}"))?;
        let subject = Subject {
            workspace: self.judging.workspace,
            tree: &work.tree,
            diff: &work.diff,
        };
        let criteria = &self.settings.criteria;
        if let Some(kept) = cached.get::<Kept>(self.judging.desk.kept_since)
            && (kept.is_verified || !self.can_verify())
            && kept.answer.check(criteria, &subject).await.is_ok()
        {
            self.spent.kept += 1;
            self.is_unverified |= !kept.is_verified;
            return Ok(kept.answer);
        }
        let said = self.ask(work, name).await?;
        let answer = self.answer(&said.text, work).await?;
        answer.check(criteria, &subject).await?;
        self.is_unverified |= !said.is_verified;
        let kept = Kept {
            answer,
            usage: said.usage,
            is_verified: said.is_verified,
        };
        cached.put(&kept).map_err(|error| error.to_string())?;
        Ok(kept.answer)
    }

    /// Whether a gateway sees what the judge asks: an answer from a run without one is asked for again then.
    fn can_verify(&self) -> bool {
        match &self.settings.who {
            Who::Agent(judge) => judge.asks_models() && self.judging.desk.models.is_some(),
            Who::Model { .. } => true,
        }
    }

    /// The answer in what the judge said, and not one that it quotes from the work. The files of the work are
    /// searched only when the change leaves it open.
    async fn answer(&self, said: &str, work: &Work) -> Result<Answer, String> {
        let sides = evidence::sides(&work.diff);
        let mut quotes: Vec<_> = sides
            .iter()
            .flat_map(|side| answer::quotes_in(side))
            .collect();
        let mut found = Answer::find(said, &quotes);
        if let Err(NoAnswer::Many(_)) = found {
            let workspace = self.judging.workspace;
            let names = workspace.names_with(&work.tree, "criteria").await;
            let names =
                names.map_err(|error| format!("the work could not be searched: {error}"))?;
            for name in names.iter().take(SEARCHED_FILES) {
                let content = workspace.file_at(&work.tree, name).await;
                let content = content.unwrap_or_default();
                quotes.extend(answer::quotes_in(&String::from_utf8_lossy(&content)));
            }
            found = Answer::find(said, &quotes);
        }
        found.map_err(|problem| problem.to_string())
    }

    async fn ask(&mut self, work: &Work, name: &str) -> Result<Said, String> {
        let has_tapes = self.judging.desk.judges.or(self.judging.desk.models);
        let chance = if has_tapes.is_some_and(crate::model_access::Models::has_tapes) {
            Chance::None
        } else {
            Chance::Fresh
        };
        let request = self
            .request(work)
            .text(&request::fence(work.shown(), chance));
        let question = Question {
            settings: self.settings,
            judging: self.judging,
            tree: &work.tree,
            request: &request,
            folder: self.folder.join(name),
            label: format!("{}/judge-{}-{name}", self.judging.desk.label, self.number),
        };
        let said = question.ask().await?;
        self.spent.add(said.usage.as_ref());
        Ok(said)
    }

    fn request<'a>(&'a self, work: &'a Work) -> Request<'a> {
        let settings = self.settings;
        Request {
            template: settings.template.as_deref(),
            instructions: settings.instructions.as_deref(),
            asked: &self.asked,
            criteria: &settings.criteria,
            diff: work.shown(),
            has_copy: !settings.asks_models(),
        }
    }

    /// The parts that distinguish one question from another.
    fn key(&self, work: &Work, number: u32) -> String {
        let mut hash = Sha256::new();
        let version = format!("{JUDGE_VERSION} {number}");
        let judge = self.settings.who.identity();
        let request = self.request(work).text(PLAIN_FENCE);
        for part in [&version, &judge, &work.tree, &request] {
            hash.update(part.len().to_le_bytes());
            hash.update(part.as_bytes());
        }
        hex(&hash.finalize())
    }
}
