//! Text on a screen: display widths, and removal of control characters from the output of agents.

use std::fmt::Write;

use proctor_record::record::{Event, Passage, Phase, VerdictStatus};
use ratatui::{style::Style, text::Span};

/// The display width of a text.
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The replacement of a tab.
const TAB: &str = "    ";

/// The text without control and bidirectional formatting characters. Line breaks stay.
pub fn tame(text: &str) -> String {
    let mut tamed = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => tamed.push_str(TAB),
            '\n' => tamed.push('\n'),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c if c.is_control() => {}
            c => tamed.push(c),
        }
    }
    tamed
}

fn graphemes(text: &str) -> Vec<(String, usize)> {
    let span = Span::raw(text);
    let graphemes = span.styled_graphemes(Style::default());
    graphemes
        .map(|grapheme| (grapheme.symbol.to_owned(), width(grapheme.symbol)))
        .collect()
}

/// A line cut or padded to a width.
pub fn fit(text: &str, columns: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut fitted = String::new();
    let mut used = 0;
    if width(line) <= columns {
        fitted.push_str(line);
        used = width(line);
    } else if columns > 0 {
        for (symbol, width) in graphemes(line) {
            if used + width > columns - 1 {
                break;
            }
            fitted.push_str(&symbol);
            used += width;
        }
        fitted.push('…');
        used += 1;
    }
    fitted.push_str(&" ".repeat(columns - used));
    fitted
}

/// Like `fit`, aligned to the right.
pub fn fit_right(text: &str, columns: usize) -> String {
    if width(text) >= columns {
        return fit(text, columns);
    }
    format!("{}{text}", " ".repeat(columns - width(text)))
}

/// Wraps a text to a width, between words if possible.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(2);
    let mut lines = Vec::new();
    for line in text.trim_end().split('\n') {
        wrap_line(line, columns, &mut lines);
    }
    lines
}

fn wrap_line(line: &str, columns: usize, lines: &mut Vec<String>) {
    let mut current = String::new();
    let mut used = 0;
    for word in line.split_inclusive(' ') {
        let wide = width(word.trim_end());
        if used > 0 && used + wide > columns {
            lines.push(std::mem::take(&mut current).trim_end().to_owned());
            used = 0;
        }
        if wide <= columns {
            current.push_str(word);
            used += width(word);
            continue;
        }
        for (symbol, width) in graphemes(word) {
            if used + width > columns {
                lines.push(std::mem::take(&mut current));
                used = 0;
            }
            current.push_str(&symbol);
            used += width;
        }
    }
    lines.push(current.trim_end().to_owned());
}

/// The text of an event; `None` for events that only update figures or marks.
pub fn line(event: &Event) -> Option<String> {
    Some(match event {
        Event::Started {
            agent, task, trial, ..
        } => format!("{agent} on {task}, trial {trial}"),
        Event::Phase { phase } => match phase {
            Phase::Preparing => "preparing the workspace".to_owned(),
            Phase::Running => "running the agent".to_owned(),
            Phase::Judging => "judging".to_owned(),
        },
        Event::Iteration {
            number,
            agent,
            reason,
        } => format!("iteration {number}, {agent}: {}", reason.describe()),
        Event::Session { model, version, .. } => {
            let known = [model, version].into_iter().flatten();
            let known: Vec<&str> = known.map(String::as_str).collect();
            format!("session: {}", known.join(" · "))
        }
        Event::Saying(passage)
        | Event::Said(passage)
        | Event::Thought(passage)
        | Event::Note(passage) => whole(passage),
        Event::Tool { tool, target, .. } => match target {
            Some(target) => format!("{tool} {target}"),
            None => tool.clone(),
        },
        Event::Judged {
            evaluator,
            status,
            message,
        } => format!("{evaluator} {}: {message}", verdict(*status)),
        Event::Ended(ended) => {
            let mut text = format!("{} ({})", ended.status.as_str(), ended.outcome.as_str());
            if let Some(files) = ended.files_changed {
                let noun = if files == 1 { "file" } else { "files" };
                let _ = write!(text, ", {files} {noun} changed");
            }
            if let Some(cost) = ended.cost_usd {
                let _ = write!(text, ", ${:.4}", cost.dollars());
            }
            text
        }
        Event::Lost { events } => format!("events missing from the log: {events}"),
        Event::RunStarted { .. }
        | Event::ToolResult { .. }
        | Event::Usage { .. }
        | Event::Unknown => return None,
    })
}

fn whole(passage: &Passage) -> String {
    match passage.cut_bytes {
        0 => passage.text.clone(),
        cut => format!("{} [… {cut} bytes more]", passage.text),
    }
}

fn verdict(status: VerdictStatus) -> &'static str {
    match status {
        VerdictStatus::Passed => "passed",
        VerdictStatus::Failed => "failed",
        VerdictStatus::Skipped => "skipped",
        VerdictStatus::Error => "error",
    }
}

/// Milliseconds as `mm:ss`, or `h:mm:ss`.
pub fn clock(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    if minutes < 60 {
        format!("{minutes:02}:{seconds:02}")
    } else {
        format!("{}:{:02}:{seconds:02}", minutes / 60, minutes % 60)
    }
}

/// A number in short form.
pub fn short(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{:.1}k", number as f64 / 1e3),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fit_pads_and_cuts_to_width_for_any_script() {
        for text in [
            "short",
            "a longer one",
            "日本語のテスト",
            "e\u{301}a\u{308}x",
            "👩‍👩‍👧 family",
        ] {
            for columns in 0..16 {
                assert_eq!(width(&fit(text, columns)), columns, "{text} in {columns}");
            }
        }
        assert_eq!(fit("日本語", 4), "日… ");
        assert_eq!(fit_right("7", 3), "  7");
    }

    #[test]
    fn wrap_breaks_between_words_and_inside_long_words() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij k", 4), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrap("日本語 テスト", 6), ["日本語", "テスト"]);
        assert_eq!(
            wrap("  if x {\n    y\n  }\n", 20),
            ["  if x {", "    y", "  }"]
        );
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn tame_removes_terminal_control_characters() {
        assert_eq!(tame("a\x1b[2Jb\r\nc\t\u{202e}d"), "a[2Jb\nc    d");
    }

    #[test]
    fn short_and_clock_format_numbers() {
        assert_eq!(
            [short(999), short(1_234), short(2_500_000)],
            ["999", "1.2k", "2.5M"]
        );
        assert_eq!([clock(61_000), clock(3_723_000)], ["01:01", "1:02:03"]);
    }
}
