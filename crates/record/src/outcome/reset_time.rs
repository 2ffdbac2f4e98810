//! The time at which a provider lifts a limit, read from the message about the limit.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, Zoned, civil::Date, civil::Time, tz::TimeZone};

/// Words before a time.
const BEFORE_TIME: &[&str] = &[
    "resets at ",
    "resets ",
    "reset at ",
    "reset on ",
    "limit reached|",
    "try again at ",
];
/// Words before a duration.
const BEFORE_DURATION: &[&str] = &[
    "try again in ",
    "retry in ",
    "resets in ",
    "reset in ",
    "reset after ",
    "please wait ",
];
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
/// The maximum wait for the end of a limit.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// A time of day that passed no longer ago than this is the reset that the message announced, not that of the next day.
const JUST_PASSED: SignedDuration = SignedDuration::from_hours(1);

/// When a provider lifts its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReset {
    /// After this time.
    In(Duration),
    /// At a time that the message does not tell, or that cannot be read.
    Unknown,
    /// More than a day ahead.
    TooFar,
}

/// The time until a limit is lifted, by the words of a provider or a CLI.
///
/// Understands Unix seconds (`resets at 1763413200`), times of day and dates (`resets 9pm (Europe/Berlin)`, `resets Nov
/// 21, 3am`), and durations (`try again in 20s`). `local` is the time zone of the CLI, for times without one. Returns
/// `None` for words that mention no reset.
pub fn limit_reset(words: &str, now: Timestamp, local: &TimeZone) -> Option<LimitReset> {
    // Names of time zones and units are ASCII, so that positions stay the same.
    let lower = words.to_ascii_lowercase();
    let after = |phrases: &[&str]| -> Vec<&str> {
        let starts = phrases.iter().flat_map(|phrase| {
            let found = lower.match_indices(phrase);
            found.map(|(at, phrase)| at + phrase.len())
        });
        starts.map(|start| &words[start..]).collect()
    };
    let (times, durations) = (after(BEFORE_TIME), after(BEFORE_DURATION));
    // Seconds are exact; a time of day may lack its zone.
    let at = times.iter().find_map(|text| unix_seconds(text));
    let at = at.or_else(|| {
        let mut times = times.iter();
        times.find_map(|text| Words(text).moment(now, local))
    });
    let wait = at.map(|at| at.duration_since(now));
    let wait = wait.or_else(|| durations.iter().find_map(|text| Words(text).duration()));
    match wait {
        Some(wait) if wait > LONGEST => Some(LimitReset::TooFar),
        Some(wait) if wait.is_positive() => Some(LimitReset::In(wait.unsigned_abs())),
        // `try again in a moment` is said after any failure.
        _ => (!times.is_empty()).then_some(LimitReset::Unknown),
    }
}

fn unix_seconds(text: &str) -> Option<Timestamp> {
    let digits = Words(text).digits();
    let seconds = digits.parse().ok().filter(|_| digits.len() == 10)?;
    Timestamp::from_second(seconds).ok()
}

