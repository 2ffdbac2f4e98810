//! Tokens and cost. The CLI's own final account is authoritative. An interrupted session has only
//! its messages, each counted once, which is a lower bound.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use proctor_record::usage::{Figures, Usage, UsageSource, Usd};

use super::message::{ApiUsage, Field, StreamLine};

/// The number of messages that are remembered to detect repetitions: blocks of one message are
/// close together, and memory is limited.
const REMEMBERED_MESSAGES: usize = 256;
const REMEMBERED_STREAMS: usize = 64;

impl ApiUsage {
    fn zip(self, other: ApiUsage, with: fn(u64, u64) -> u64) -> ApiUsage {
        let both = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(with(a, b)),
            (a, b) => a.or(b),
        };
        ApiUsage {
            input: both(self.input, other.input),
            output: both(self.output, other.output),
            cache_read: both(self.cache_read, other.cache_read),
            cache_creation: both(self.cache_creation, other.cache_creation),
        }
    }

    /// The amount by which `self` exceeds `other`.
    fn beyond(self, other: ApiUsage) -> ApiUsage {
        let beyond =
            |a: Option<u64>, b: Option<u64>| a.map(|a| a.saturating_sub(b.unwrap_or_default()));
        ApiUsage {
            input: beyond(self.input, other.input),
            output: beyond(self.output, other.output),
            cache_read: beyond(self.cache_read, other.cache_read),
            cache_creation: beyond(self.cache_creation, other.cache_creation),
        }
    }

    fn is_nothing(self) -> bool {
        let all = [
            self.input,
            self.output,
            self.cache_read,
            self.cache_creation,
        ];
        all.iter().all(|count| count.unwrap_or_default() == 0)
    }

    /// Whether the figures are known and all zero.
    fn is_zero(self) -> bool {
        self.is_nothing() && self.input.is_some() && self.output.is_some()
    }

    fn figures(self, cost_usd: Option<Usd>) -> Figures {
        Figures {
            input_tokens: self.input,
            output_tokens: self.output,
            total_tokens: self
                .input
                .zip(self.output)
                .map(|(input, output)| input.saturating_add(output)),
            cache_read_tokens: self.cache_read,
            cache_creation_tokens: self.cache_creation,
            cost_usd,
        }
    }
}

/// One model's part of the CLI's account: name, tokens, cost.
type ModelAccount = (String, ApiUsage, Option<Usd>);

fn model_account(name: &str, usage: Field<'_>) -> ModelAccount {
    let mut tokens = ApiUsage::default();
    let mut cost = None;
    for (key, value) in usage.members() {
        match &*key {
            "inputTokens" => tokens.input = value.number(),
            "outputTokens" => tokens.output = value.number(),
            "cacheReadInputTokens" => tokens.cache_read = value.number(),
            "cacheCreationInputTokens" => tokens.cache_creation = value.number(),
            "costUSD" => cost = value.float().and_then(Usd::from_dollars),
            _ => {}
        }
    }
    (name.to_owned(), tokens, cost)
}

struct CallUsage {
    model: usize,
    tokens: ApiUsage,
}

/// The usage of a session so far.
#[derive(Default)]
pub(super) struct SessionUsage {
    recent_ids: VecDeque<u64>,
    recent: VecDeque<CallUsage>,
    streams: VecDeque<(u64, u64)>,
    per_model: Vec<(String, ApiUsage)>,
    total: ApiUsage,
    final_models: Vec<ModelAccount>,
    final_main: ApiUsage,
    final_cost: Option<Usd>,
}

impl SessionUsage {
    /// Records a message, possibly again. The largest figures are used: the blocks of a message
    /// repeat the count at its start.
    pub(super) fn message(&mut self, id: &str, model: &str, usage: ApiUsage) {
        let id = fingerprint(id);
        let model = self.model(model);
        self.put(id, Some(model), usage);
    }

    /// Records the start of a message on the API's stream; later events do not repeat its id.
    pub(super) fn stream_start(&mut self, thread: &str, id: &str) {
        let thread = fingerprint(thread);
        self.streams.retain(|(other, _)| *other != thread);
        if self.streams.len() == REMEMBERED_STREAMS {
            self.streams.pop_front();
        }
        self.streams.push_back((thread, fingerprint(id)));
    }

    /// Records further figures of the message on the API's stream.
    pub(super) fn stream_delta(&mut self, thread: &str, id: Option<&str>, usage: ApiUsage) {
        let thread = fingerprint(thread);
        let current = self.streams.iter().find(|(other, _)| *other == thread);
        let id = id.map(fingerprint).or(current.map(|(_, id)| *id));
        if let Some(id) = id {
            self.put(id, None, usage);
        }
    }

