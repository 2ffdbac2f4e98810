//! Ablations: the effect of each part of a file, a set of skills or a set of servers, from the
//! trials of variants without some of the parts.

use std::fmt::Write;

use proctor_record::text::counted;
use serde::Serialize;

use super::{
    analysis::{ExperimentError, agent_named, check_tasks},
    text::{ends, points, signed},
};
use crate::{
    compare::{Metric, about_excluded},
    definitions::shared_keys,
    figures::{UNKNOWN, columns, p_value},
    model::{agent::Row, report::Basis, treatments::delivery},
    stats::{
        AblationDesign, Interval, PairSample, PartEffect, PartSample, PartVerdict, Scores,
        part_effects,
    },
    trials::Trials,
};

/// The version of the result's JSON.
pub const ABLATION_VERSION: &str = "1.0.0";

/// An ablation to analyse.
#[derive(Clone, Copy, Debug)]
pub struct AblationRequest<'a> {
    /// The trials of its run.
    pub trials: &'a Trials,
    /// The parts.
    pub parts: &'a [AblatedPart],
    /// The names of the agents, in the order of the design.
    pub variants: &'a [String],
    /// The parts of each variant.
    pub design: &'a AblationDesign,
    /// Effects up to this one are not measurable.
    pub margin: f64,
    /// The level, and the random draws.
    pub basis: Basis,
}

/// A part that some variants do not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AblatedPart {
    /// Its name.
    pub name: String,
    /// The file, skill or server that it is or belongs to, as in the delivery of trials.
    pub treatment: String,
}

/// The result of an ablation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AblationResult {
    /// The version of this format.
    pub version: &'static str,
    /// The conclusion in one sentence.
    pub sentence: String,
    /// Effects up to this one are not measurable.
    pub margin: f64,
    /// Whether each variant lacks one part at most. Otherwise, effects of two parts together can be
    /// mistaken for the effect of a third one.
    pub one_at_a_time: bool,
    /// The parts, in their order.
    pub parts: Vec<PartResult>,
    /// Notes for reading the result: excluded trials, and parts that did not reach the model.
    pub notes: Vec<String>,
}

/// The effect of one part: each figure with the part minus that without it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartResult {
    /// The name of the part, its effect on the score, and the verdict.
    #[serde(flatten)]
    pub score: PartEffect,
    /// Whether the part reached the model in any trial; null if that is unknown.
    pub delivered: Option<bool>,
    /// The change of the tokens of a trial; null if they are unknown.
    pub tokens: Option<PartDelta>,
    /// The change of the cost of a trial in dollars; null if it is unknown.
    pub cost_usd: Option<PartDelta>,
}

/// A change of a mean over tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PartDelta {
    /// The mean with the part minus the mean without it.
    pub difference: f64,
    /// Its confidence interval, not corrected for the number of parts; null if nothing varied.
    pub interval: Option<Interval>,
}

/// Analyses an ablation.
pub fn analyse_ablation(request: AblationRequest) -> Result<AblationResult, ExperimentError> {
    let trials = request.trials;
    let find = |name: &String| agent_named(trials, name);
    let agents: Vec<usize> = request
        .variants
        .iter()
        .map(find)
        .collect::<Result<_, _>>()?;
    check_tasks(trials, &agents)?;
    let (keys, _) = shared_keys(&trials.tasks, &trials.tasks);
    let arms = |metric: Metric| -> Result<Vec<(Scores, Scores)>, ExperimentError> {
        let values = |agent: &usize| match Row::of(trials, *agent, &keys) {
            Some(row) => row.values(|trial| metric.of(trial)),
            None => Scores::default(),
        };
        let variants: Vec<Scores> = agents.iter().map(values).collect();
        let parts = 0..request.parts.len();
        let arms = parts.map(|part| Ok(request.design.arms(part, &variants)?));
        arms.collect()
    };
    let scores = arms(Metric::Score)?;
    let samples = request.parts.iter().zip(&scores);
    let samples: Vec<PartSample> = samples
        .map(|(part, (with, without))| PartSample {
            part: &part.name,
            with,
            without,
        })
        .collect();
    let (level, resampling) = (request.basis.level, request.basis.resampling());
    let effects = part_effects(&samples, Some(request.margin), level, resampling);
    let (tokens, costs) = (arms(Metric::Tokens)?, arms(Metric::Cost)?);
    let parts = effects.into_iter().zip(request.parts).enumerate();
    let parts = parts.map(|(number, (score, part))| PartResult {
        delivered: request.is_delivered(number, part, &agents),
        tokens: delta(&tokens[number], request.basis),
        cost_usd: delta(&costs[number], request.basis),
        score,
    });
    let notes = about_excluded("all variants", trials, |agent| agents.contains(&agent));
    let mut result = AblationResult {
        version: ABLATION_VERSION,
        sentence: String::new(),
        margin: request.margin,
        one_at_a_time: request.design.one_at_a_time,
        parts: parts.collect(),
        notes: notes.into_iter().collect(),
    };
    result.sentence = result.conclusion();
    Ok(result)
}

