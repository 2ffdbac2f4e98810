//! The pages of a gateway: that of its status needs nothing from anywhere else.

use std::fmt::{self, Write};

use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use hyper::{Method, Request, Response};

use super::metrics::metrics;
use crate::call::Body;
use crate::ledger::{Call, CallEnd, Totals};
use crate::state::GatewayState;
use crate::status::{KeyStatus, Overview, Pages, Times};

/// Nothing is loaded, nothing is run: what a model's name may hold stays text.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const STYLE: &str = "body{font:14px/1.5 system-ui,sans-serif;margin:2rem;max-width:75rem;color:#1a1a1a;background:#fff}\
h1{font-size:1.3rem}h2{font-size:1rem;margin:1.5rem 0 .3rem}table{border-collapse:collapse;width:100%}\
th,td{text-align:right;padding:.2rem .6rem;border-bottom:1px solid #ddd;font-variant-numeric:tabular-nums}\
th:first-child,td:first-child,.t{text-align:left}.bad{color:#b00020}.dim{color:#666}\
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}th,td{border-color:#333}.bad{color:#ff6b81}.dim{color:#999}}";

/// The page that a request asks for, if it asks for one and there are any.
pub(crate) fn answer<B>(state: &GatewayState, request: &Request<B>) -> Option<Response<Body>> {
    if state.pages == Pages::Hidden || *request.method() != Method::GET {
        return None;
    }
    let (kind, text) = match request.uri().path() {
        "/" => ("text/html; charset=utf-8", html(&state.overview())),
        "/metrics" => (
            "text/plain; version=0.0.4; charset=utf-8",
            metrics(&state.overview()),
        ),
        _ => return None,
    };
    let response = Response::builder()
        .header(CONTENT_TYPE, kind)
        .header(CACHE_CONTROL, "no-store")
        .header(CONTENT_SECURITY_POLICY, POLICY)
        .body(Body::from(text));
    Some(response.expect("constant headers"))
}

/// A text in which nothing is markup.
struct Plain<'a>(&'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

fn html(seen: &Overview) -> String {
    let totals = seen.totals();
    let mut page = String::with_capacity(8192);
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"2\">\
         <title>Proctor gateway</title><style>{STYLE}</style></head><body><h1>Proctor gateway</h1>\
         <p>up {} s · {} in flight · {} calls · {} tokens · {}{} · <a href=\"/metrics\">metrics</a></p>",
        seen.uptime.as_secs(),
        seen.in_flight(),
        totals.calls,
        totals.usage.total(),
        Dollars(&totals),
        ends(seen),
    );
    keys_table(&mut page, &seen.keys);
    models_table(&mut page, seen);
    let _ = write!(
        page,
        "<h2>Latency</h2><table><tr><th></th><th>calls</th><th>p50</th><th>p90</th><th>p99</th></tr>{}{}</table>",
        Latency("until the first byte", &seen.first_byte),
        Latency("until the last byte", &seen.total),
    );
    calls_table(&mut page, &seen.keys);
    let _ = writeln!(
        page,
        "<p class=\"dim\">since {} · this page asks for itself again every two seconds and for nothing else</p></body></html>",
        seen.since
    );
    page
}

/// The ends of calls that are not as they should be.
fn ends(seen: &Overview) -> String {
    let mut text = String::new();
    for (ended, count) in seen.ended {
        if ended != CallEnd::Complete && count > 0 {
            let _ = write!(
                text,
                " · <span class=\"bad\">{count} {}</span>",
                ended.name()
            );
        }
    }
    text
}

/// A cost, or a note that it is incomplete or unknown.
struct Dollars<'a>(&'a Totals);

impl fmt::Display for Dollars<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, most) = (self.0.cost_nano_usd, self.0.cost_at_most());
        let least = if most.is_some() { "" } else { "at least " };
        write!(f, "{least}${:.4}", low.0 as f64 / 1e9)?;
        match most.filter(|most| *most != low) {
            Some(most) => write!(f, " to ${:.4}", most.0 as f64 / 1e9),
            None => Ok(()),
        }
    }
}