    /// Records the CLI's own account, in a result or at the end of a session file. Later accounts
    /// include earlier ones.
    pub(super) fn result(&mut self, line: &StreamLine<'_>) {
        let models = line.model_usage.members();
        let models: Vec<_> = models
            .iter()
            .map(|(name, usage)| model_account(name, *usage))
            .collect();
        if !models.is_empty() {
            self.final_models = models;
        }
        if let Some(usage) = line.usage {
            self.final_main = usage;
        }
        let cost = line.total_cost_usd.float().and_then(Usd::from_dollars);
        self.final_cost = cost
            .or(self.final_cost)
            .filter(|_| !line.has_unknown_cost.is_true());
    }

    /// Tokens in (without cached ones) and out, so far.
    pub(super) fn so_far(&self) -> (u64, u64) {
        let total = self.total;
        (
            total.input.unwrap_or_default(),
            total.output.unwrap_or_default(),
        )
    }

    /// Whether the CLI's final account has figures that are all zero.
    pub(super) fn is_zero(&self) -> bool {
        let is_free = self.final_cost.is_some_and(|cost| cost.nanos() == 0);
        is_free
            && self.final_models.is_empty()
            && self.final_main.is_zero()
            && self.total.is_nothing()
    }

    /// The usage to report. An account without figures is unknown, not zero.
    pub(super) fn conclude(&self, subagents_seen: bool) -> Option<Usage> {
        if !self.final_models.is_empty() {
            return Some(self.by_model());
        }
        // Versions before 1.0.128 report their last call only: it is less than the messages' sum.
        if !self.final_main.is_nothing() && !self.total.beyond(self.final_main).is_nothing() {
            let most = self.total.zip(self.final_main, u64::max);
            return Some(Usage {
                total: most.figures(self.final_cost),
                source: UsageSource::Messages,
                lower_bound: true,
                per_model: BTreeMap::new(),
            });
        }
        let has_cost = self.final_cost.is_some_and(|cost| cost.nanos() != 0);
        if has_cost || self.is_zero() || !self.final_main.is_nothing() {
            return Some(Usage {
                total: self.final_main.figures(self.final_cost),
                source: UsageSource::ResultEvent,
                // The tokens are those of the main thread only.
                lower_bound: subagents_seen,
                per_model: BTreeMap::new(),
            });
        }
        (!self.total.is_nothing()).then(|| Usage {
            total: self.total.figures(None),
            source: UsageSource::Messages,
            lower_bound: true,
            per_model: self
                .per_model
                .iter()
                .map(|(name, tokens)| (name.clone(), tokens.figures(None)))
                .collect(),
        })
    }

    fn by_model(&self) -> Usage {
        let sum = self
            .final_models
            .iter()
            .fold(ApiUsage::default(), |sum, (_, tokens, _)| {
                sum.zip(*tokens, u64::saturating_add)
            });
        // The sum includes the main thread and cannot be less; 2.0 omits the input there.
        let total = sum.zip(self.final_main, u64::max);
        let summed = || self.final_models.iter().map(|(_, _, cost)| *cost).sum();
        Usage {
            total: total.figures(self.final_cost.or_else(summed)),
            source: UsageSource::ResultEvent,
            lower_bound: !total.beyond(sum).is_nothing(),
            per_model: self
                .final_models
                .iter()
                .map(|(name, tokens, cost)| (name.clone(), tokens.figures(*cost)))
                .collect(),
        }
    }

    fn model(&mut self, name: &str) -> usize {
        let known = self.per_model.iter().position(|(other, _)| other == name);
        known.unwrap_or_else(|| {
            self.per_model.push((name.to_owned(), ApiUsage::default()));
            self.per_model.len() - 1
        })
    }

    fn put(&mut self, message: u64, model: Option<usize>, tokens: ApiUsage) {
        let seen = self.recent_ids.iter().rposition(|id| *id == message);
        let index = match (seen, model) {
            (Some(index), _) => index,
            (None, Some(model)) => {
                if self.recent.len() == REMEMBERED_MESSAGES {
                    self.recent.pop_front();
                    self.recent_ids.pop_front();
                }
                self.recent_ids.push_back(message);
                self.recent.push_back(CallUsage {
                    model,
                    tokens: ApiUsage::default(),
                });
                self.recent.len() - 1
            }
            // A delta of a message that never started is ignored.
            (None, None) => return,
        };
        let seen = &mut self.recent[index];
        let most = seen.tokens.zip(tokens, u64::max);
        let added = most.beyond(seen.tokens);
        seen.tokens = most;
        let of_model = &mut self.per_model[seen.model].1;
        *of_model = of_model.zip(added, u64::saturating_add);
        self.total = self.total.zip(added, u64::saturating_add);
    }
}

fn fingerprint(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