impl AblationRequest<'_> {
    /// Whether a part reached the model in any trial of the variants that have it.
    fn is_delivered(&self, number: usize, part: &AblatedPart, agents: &[usize]) -> Option<bool> {
        let variants = agents.iter().zip(&self.design.variants);
        let with = variants.filter(|(_, has)| has[number]);
        let with: Vec<&str> = with
            .map(|(agent, _)| self.trials.agents[*agent].name.as_str())
            .collect();
        let sums = delivery(self.trials);
        let own = sums.iter().filter(|it| {
            it.name == part.treatment && with.contains(&it.agent.as_str()) && it.known > 0
        });
        let own: Vec<bool> = own.map(|it| it.delivered > 0).collect();
        (!own.is_empty()).then(|| own.contains(&true))
    }
}

fn delta((with, without): &(Scores, Scores), basis: Basis) -> Option<PartDelta> {
    let sample = PairSample {
        is_share: false,
        ..PairSample::of_experiment(without, with, basis.level, basis.resampling())
    };
    let test = sample.test(basis.level)?;
    Some(PartDelta {
        difference: test.difference,
        interval: test.interval,
    })
}

impl PartResult {
    fn is(&self, verdict: PartVerdict) -> bool {
        self.score.verdict == verdict && self.delivered != Some(false)
    }

    fn verdict(&self) -> &'static str {
        if self.delivered == Some(false) {
            return "not delivered";
        }
        match self.score.verdict {
            PartVerdict::Helps => "helps",
            PartVerdict::Hurts => "hurts",
            PartVerdict::NoMeasurableEffect => "no measurable effect",
            PartVerdict::Undecided => "undecided",
        }
    }

    fn row(&self) -> Vec<String> {
        let unknown = || UNKNOWN.to_owned();
        let points = |effect: f64| {
            format!(
                "{}{}",
                points(effect, true),
                ends(self.score.interval, 100.0)
            )
        };
        let tokens = |it: PartDelta| format!("{}{}", signed(it.difference), ends(it.interval, 1.0));
        let cost = |it: PartDelta| {
            let sign = if it.difference < 0.0 { '−' } else { '+' };
            format!("{sign}${:.4}", it.difference.abs())
        };
        vec![
            self.score.part.clone(),
            self.verdict().to_owned(),
            self.score.effect.map_or_else(unknown, points),
            self.score.p_value.map_or_else(unknown, p_value),
            self.tokens.map_or_else(unknown, tokens),
            self.cost_usd.map_or_else(unknown, cost),
        ]
    }
}

impl AblationResult {
    fn conclusion(&self) -> String {
        let named = |verdict: PartVerdict| -> Vec<&str> {
            let parts = self.parts.iter().filter(|it| it.is(verdict));
            parts.map(|it| it.score.part.as_str()).collect()
        };
        let mut said = Vec::new();
        for (verdict, word) in [(PartVerdict::Helps, "helps"), (PartVerdict::Hurts, "hurts")] {
            let parts = named(verdict);
            if !parts.is_empty() {
                let word = if parts.len() == 1 {
                    word
                } else {
                    &word[..word.len() - 1]
                };
                said.push(format!("{} {word}", parts.join(", ")));
            }
        }
        let unmeasurable = named(PartVerdict::NoMeasurableEffect).len();
        if unmeasurable > 0 {
            let margin = points(self.margin, false);
            let parts = counted(unmeasurable, "part");
            said.push(format!("no effect larger than {margin} of {parts}"));
        }
        let undecided = named(PartVerdict::Undecided).len();
        if undecided > 0 {
            said.push(format!("{} undecided", counted(undecided, "part")));
        }
        let lost = self.parts.iter().filter(|it| it.delivered == Some(false));
        let lost = lost.count();
        if lost > 0 {
            said.push(format!(
                "{} not delivered to the model",
                counted(lost, "part")
            ));
        }
        said.join("; ")
    }

    /// The text for a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.sentence);
        let head = ["part", "verdict", "score", "p", "tokens", "cost"].map(str::to_owned);
        let mut rows = vec![head.to_vec()];
        rows.extend(self.parts.iter().map(PartResult::row));
        text.push_str(&columns(&rows, &[]));
        let _ = writeln!(
            text,
            "Figures are those with the part minus those without it. P-values are corrected for {} (Holm).",
            counted(self.parts.len(), "part")
        );
        if !self.one_at_a_time {
            let _ = writeln!(
                text,
                "Several parts were removed at a time: effects of parts that depend on each other are not separated."
            );
        }
        for note in &self.notes {
            let _ = writeln!(text, "{note}.");
        }
        text
    }

    /// The exit code: 1 if a part hurts, 3 without any effect to judge, else 4 if a part is
    /// undecided or not delivered, else 0.
    pub fn exit_code(&self) -> u8 {
        let any = |is_so: fn(&PartResult) -> bool| self.parts.iter().any(is_so);
        if any(|it| it.is(PartVerdict::Hurts)) {
            1
        } else if !any(|it| it.score.effect.is_some()) {
            3
        } else if any(|it| it.delivered == Some(false) || it.is(PartVerdict::Undecided)) {
            4
        } else {
            0
        }
    }
}
