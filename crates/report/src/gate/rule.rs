//! The grammar of rules. A rule of a gate states what must hold: `passed >= 80%`, `cost_per_trial <=
//! baseline + 20%`, `every task: pass^3`, `no task that passed before fails now`. A rule of
//! `compare --fail-on` names a change that must not happen: `score<-0.05`.

use std::{num::NonZeroU64, str::FromStr};

use serde::Serialize;

use crate::compare::Metric;

/// The text of the rule about regressions of single tasks.
const NO_REGRESSION: &str = "no task that passed before fails now";
/// The start of rules about each task.
const EVERY_TASK: &str = "every task";
const METRICS: &str = "use score, passed, cost_per_trial, time_per_trial, tokens_per_trial, `every task` or `no task`";

/// A rule of a gate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// The text of the rule.
    pub text: String,
    /// The requirement.
    #[serde(flatten)]
    pub kind: RuleKind,
}

/// The requirement of a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleKind {
    /// A figure of an agent has a limit.
    Level(LevelRule),
    /// The change of a figure against a baseline has a limit.
    Change(ChangeRule),
    /// Each task passes in its repeats.
    EveryTask(Attempts),
    /// No task that passed in the baseline fails.
    NoRegression,
}

impl RuleKind {
    /// Whether the rule compares with a baseline.
    pub fn needs_baseline(&self) -> bool {
        matches!(self, RuleKind::Change(_) | RuleKind::NoRegression)
    }
}

/// A limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LevelRule {
    /// The metric.
    pub metric: Metric,
    /// The side that is allowed.
    pub bound: Bound,
    /// The limit, in the metric's own unit: dollars, seconds, tokens, or a fraction of 1.
    pub limit: f64,
}

/// The side of a limit that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The limit and above.
    AtLeast,
    /// The limit and below.
    AtMost,
}

/// The passed trials that each task needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempts {
    /// `pass^k`: all trials, and at least k.
    All(NonZeroU64),
    /// `pass@k`: one of k trials.
    Any(NonZeroU64),
}

/// A limit of the change of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangeRule {
    /// The text of the rule.
    pub text: String,
    /// The metric.
    pub metric: Metric,
    /// The maximum change, with its sign.
    pub limit: Limit,
}

/// The maximum change of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// In its own unit: dollars, seconds, tokens, or a fraction of 1.
    Absolute(f64),
    /// Relative to the baseline.
    Relative(f64),
}

/// A rule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid rule `{text}`, column {column}: {why}; {hint}")]
pub struct RuleError {
    /// The text of the rule.
    pub text: String,
    /// The position of the error, from 1.
    pub column: usize,
    /// The error.
    pub why: String,
    /// A suggestion for the user.
    pub hint: String,
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rule, RuleError> {
        let mut scanner = Scanner::new(text);
        let kind = match scanner.word() {
            "every" => every_task(&mut scanner)?,
            "no" => no_regression(&mut scanner)?,
            name => figure_rule(name, &mut scanner)?,
        };
        scanner.end()?;
        Ok(Rule {
            text: text.trim().to_owned(),
            kind,
        })
    }
}

fn every_task(scanner: &mut Scanner) -> Result<RuleKind, RuleError> {
    let hint = "write `every task: pass^3` or `every task: pass@3`";
    scanner.expect_words(EVERY_TASK, hint)?;
    scanner.expect(":", hint)?;
    let of = match (scanner.eat("pass^"), scanner.eat("pass@")) {
        (true, _) => Attempts::All,
        (_, true) => Attempts::Any,
        _ => return Err(scanner.fail("expected pass^K or pass@K", hint)),
    };
    let k = scanner.digits().parse().ok();
    let k = k.ok_or_else(|| scanner.fail("expected a number of trials from 1", hint))?;
    Ok(RuleKind::EveryTask(of(k)))
}

fn no_regression(scanner: &mut Scanner) -> Result<RuleKind, RuleError> {
    let hint = format!("write `{NO_REGRESSION}`");
    scanner.expect_words(NO_REGRESSION, &hint)?;
    Ok(RuleKind::NoRegression)
}