/// The cells that keys and models have in common.
struct Sums<'a>(&'a Totals);

impl fmt::Display for Sums<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = self.0;
        let writes = totals.usage.cache_write_5m + totals.usage.cache_write_1h;
        write!(
            f,
            "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{writes}</td><td>{}</td><td>{}</td><td>{}</td>",
            totals.calls,
            totals.usage.input,
            totals.usage.output,
            totals.usage.cache_read,
            Dollars(totals),
            totals.calls_failed,
            totals.calls_cut,
        )
    }
}

const SUMS: &str = "<th>calls</th><th>input</th><th>output</th><th>cache read</th><th>cache write</th><th>cost</th><th>failed</th><th>cut</th>";

fn keys_table(page: &mut String, keys: &[KeyStatus]) {
    let _ = write!(
        page,
        "<h2>Keys</h2><table><tr><th>key</th><th>in flight</th>{SUMS}<th>refused</th><th>limit hit</th></tr>"
    );
    for key in keys {
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td>{}<td>{}</td><td>{}</td></tr>",
            Plain(&key.label),
            key.in_flight,
            Sums(&key.totals),
            key.refused,
            key.exhausted.map_or("", |limit| limit.name()),
        );
    }
    page.push_str("</table>");
}

fn models_table(page: &mut String, seen: &Overview) {
    let _ = write!(page, "<h2>Models</h2><table><tr><th>model</th>{SUMS}</tr>");
    for (model, totals) in seen.models() {
        let _ = write!(page, "<tr><td>{}</td>{}</tr>", Plain(model), Sums(&totals));
    }
    page.push_str("</table>");
}

struct Latency<'a>(&'a str, &'a Times);

impl fmt::Display for Latency<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<tr><td>{}</td><td>{}</td>", self.0, self.1.count())?;
        for percent in [50, 90, 99] {
            match self.1.within(percent) {
                Some(ms) => write!(f, "<td>≤ {ms} ms</td>")?,
                None => f.write_str("<td>–</td>")?,
            }
        }
        f.write_str("</tr>")
    }
}

fn calls_table(page: &mut String, keys: &[KeyStatus]) {
    page.push_str("<h2>Last calls</h2><table><tr><th>at</th><th class=\"t\">key</th><th class=\"t\">model</th><th>status</th><th class=\"t\">ended</th><th>first byte</th><th>total</th><th class=\"t\">error</th></tr>");
    let mut calls: Vec<(&str, &Call)> = keys
        .iter()
        .flat_map(|key| key.last_calls.iter().map(|call| (key.label.as_str(), call)))
        .collect();
    calls.sort_by_key(|(_, call)| std::cmp::Reverse(call.at));
    for (label, call) in calls.into_iter().take(30) {
        let failed =
            call.ended != CallEnd::Complete || call.status.is_none_or(|status| status >= 400);
        let class = if failed { " class=\"bad\"" } else { "" };
        let status = call
            .status
            .map_or("–".to_owned(), |status| status.to_string());
        let first = call
            .first_byte_ms
            .map_or("–".to_owned(), |ms| format!("{ms} ms"));
        let _ = write!(
            page,
            "<tr{class}><td>{:.0}</td><td class=\"t\">{}</td><td class=\"t\">{}</td><td>{status}</td><td class=\"t\">{}</td><td>{first}</td><td>{} ms</td><td class=\"t\">{}</td></tr>",
            call.at,
            Plain(label),
            Plain(call.effective_model().unwrap_or("–")),
            call.ended.name(),
            call.total_ms,
            Plain(call.error.as_deref().unwrap_or("")),
        );
    }
    page.push_str("</table>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_in_names_is_escaped() {
        let name = "<script>alert(\"x\")</script>&'";
        assert_eq!(
            Plain(name).to_string(),
            "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&amp;&#39;"
        );
    }
}
