//! The page or part of a page that a request names, by its path and query.

/// A page, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The list of runs.
    Index,
    /// The page of a run.
    Run(String),
    /// The address of a run without its last slash, against which links of its page would be wrong.
    RunWithoutSlash(String),
    /// The data of a trial, by its directory in the run.
    Trial(String, String),
    /// An entry of a trial's session.
    Entry(String, String, usize),
    /// A file of a trial's artifacts.
    File(String, String, String),
    /// Requests to a run that goes on.
    Control(String),
    /// Events of a run that goes on.
    Events(String),
    /// Trials whose sessions have a text.
    Search(String, String),
    Unknown,
}

impl Route {
    pub(crate) fn of(path: &str, query: &str) -> Route {
        let Some(parts) = decoded_parts(path) else {
            return Route::Unknown;
        };
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts.as_slice() {
            [""] => Route::Index,
            ["runs", run, ""] => Route::Run((*run).to_owned()),
            ["runs", run] => Route::RunWithoutSlash((*run).to_owned()),
            ["runs", run, "events"] => Route::Events((*run).to_owned()),
            ["runs", run, "search"] => {
                let text = parameter(query, "q").unwrap_or_default();
                Route::Search((*run).to_owned(), text)
            }
            ["runs", run, "control"] => Route::Control((*run).to_owned()),
            ["runs", run, "trials", folder] => {
                Route::Trial((*run).to_owned(), (*folder).to_owned())
            }
            ["runs", run, "trials", folder, "entries", number] => match number.parse() {
                Ok(number) => Route::Entry((*run).to_owned(), (*folder).to_owned(), number),
                Err(_) => Route::Unknown,
            },
            ["runs", run, "files", folder, path @ ..] => {
                Route::File((*run).to_owned(), (*folder).to_owned(), path.join("/"))
            }
            _ => Route::Unknown,
        }
    }
}

/// The decoded parts of a path, without its first slash; `None` if it is not valid.
fn decoded_parts(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/')?;
    path.split('/').map(decoded).collect()
}

/// A parameter of a query.
pub(crate) fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    decoded(&value.replace('+', " "))
}

/// Text with its percent signs decoded; `None` if that is not UTF-8 or has a NUL.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes)
        .ok()
        .filter(|it| !it.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_routes() {
        let run = || "r-1".to_owned();
        let rows = [
            ("/", Route::Index),
            ("/runs/r-1/", Route::Run(run())),
            ("/runs/r-1", Route::RunWithoutSlash(run())),
            (
                "/runs/r-1/trials/trials%2Fa%2Fone",
                Route::Trial(run(), "trials/a/one".to_owned()),
            ),
            (
                "/runs/r-1/trials/trials%2Fa/entries/7",
                Route::Entry(run(), "trials/a".to_owned(), 7),
            ),
            ("/runs/r-1/trials/a/entries/-7", Route::Unknown),
            ("/runs/r-1/control", Route::Control(run())),
            ("/runs/r-1/events", Route::Events(run())),
            (
                "/runs/r-1/files/trials%2Fa/raw/a%20b",
                Route::File(run(), "trials/a".to_owned(), "raw/a b".to_owned()),
            ),
            ("/runs/r-1/files/0/%zz", Route::Unknown),
            ("/runs/r-1/files/0/%00", Route::Unknown),
            ("/runs/r-1/%ff/", Route::Unknown),
            ("/runs//", Route::Run(String::new())),
            ("/favicon.ico", Route::Unknown),
            ("", Route::Unknown),
        ];
        for (path, route) in rows {
            assert_eq!(Route::of(path, ""), route, "{path}");
        }
        let search = Route::of("/runs/r-1/search", "a=1&q=two%20words+and%2Bplus");
        let text = "two words and+plus".to_owned();
        assert_eq!(search, Route::Search(run(), text));
    }
}