fn figure_rule(name: &str, scanner: &mut Scanner) -> Result<RuleKind, RuleError> {
    let metric = metric(name).ok_or_else(|| scanner.fail_at_start("unknown metric", METRICS))?;
    let (bound, sign, usual) = if metric.is_gain() {
        (Bound::AtLeast, ">=", "higher is better: use >=")
    } else {
        (Bound::AtMost, "<=", "lower is better: use <=")
    };
    if !scanner.eat(sign) {
        return Err(scanner.fail(&format!("expected {sign}"), usual));
    }
    if scanner.eat("baseline") {
        return change(metric, scanner);
    }
    let at = scanner.at;
    let value = scanner.value(metric)?;
    let limit = match (value.is_percent, metric.is_gain()) {
        (true, true) => value.number / 100.0,
        (false, _) => value.number,
        (true, false) => {
            let why = "a percentage needs something to relate to";
            return Err(scanner.fail_at(at, why, "write `baseline + 20%`"));
        }
    };
    if metric.is_gain() && !(limit > 0.0 && limit < 1.0) {
        let hint = "write a share such as 80% or 0.8; `every task: pass^3` requires all trials";
        let why = "the limit must be between 0% and 100%";
        return Err(scanner.fail_at(at, why, hint));
    }
    Ok(RuleKind::Level(LevelRule {
        metric,
        bound,
        limit,
    }))
}

/// The rest of a rule after `baseline`.
fn change(metric: Metric, scanner: &mut Scanner) -> Result<RuleKind, RuleError> {
    let (sign, other, factor) = if metric.is_gain() {
        ("-", "+", -1.0)
    } else {
        ("+", "-", 1.0)
    };
    if scanner.rest().starts_with(other) {
        let hint = format!("write `baseline {sign} …`, or `baseline` alone");
        return Err(scanner.fail("a gate limits losses, and this would require a gain", &hint));
    }
    let limit = if scanner.eat(sign) {
        let value = scanner.value(metric)?;
        if value.is_percent {
            Limit::Relative(factor * value.number / 100.0)
        } else {
            Limit::Absolute(factor * value.number)
        }
    } else {
        Limit::Absolute(factor * 0.0)
    };
    Ok(RuleKind::Change(ChangeRule {
        text: scanner.text.trim().to_owned(),
        metric,
        limit,
    }))
}

/// A rule of `compare --fail-on`.
impl FromStr for ChangeRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<ChangeRule, RuleError> {
        let mut scanner = Scanner::new(text);
        let name = scanner.word();
        let hint = "use score, passed, cost, time or tokens";
        let metric = metric(name).ok_or_else(|| scanner.fail_at_start("unknown metric", hint))?;
        let is_fall = match (scanner.eat("<"), scanner.eat(">")) {
            (true, _) => true,
            (_, true) => false,
            _ => return Err(scanner.fail("expected < or >", "write a change: score<-0.05")),
        };
        let at = scanner.at;
        let is_signed_up = scanner.eat("+");
        let is_negative = !is_signed_up && scanner.eat("-");
        let value = scanner.value(metric)?;
        scanner.end()?;
        // `score<0.1` would require an improvement, which does not protect against a loss.
        let is_sound = is_negative == is_fall || value.number == 0.0;
        if !is_sound || is_signed_up && is_fall {
            let hint = "write score<-0.05 or cost>+20%";
            return Err(scanner.fail_at(at, "< needs a negative number, > a positive one", hint));
        }
        let number = if is_fall { -value.number } else { value.number };
        Ok(ChangeRule {
            text: text.to_owned(),
            metric,
            limit: if value.is_percent {
                Limit::Relative(number / 100.0)
            } else {
                Limit::Absolute(number)
            },
        })
    }
}

/// The metric with this name. Cost, time and tokens are those of a trial.
fn metric(name: &str) -> Option<Metric> {
    let name = name.strip_suffix("_per_trial").map_or(name, |short| {
        let is_share = matches!(short, "score" | "passed");
        if is_share { name } else { short }
    });
    Metric::ALL.into_iter().find(|it| it.as_str() == name)
}

