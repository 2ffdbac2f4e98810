//! The cap on plain text in the log. Raw output is on disk in any case; a log of hundreds of megabytes helps no reader.

/// The largest part of a program's text that the log holds.
const MAX_LOGGED: usize = 10 << 20;

/// Counts text on its way to the log.
#[derive(Debug, Default)]
pub(super) struct TextCap {
    logged: usize,
    dropped: u64,
}

impl TextCap {
    /// The beginning of `text` that still fits.
    pub(super) fn take<'a>(&mut self, text: &'a str) -> &'a str {
        let fits = text.floor_char_boundary(MAX_LOGGED - self.logged);
        self.logged += fits;
        self.dropped += (text.len() - fits) as u64;
        &text[..fits]
    }

    /// The last line of a log that was cut.
    pub(super) fn note(&self) -> Option<String> {
        let dropped = self.dropped;
        (dropped > 0).then(|| {
            format!("[OUTPUT TRUNCATED: {dropped} more bytes of text; raw/ has the whole output]")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_beyond_the_cap_is_counted_and_not_logged() {
        let mut cap = TextCap::default();
        let text = "€".repeat(1 << 20);
        let logged: usize = (0..5).map(|_| cap.take(&text).len()).sum();
        assert!(logged <= MAX_LOGGED && logged > MAX_LOGGED - 3, "{logged}");
        assert_eq!(cap.take("€"), "");
        assert!(cap.note().unwrap().starts_with("[OUTPUT TRUNCATED: "));
        assert_eq!(TextCap::default().note(), None);
    }
}
