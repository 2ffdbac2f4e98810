//! Request paths in one spelling, so that the list of allowed endpoints compares like with like.
//!
//! A provider may decode a path, resolve its dot segments or merge its slashes before it looks for an
//! endpoint. The gateway does all of that first, and sends the spelling that it compared.

use std::borrow::Cow;

/// The path with escapes decoded, repeated slashes merged and dot segments resolved. `None` for a path
/// that leaves the root or that servers read in different ways: broken or repeated escapes, backslashes,
/// control characters, parameters after a semicolon.
pub(crate) fn normalise(path: &str) -> Option<Cow<'_, str>> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~:@+[]".contains(&byte);
    let decoded = decode(path)?;
    if !decoded.starts_with('/') || !decoded.bytes().all(plain) {
        return None;
    }
    if !decoded.contains("//") && !decoded.contains("/.") {
        return Some(decoded);
    }
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded[1..].split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()?),
            name => segments.push(name),
        }
    }
    Some(Cow::Owned(format!("/{}", segments.join("/"))))
}

/// Decodes percent escapes once.
fn decode(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains('%') {
        return Some(Cow::Borrowed(path));
    }
    let mut decoded = String::with_capacity(path.len());
    let mut parts = path.split('%');
    decoded.push_str(parts.next()?);
    for part in parts {
        let digits = part.get(..2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        decoded.push(char::from(u8::from_str_radix(digits, 16).ok()?));
        decoded.push_str(&part[2..]);
    }
    Some(Cow::Owned(decoded))
}

/// A model's name as one segment of a path, escaped again where that is needed. A name may have one
/// slash, behind its vendor's name.
pub(crate) fn model_segment(name: &str) -> Option<String> {
    let parts = name.split('/');
    if parts.clone().count() > 2 || parts.clone().any(str::is_empty) {
        return None;
    }
    let escaped = name.replace('/', "%2F").replace('[', "%5B");
    Some(escaped.replace(']', "%5D"))
}