/// A number without a sign, in the metric's own unit or in percent.
struct Value {
    number: f64,
    is_percent: bool,
}

/// Reads the text of a rule from left to right.
struct Scanner<'a> {
    text: &'a str,
    /// The position in bytes.
    at: usize,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Scanner<'a> {
        let mut scanner = Scanner { text, at: 0 };
        scanner.skip_spaces();
        scanner
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// The next characters of a kind, without the spaces after them.
    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let part = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        self.at += part.len();
        self.skip_spaces();
        part
    }

    fn word(&mut self) -> &'a str {
        self.take(|c| c.is_alphabetic() || c == '_')
    }

    fn digits(&mut self) -> &'a str {
        self.take(|c| c.is_ascii_digit())
    }

    /// Whether the next characters are these, which are then skipped.
    fn eat(&mut self, text: &str) -> bool {
        let is_next = self.rest().starts_with(text);
        if is_next {
            self.at += text.len();
            self.skip_spaces();
        }
        is_next
    }

    fn expect(&mut self, text: &str, hint: &str) -> Result<(), RuleError> {
        if self.eat(text) {
            return Ok(());
        }
        Err(self.fail(&format!("expected `{text}`"), hint))
    }

    /// Checks the words after the first one, which is already read.
    fn expect_words(&mut self, words: &str, hint: &str) -> Result<(), RuleError> {
        for word in words.split(' ').skip(1) {
            let at = self.at;
            if self.word() != word {
                return Err(self.fail_at(at, &format!("expected `{word}`"), hint));
            }
        }
        Ok(())
    }

    /// A number with the units that the metric can have.
    fn value(&mut self, metric: Metric) -> Result<Value, RuleError> {
        let at = self.at;
        let has_dollar = self.eat("$");
        let number = self.take(|c| c.is_ascii_digit() || c == '.').parse::<f64>();
        let Ok(number) = number else {
            let hint = "write a number such as 0.05, 20% or $1";
            return Err(self.fail("expected a number", hint));
        };
        let unit_at = self.at;
        let (factor, is_percent) = match self.take(|c| c.is_alphabetic() || c == '%') {
            "" => (1.0, false),
            "%" => (1.0, true),
            "s" if metric == Metric::Time => (1.0, false),
            "m" | "min" if metric == Metric::Time => (60.0, false),
            "h" if metric == Metric::Time => (3600.0, false),
            _ => {
                let hint = match metric {
                    Metric::Time => "use %, s, m or h",
                    Metric::Cost => "write dollars, such as $1 or 0.5, or %",
                    Metric::Score | Metric::Passed | Metric::Tokens => "use %, or no unit",
                };
                return Err(self.fail_at(unit_at, "unknown unit", hint));
            }
        };
        if has_dollar && (metric != Metric::Cost || is_percent) {
            let hint = format!("write {} without `$`", metric.as_str());
            return Err(self.fail_at(at, "only an amount of cost is in dollars", &hint));
        }
        Ok(Value {
            number: factor * number,
            is_percent,
        })
    }

    fn end(&self) -> Result<(), RuleError> {
        match self.rest() {
            "" => Ok(()),
            rest => {
                let hint = "write each rule on its own";
                Err(self.fail(&format!("unexpected `{rest}`"), hint))
            }
        }
    }

    fn fail(&self, why: &str, hint: &str) -> RuleError {
        self.fail_at(self.at, why, hint)
    }

    fn fail_at_start(&self, why: &str, hint: &str) -> RuleError {
        self.fail_at(0, why, hint)
    }

    fn fail_at(&self, at: usize, why: &str, hint: &str) -> RuleError {
        RuleError {
            text: self.text.to_owned(),
            column: self.text[..at].chars().count() + 1,
            why: why.to_owned(),
            hint: hint.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(metric: Metric, bound: Bound, limit: f64) -> RuleKind {
        RuleKind::Level(LevelRule {
            metric,
            bound,
            limit,
        })
    }

    fn change(text: &str, metric: Metric, limit: Limit) -> RuleKind {
        RuleKind::Change(ChangeRule {
            text: text.to_owned(),
            metric,
            limit,
        })
    }

    #[test]
    fn rules_of_gates_are_parsed() {
        let three = NonZeroU64::new(3).unwrap();
        let table = [
            ("passed >= 80%", level(Metric::Passed, Bound::AtLeast, 0.8)),
            ("score>=0.5", level(Metric::Score, Bound::AtLeast, 0.5)),
            (
                "cost_per_trial <= $1",
                level(Metric::Cost, Bound::AtMost, 1.0),
            ),
            ("cost <= 0.5", level(Metric::Cost, Bound::AtMost, 0.5)),
            (
                "time_per_trial <= 10 m",
                level(Metric::Time, Bound::AtMost, 600.0),
            ),
            (
                "every task: pass^3",
                RuleKind::EveryTask(Attempts::All(three)),
            ),
            (
                "every task:pass@3",
                RuleKind::EveryTask(Attempts::Any(three)),
            ),
            (NO_REGRESSION, RuleKind::NoRegression),
            (
                "score >= baseline - 0.05",
                change(
                    "score >= baseline - 0.05",
                    Metric::Score,
                    Limit::Absolute(-0.05),
                ),
            ),
            (
                "cost <= baseline + 20%",
                change("cost <= baseline + 20%", Metric::Cost, Limit::Relative(0.2)),
            ),
        ];
        for (text, kind) in table {
            let rule: Rule = text.parse().unwrap();
            assert_eq!(rule.kind, kind, "{text}");
        }
    }

    #[test]
    fn invalid_rules_are_refused_with_position_and_hint() {
        let table = [
            ("pased >= 80%", 1, "unknown metric"),
            ("passed <= 80%", 8, "expected >="),
            ("passed >= 80", 11, "the limit must be between 0% and 100%"),
            (
                "passed >= 100%",
                11,
                "the limit must be between 0% and 100%",
            ),
            ("passed >= $1", 11, "only an amount of cost is in dollars"),
            (
                "cost_per_trial <= 20%",
                19,
                "a percentage needs something to relate to",
            ),
            ("cost <= much", 9, "expected a number"),
            ("time <= 3 days", 11, "unknown unit"),
            (
                "score >= baseline + 1",
                19,
                "a gate limits losses, and this would require a gain",
            ),
            (
                "every task: pass^0",
                19,
                "expected a number of trials from 1",
            ),
            ("every tusk: pass^3", 7, "expected `task`"),
            ("no task that passed fails", 21, "expected `before`"),
            ("passed >= 80% and more", 15, "unexpected `and more`"),
            ("", 1, "unknown metric"),
        ];
        for (text, column, why) in table {
            let error = text.parse::<Rule>().unwrap_err();
            assert_eq!((error.column, error.why.as_str()), (column, why), "{text}");
            assert!(!error.hint.is_empty(), "{text}");
        }
        let currency: RuleError = "cost <= 1 EUR".parse::<Rule>().unwrap_err();
        assert!(currency.hint.contains("$1"), "{currency}");
    }

    #[test]
    fn rules_about_changes_are_parsed_and_useless_ones_refused() {
        let rule: ChangeRule = "cost>+20%".parse().unwrap();
        assert_eq!(
            (rule.metric, rule.limit),
            (Metric::Cost, Limit::Relative(0.2))
        );
        let rule: ChangeRule = "score < -0.05".parse().unwrap();
        assert_eq!(
            (rule.metric, rule.limit),
            (Metric::Score, Limit::Absolute(-0.05))
        );
        let rule: ChangeRule = "score<0".parse().unwrap();
        assert!(rule.is_fall());
        for text in [
            "score",
            "price>1",
            "score<0.1",
            "cost>-1",
            "cost>x",
            "score<NaN",
            "cost<+0",
        ] {
            assert!(text.parse::<ChangeRule>().is_err(), "{text}");
        }
    }
}
