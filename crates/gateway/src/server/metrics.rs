//! The status of a gateway as Prometheus metrics.

use std::fmt::{self, Write};

use crate::ledger::Totals;
use crate::status::{BOUNDS, Overview, Times};

/// The value of a label.
struct Label<'a>(&'a str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A family of numbers: what it is, and its lines.
fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Everything that is counted.
pub(crate) fn metrics(seen: &Overview) -> String {
    let mut out = String::with_capacity(4096);
    family(
        &mut out,
        "proctor_gateway_uptime_seconds",
        "gauge",
        "Time since the start.",
    );
    let _ = writeln!(
        out,
        "proctor_gateway_uptime_seconds {}",
        seen.uptime.as_secs_f64()
    );
    family(
        &mut out,
        "proctor_gateway_in_flight",
        "gauge",
        "Calls under way.",
    );
    for key in &seen.keys {
        let _ = writeln!(
            out,
            "proctor_gateway_in_flight{{key=\"{}\"}} {}",
            Label(&key.label),
            key.in_flight
        );
    }
    family(
        &mut out,
        "proctor_gateway_calls_ended_total",
        "counter",
        "Calls that are over, by their end.",
    );
    for (ended, count) in seen.ended {
        let _ = writeln!(
            out,
            "proctor_gateway_calls_ended_total{{ended=\"{}\"}} {count}",
            ended.name()
        );
    }
    family(
        &mut out,
        "proctor_gateway_calls_refused_total",
        "counter",
        "Calls that the gateway refused.",
    );
    for key in &seen.keys {
        let _ = writeln!(
            out,
            "proctor_gateway_calls_refused_total{{key=\"{}\"}} {}",
            Label(&key.label),
            key.refused
        );
    }
    by_model(&mut out, seen);
    tokens(&mut out, seen);
    histogram(
        &mut out,
        "proctor_gateway_first_byte_seconds",
        "Time until answers began.",
        &seen.first_byte,
    );
    histogram(
        &mut out,
        "proctor_gateway_call_seconds",
        "Time until calls ended.",
        &seen.total,
    );
    out
}

/// The metrics of each key and model.
fn by_model(out: &mut String, seen: &Overview) {
    type Read = fn(&Totals) -> f64;
    let families: [(&str, &str, Read); 6] = [
        (
            "calls_total",
            "Calls that were let through to a model.",
            |t| t.calls as f64,
        ),
        (
            "calls_failed_total",
            "Of these, failed at the provider.",
            |t| t.calls_failed as f64,
        ),
        (
            "calls_cut_total",
            "Of these, broken off or left by their client.",
            |t| t.calls_cut as f64,
        ),
        (
            "calls_without_price_total",
            "Of these, with known usage and unknown cost.",
            |t| t.calls_without_price as f64,
        ),
        (
            "retries_total",
            "Requests that the gateway sent again.",
            |t| t.retries as f64,
        ),
        ("cost_usd_total", "The known part of the cost.", |t| {
            t.cost_nano_usd.0 as f64 / 1e9
        }),
    ];
    for (name, help, read) in families {
        let name = format!("proctor_gateway_{name}");
        family(out, &name, "counter", help);
        for key in &seen.keys {
            for (model, totals) in &key.models {
                let _ = writeln!(
                    out,
                    "{name}{{key=\"{}\",model=\"{}\"}} {}",
                    Label(&key.label),
                    Label(model),
                    read(totals)
                );
            }
        }
    }
}

fn tokens(out: &mut String, seen: &Overview) {
    let name = "proctor_gateway_tokens_total";
    family(
        out,
        name,
        "counter",
        "Tokens; `output` includes `reasoning`, `input` excludes what was cached.",
    );
    for key in &seen.keys {
        for (model, totals) in &key.models {
            let usage = &totals.usage;
            for (kind, count) in [
                ("input", usage.input),
                ("output", usage.output),
                ("cache_read", usage.cache_read),
                ("cache_write_5m", usage.cache_write_5m),
                ("cache_write_1h", usage.cache_write_1h),
                ("reasoning", usage.reasoning),
            ] {
                let _ = writeln!(
                    out,
                    "{name}{{key=\"{}\",model=\"{}\",kind=\"{kind}\"}} {count}",
                    Label(&key.label),
                    Label(model)
                );
            }
        }
    }
}

fn histogram(out: &mut String, name: &str, help: &str, times: &Times) {
    family(out, name, "histogram", help);
    let mut so_far = 0;
    for (bound, count) in BOUNDS.iter().zip(times.classes) {
        so_far += count;
        let _ = writeln!(
            out,
            "{name}_bucket{{le=\"{}\"}} {so_far}",
            *bound as f64 / 1e3
        );
    }
    let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {}", times.count());
    let _ = writeln!(
        out,
        "{name}_sum {}\n{name}_count {}",
        times.sum_ms as f64 / 1e3,
        times.count()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(Label("a\"b\\c\nd").to_string(), "a\\\"b\\\\c\\nd");
    }
}
