//! Removes the headers that must not be forwarded: those of one connection, and keys.

use hyper::HeaderMap;
use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName,
    HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};

/// Headers that concern one connection.
const HOP_BY_HOP: &[HeaderName] = &[
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    EXPECT,
];

/// Removes headers that concern one connection only.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if let Some(named) = headers.get(CONNECTION).cloned()
        && let Ok(names) = named.to_str()
    {
        for name in names.split(',') {
            headers.remove(name.trim());
        }
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
}

/// A client's headers as they go upstream, without its key.
pub(crate) fn for_upstream(mut headers: HeaderMap) -> HeaderMap {
    remove_hop_by_hop(&mut headers);
    for name in [AUTHORIZATION, HOST, CONTENT_LENGTH] {
        headers.remove(name);
    }
    headers.remove("x-api-key");
    headers.remove("x-goog-api-key");
    // Google's servers would take the request for one of another method.
    headers.remove("x-http-method-override");
    // A client that does not announce compression must not receive it.
    headers
        .entry(ACCEPT_ENCODING)
        .or_insert(HeaderValue::from_static("identity"));
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        pairs.collect()
    }

    #[test]
    fn only_keys_and_connection_headers_are_removed() {
        let sent = for_upstream(headers(&[
            ("x-api-key", "k"),
            ("authorization", "Bearer k"),
            ("x-goog-api-key", "k"),
            ("connection", "keep-alive, x-mine"),
            ("keep-alive", "timeout=5"),
            ("x-mine", "1"),
            ("transfer-encoding", "chunked"),
            ("anthropic-beta", "a,b,c"),
            ("user-agent", "claude-cli/2.1"),
            ("x-custom", "stays"),
        ]));
        let expected = headers(&[
            ("anthropic-beta", "a,b,c"),
            ("user-agent", "claude-cli/2.1"),
            ("x-custom", "stays"),
            ("accept-encoding", "identity"),
        ]);
        assert_eq!(sent, expected);
    }
}
