//! The time at which a provider lifts a limit, read from the message about the limit.

use jiff::{SignedDuration, Timestamp, civil::Time, tz::TimeZone};

/// Words before the time.
const BEFORE: &[&str] = &["resets at ", "resets ", "limit reached|", "try again at "];
/// A limit that lasts longer is not worth waiting for.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// The time at which a limit is lifted, by the words of a provider or a CLI.
///
/// Understands Unix seconds (`resets at 1763413200`) and times of day in UTC (`resets 9pm (UTC)`, `try again at 3:05
/// PM`). Returns `None` for another time zone, and for more than a day ahead.
pub fn reset_time(words: &str, now: Timestamp) -> Option<Timestamp> {
    let words = words.to_lowercase();
    let at = BEFORE.iter().find_map(|before| {
        let (_, after) = words.split_once(before)?;
        seconds(after).or_else(|| time_of_day(after, now))
    })?;
    let wait = at.duration_since(now);
    (wait.is_positive() && wait <= LONGEST).then_some(at)
}

fn seconds(text: &str) -> Option<Timestamp> {
    let digits = leading_digits(text);
    let seconds = digits.parse().ok().filter(|_| digits.len() == 10)?;
    Timestamp::from_second(seconds).ok()
}

/// The next time after `now` at which clocks in UTC show this time.
fn time_of_day(text: &str, now: Timestamp) -> Option<Timestamp> {
    let hour = leading_digits(text);
    let rest = &text[hour.len()..];
    let minute = rest.strip_prefix(':').map(leading_digits);
    let rest = minute.map_or(rest, |minute| &rest[1 + minute.len()..]);
    let rest = rest.trim_start();
    let noon = match rest.get(..2)? {
        "am" => 0,
        "pm" => 12,
        _ => return None,
    };
    let zone = rest[2..].trim_start().strip_prefix('(');
    let zone = zone.and_then(|zone| zone.split(')').next());
    if !matches!(zone, None | Some("utc" | "gmt" | "etc/utc")) {
        return None;
    }
    let hour: i8 = hour.parse().ok().filter(|hour| (1..=12).contains(hour))?;
    let minute: i8 = minute.map_or(Some(0), |minute| minute.parse().ok())?;
    let time = Time::new(hour % 12 + noon, minute, 0, 0).ok()?;
    let today = now.to_zoned(TimeZone::UTC).date();
    let at = |date: jiff::civil::Date| {
        let zoned = date.to_datetime(time).to_zoned(TimeZone::UTC).ok()?;
        Some(zoned.timestamp())
    };
    at(today)
        .filter(|at| *at > now)
        .or_else(|| at(today.tomorrow().ok()?))
}

fn leading_digits(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit());
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reset_times_in_messages() {
        let now: Timestamp = "2025-11-17T20:00:00Z".parse().unwrap();
        for (words, expect) in [
            (
                "You've hit your limit · resets 9pm (UTC)",
                Some("2025-11-17T21:00:00Z"),
            ),
            (
                "You've hit your limit · resets 9pm",
                Some("2025-11-17T21:00:00Z"),
            ),
            (
                "5-hour limit reached ∙ resets 3:30am",
                Some("2025-11-18T03:30:00Z"),
            ),
            ("resets 8pm (UTC). Wait", Some("2025-11-18T20:00:00Z")),
            ("resets 12am (UTC)", Some("2025-11-18T00:00:00Z")),
            ("resets 12pm (UTC)", Some("2025-11-18T12:00:00Z")),
            ("Try again at 9:05 PM.", Some("2025-11-17T21:05:00Z")),
            (
                "the limit resets at 1763413200",
                Some("2025-11-17T21:00:00Z"),
            ),
            (
                "Claude AI usage limit reached|1763413200",
                Some("2025-11-17T21:00:00Z"),
            ),
            // In the past, too far ahead, in another zone, or not a time.
            ("resets at 1763400000", None),
            ("resets at 1800000000", None),
            ("resets 9pm (America/New_York)", None),
            ("resets soon", None),
            ("resets 99pm", None),
            ("resets ü", None),
            ("rate limit", None),
        ] {
            let expect = expect.map(|at| at.parse().unwrap());
            assert_eq!(reset_time(words, now), expect, "{words}");
        }
    }
}