/// Text that is read from its start.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    /// The next moment at which clocks show the time at the start, or the last one if it has just passed.
    fn moment(mut self, now: Timestamp, local: &TimeZone) -> Option<Timestamp> {
        let date = self.date();
        let time = self.time()?;
        let zone = match self.zone() {
            None => local.clone(),
            Some(name) => TimeZone::get(name).ok()?,
        };
        let today = now.to_zoned(zone.clone()).date();
        let at = |date: Date| -> Option<Timestamp> {
            let zoned: Zoned = date.to_datetime(time).to_zoned(zone.clone()).ok()?;
            Some(zoned.timestamp())
        };
        let Some((month, day, year)) = date else {
            let days = [today.yesterday().ok()?, today, today.tomorrow().ok()?];
            let mut moments = days.into_iter().filter_map(at);
            return moments.find(|at| now.duration_since(*at) < JUST_PASSED);
        };
        let in_year = |year: i16| at(Date::new(year, month, day).ok()?);
        if let Some(year) = year {
            return in_year(year);
        }
        let next_year = || in_year(today.year() + 1);
        in_year(today.year())
            .filter(|at| *at > now)
            .or_else(next_year)
    }

    /// A date such as `Nov 21, `, `Oct 9 at ` or `Nov 21st, 2025 `.
    fn date(&mut self) -> Option<(i8, i8, Option<i16>)> {
        let name = self.0.get(..3)?.to_ascii_lowercase();
        let month = MONTHS.iter().position(|month| *month == name)?;
        self.letters();
        self.skip(" .");
        let day = self.digits().parse().ok()?;
        self.letters();
        self.skip(" ,");
        let is_year = Words(self.0).digits().len() == 4;
        let year = is_year.then(|| self.digits().parse().ok()).flatten();
        self.skip(" ,");
        if self.0.starts_with("at ") {
            self.0 = &self.0[3..];
        }
        Some((i8::try_from(month).ok()? + 1, day, year))
    }

    /// A time such as `9pm`, `3:05 PM` or `21:30`.
    fn time(&mut self) -> Option<Time> {
        let hour: i8 = self.digits().parse().ok()?;
        let minute = match self.0.strip_prefix(':') {
            None => None,
            Some(rest) => {
                self.0 = rest;
                Some(self.digits().parse().ok()?)
            }
        };
        let half = self.0.trim_start().get(..2).map(str::to_ascii_lowercase);
        let noon = match half.as_deref() {
            Some("am") => Some(0),
            Some("pm") => Some(12),
            _ => None,
        };
        let hour = match noon {
            Some(noon) if (1..=12).contains(&hour) => hour % 12 + noon,
            None if minute.is_some() => hour,
            _ => return None,
        };
        if noon.is_some() {
            self.skip(" ");
            self.0 = &self.0[2..];
        }
        Time::new(hour, minute.unwrap_or_default(), 0, 0).ok()
    }

    /// The time zone in brackets.
    fn zone(&mut self) -> Option<&'a str> {
        let (name, _) = self.0.trim_start().strip_prefix('(')?.split_once(')')?;
        Some(name)
    }

    /// A duration such as `20s`, `1h 30m` or `2 days 3 hours`.
    fn duration(mut self) -> Option<SignedDuration> {
        let mut total = None;
        loop {
            let number = self.while_some(|c| c.is_ascii_digit() || c == '.');
            let Ok(number) = number.trim_end_matches('.').parse::<f64>() else {
                return total.and_then(|seconds| SignedDuration::try_from_secs_f64(seconds).ok());
            };
            self.skip(" ");
            let unit = match self.letters().to_ascii_lowercase().as_str() {
                "ms" | "milliseconds" => 0.001,
                "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
                "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
                "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
                "d" | "day" | "days" => 86_400.0,
                _ => return None,
            };
            *total.get_or_insert(0.0) += number * unit;
            self.skip(" ,");
        }
    }

    fn digits(&mut self) -> &'a str {
        self.while_some(|c| c.is_ascii_digit())
    }

    fn letters(&mut self) -> &'a str {
        self.while_some(|c| c.is_ascii_alphabetic())
    }

    fn skip(&mut self, any: &str) {
        self.while_some(|c| any.contains(c));
    }

    fn while_some(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.0.find(|c| !wanted(c)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of the reset in UTC, or why there is none.
    fn reset(words: &str, zone: &str) -> String {
        let now: Timestamp = "2025-11-17T20:00:00Z".parse().unwrap();
        let local = TimeZone::get(zone).unwrap();
        match limit_reset(words, now, &local) {
            None => "none".to_owned(),
            Some(LimitReset::Unknown) => "unknown".to_owned(),
            Some(LimitReset::TooFar) => "too far".to_owned(),
            Some(LimitReset::In(wait)) => {
                let at = now + SignedDuration::try_from(wait).unwrap();
                at.to_string()
            }
        }
    }

    #[track_caller]
    fn check(zone: &str, rows: &[(&str, &str)]) {
        for (words, expect) in rows {
            assert_eq!(reset(words, zone), *expect, "{words}");
        }
    }

    #[test]
    fn times_of_day_in_utc() {
        let rows = [
            (
                "You've hit your limit · resets 9pm (UTC)",
                "2025-11-17T21:00:00Z",
            ),
            ("You've hit your limit · resets 9pm", "2025-11-17T21:00:00Z"),
            (
                "5-hour limit reached ∙ resets 3:30am",
                "2025-11-18T03:30:00Z",
            ),
            ("resets 8pm (UTC). Wait", "unknown"),
            ("resets 7:30pm (UTC)", "unknown"),
            ("resets 7pm (UTC)", "2025-11-18T19:00:00Z"),
            ("resets 12am (UTC)", "2025-11-18T00:00:00Z"),
            ("resets 12pm (UTC)", "2025-11-18T12:00:00Z"),
            ("Try again at 9:05 PM.", "2025-11-17T21:05:00Z"),
            ("resets 21:30", "2025-11-17T21:30:00Z"),
            (
                "Claude usage limit reached. Your limit will reset at 9pm.",
                "2025-11-17T21:00:00Z",
            ),
            ("Limits will reset at 9:30 PM. View", "2025-11-17T21:30:00Z"),
        ];
        check("UTC", &rows);
    }

    #[test]
    fn times_of_day_in_other_zones() {
        let rows = [
            // 20:00 in UTC is 21:00 in Berlin.
            ("You've hit your limit · resets 9pm", "unknown"),
            ("resets 10pm", "2025-11-17T21:00:00Z"),
            ("resets 3am (Europe/Berlin)", "2025-11-18T02:00:00Z"),
            ("resets 3am (europe/berlin)", "2025-11-18T02:00:00Z"),
            ("resets 9pm (UTC)", "2025-11-17T21:00:00Z"),
            ("resets 9pm (America/New_York)", "2025-11-18T02:00:00Z"),
            ("resets 3:15am (Asia/Kolkata)", "2025-11-17T21:45:00Z"),
            (
                "Your limit will reset at 12:50am (America/Los_Angeles).",
                "2025-11-18T08:50:00Z",
            ),
            ("resets 3am (Asia/Calcutta)", "2025-11-17T21:30:00Z"),
            ("resets 3am (Etc/GMT+5)", "2025-11-18T08:00:00Z"),
            ("resets 9pm (Mars/Olympus)", "unknown"),
        ];
        check("Europe/Berlin", &rows);
    }

    #[test]
    fn time_that_has_just_passed_before_midnight_is_over() {
        let now: Timestamp = "2025-11-18T00:05:00Z".parse().unwrap();
        let at = |words| limit_reset(words, now, &TimeZone::UTC);
        assert_eq!(at("resets 11:50pm"), Some(LimitReset::Unknown));
        let wait = Duration::from_mins(24 * 60 - 65);
        assert_eq!(at("resets 11pm"), Some(LimitReset::In(wait)));
    }

    #[test]
    fn dates_seconds_and_durations() {
        let rows = [
            (
                "weekly limit · resets Nov 18, 3am (Europe/Berlin)",
                "2025-11-18T02:00:00Z",
            ),
            ("resets Nov 18 at 5pm", "2025-11-18T17:00:00Z"),
            (
                "try again at Nov 18th, 2025 3:05 PM.",
                "2025-11-18T15:05:00Z",
            ),
            (
                "Please wait for your limit to reset on November 18, 2025 at 2:00 AM or switch",
                "2025-11-18T02:00:00Z",
            ),
            ("resets Nov 21, 3am", "too far"),
            ("resets Jan 2, 3am", "too far"),
            ("the limit resets at 1763413200", "2025-11-17T21:00:00Z"),
            (
                "Claude AI usage limit reached|1763413200",
                "2025-11-17T21:00:00Z",
            ),
            (
                "resets 11pm; it resets at 1763413200",
                "2025-11-17T21:00:00Z",
            ),
            ("resets at 1800000000", "too far"),
            (
                "Rate limit reached. Please try again in 20s.",
                "2025-11-17T20:00:20Z",
            ),
            ("Please retry in 32.5s.", "2025-11-17T20:00:32.5Z"),
            (
                "Your quota will reset after 1h30m5s.",
                "2025-11-17T21:30:05Z",
            ),
            ("try again in 2 hours 10 minutes", "2025-11-17T22:10:00Z"),
            ("Try again in 3 days 2 hours", "too far"),
            ("Please try again in 51 hours.", "too far"),
            (
                "Please wait 2 minutes before trying again",
                "2025-11-17T20:02:00Z",
            ),
            ("your limit will reset in 1 hour.", "2025-11-17T21:00:00Z"),
        ];
        check("UTC", &rows);
    }

    #[test]
    fn words_without_a_readable_time() {
        let rows = [
            ("resets at 1763400000", "unknown"),
            ("resets soon", "unknown"),
            ("resets 99pm", "unknown"),
            ("resets ü", "unknown"),
            ("resets ", "unknown"),
            ("resets Nov 99, 3am", "unknown"),
            (
                "529 Overloaded. Usually temporary: try again in a moment.",
                "none",
            ),
            ("rate limit", "none"),
            ("Try again later", "none"),
            ("Please wait a moment", "none"),
        ];
        check("UTC", &rows);
    }
}
