//! Asks the judges, calibrates them and makes a verdict of their answers.

use camino::Utf8PathBuf;
use proctor_agents::agent::PromptSource;
use proctor_record::{
    fs::hex,
    record::{self, Artifact},
};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    JudgeSettings, Rule,
    answer::{self, Answer, Kept, NoAnswer, Subject},
    ask::{Question, Said},
    criteria, evidence,
    request::{self, Chance, PLAIN_FENCE, Request},
    settings::Judge,
    shorten,
    tally::{Spent, Tally},
};
use crate::{
    evaluate::{EvidenceDir, Finding, Judging, answer_cache::CachedAnswer},
    workspace::WorkspaceError,
};

/// The version of the request and of the checks; part of the cache key.
const JUDGE_VERSION: u32 = 3;

/// The maximum length of a change in a request.
const LONGEST_DIFF: usize = 800_000;

/// The maximum number of files that are searched for quotes.
const SEARCHED_FILES: usize = 200;

const ANSWERS_FILE: &str = "answers.json";

/// The pass rule of a judge evaluator, by its name.
pub(in crate::evaluate) fn rule_of(name: &str) -> Option<Rule> {
    let is_judge = |rest: &str| rest.is_empty() || rest.starts_with(['-', ':']);
    if name.strip_prefix("agentic-judge").is_some_and(is_judge) {
        Some(Rule::Every)
    } else if name.strip_prefix("rubric").is_some_and(is_judge) {
        Some(Rule::Mean)
    } else {
        None
    }
}

/// Calibrates the judge, then judges the work.
pub(in crate::evaluate) async fn judge(
    settings: &JudgeSettings,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
) -> Result<Finding, String> {
    let mut bench = CleanCopy {
        settings,
        judging,
        folder: judging.artifacts.join(&evidence.folder),
        number: evidence.number,
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
        message.push_str("; unverified: no gateway observed the judge's model calls");
    }
    // The folder does not exist if all answers are cached.
    fs_err::create_dir_all(&bench.folder).map_err(|error| error.to_string())?;
    let file = format!("{}/{ANSWERS_FILE}", evidence.folder);
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
            description: "the answers of the judge".to_owned(),
        }],
    })
}

/// The prompt of the agent, the same for every trial of a task.
async fn asked(judging: &Judging<'_>) -> String {
    let about = &judging.context.about;
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
    /// The change as shown to the judge, if it is too long.
    shortened: Option<String>,
}

impl Work {
    fn shown(&self) -> &str {
        self.shortened.as_deref().unwrap_or(&self.diff)
    }
}

/// The scores of the calibration.
#[derive(serde::Serialize)]
struct Calibration {
    /// The score of an empty change, which must not pass.
    null: f64,
    /// The score of the reference solution, which must pass; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<f64>,
}

struct CleanCopy<'a> {
    settings: &'a JudgeSettings,
    judging: &'a Judging<'a>,
    folder: Utf8PathBuf,
    number: usize,
    asked: String,
    spent: Spent,
    /// Whether at least one answer was given without an observed model call.
    is_unverified: bool,
}

impl CleanCopy<'_> {
    /// Calibrates the judge. A judge that passes an empty change, or fails the reference, is not
    /// valid.
    async fn calibrate(&mut self) -> Result<Calibration, String> {
        let workspace = self.judging.workspace;
        let uncalibrated = |what: &str, problem: String| {
            format!("cannot calibrate the judge with {what}: {problem}")
        };
        let null = self.subject(&workspace.base_tree).await?;
        let answer = self.sample(&null, "null", 1).await;
        let answer = answer.map_err(|problem| uncalibrated("an empty change", problem))?;
        let answers = [answer];
        let null = Tally::of(self.settings, &answers);
        if null.passes() {
            return Err(format!(
                "the judge passes an empty change ({}): its verdicts are not valid",
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
                "the judge fails the reference solution ({}): its verdicts are not valid",
                tally.message()
            ));
        }
        calibration.reference = Some(tally.score());
        Ok(calibration)
    }

    async fn subject(&self, tree: &str) -> Result<Work, String> {
        let workspace = self.judging.workspace;
        let diff = workspace.text_between(&workspace.base_tree, tree).await;
        let diff = diff.map_err(|error| format!("cannot read the change: {error}"))?;
        let diff = String::from_utf8_lossy(&diff).into_owned();
        let shortened = if diff.len() > LONGEST_DIFF {
            let names = workspace.names_in(tree).await;
            let names = names.map_err(|error| format!("cannot list the files: {error}"))?;
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

    /// One valid answer, cached or new. Cached answers are checked, too.
    async fn sample(&mut self, work: &Work, name: &str, number: u32) -> Result<Answer, String> {
        let key = self.key(work, number);
        let cached = CachedAnswer::lock(&self.judging.context.cache.join("judge"), &key).await;
        let cached = cached.map_err(|error| format!("cannot use the cache of answers: {error}"))?;
        let subject = Subject {
            workspace: self.judging.workspace,
            tree: &work.tree,
            diff: &work.diff,
        };
        let criteria = &self.settings.criteria;
        if let Some(kept) = cached.get::<Kept>(self.judging.context.kept_since)
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

    /// Whether a gateway observes the judge's calls. Unverified cached answers are then not used.
    fn can_verify(&self) -> bool {
        match &self.settings.who {
            Judge::Agent(judge) => judge.asks_models() && self.judging.context.models.is_some(),
            Judge::Model { .. } => true,
        }
    }

    /// Finds the judge's own answer, not one that it quotes from the work. The files of the work
    /// are searched only if the change is not enough.
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
            let names = names.map_err(|error| format!("cannot search the work: {error}"))?;
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
        let models = self.judging.context.judges.or(self.judging.context.models);
        let chance = if models.is_some_and(crate::model_access::Models::has_recording) {
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
            label: format!(
                "{}/judge-{}-{name}",
                self.judging.context.label, self.number
            ),
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

    /// The cache key of a question.
    pub(super) fn key(&self, work: &Work, number: u32) -> String {
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
