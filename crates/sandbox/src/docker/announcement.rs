//! The secret bytes with which the first process of a container says on both streams that a job has
//! ended, although the container goes on.

use proctor_process::{ANNOUNCEMENT, Stream};

/// The first byte, which no later byte equals and which output rarely has.
const START: u8 = 0x1f;

/// Removes the announcement from output, wherever it is split.
#[derive(Debug)]
pub(super) struct Announcement {
    secret: [u8; ANNOUNCEMENT],
    /// How much of the secret was seen at the end of each stream.
    matched: [usize; 2],
}

impl Announcement {
    pub(super) fn new() -> Self {
        let random = uuid::Uuid::new_v4().simple().to_string();
        let mut secret = [START; ANNOUNCEMENT];
        secret[1..].copy_from_slice(random.as_bytes());
        Self::of(secret)
    }

    fn of(secret: [u8; ANNOUNCEMENT]) -> Self {
        Self {
            secret,
            matched: [0; 2],
        }
    }

    pub(super) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// The same secret, for the next job of a container.
    pub(super) fn again(&self) -> Self {
        Self::of(self.secret)
    }

    /// Whether it was seen on both streams.
    pub(super) fn is_complete(&self) -> bool {
        self.matched == [ANNOUNCEMENT; 2]
    }

    /// The output in these bytes. Bytes after the announcement belong to no job.
    pub(super) fn pass(&mut self, stream: Stream, bytes: &[u8]) -> Vec<u8> {
        let matched = &mut self.matched[index(stream)];
        let mut output = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            if *matched == ANNOUNCEMENT {
                break;
            }
            if byte != self.secret[*matched] {
                output.extend_from_slice(&self.secret[..*matched]);
                *matched = 0;
            }
            if byte == self.secret[*matched] {
                *matched += 1;
            } else {
                output.push(byte);
            }
        }
        output
    }

    /// The held-back output of a stream that ended without an announcement.
    pub(super) fn rest(&mut self, stream: Stream) -> Vec<u8> {
        let matched = &mut self.matched[index(stream)];
        match *matched {
            ANNOUNCEMENT => Vec::new(),
            held => {
                *matched = 0;
                self.secret[..held].to_vec()
            }
        }
    }
}

fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Stderr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcement_is_removed_and_similar_output_is_kept() {
        let known = Announcement::new();
        let secret = known.secret();
        let similar = [b"a\x1f\x1f", &secret[..20], &secret[..20], b"z"].concat();
        let all = [&similar, secret, b"later"].concat();
        for step in 1..all.len() {
            let mut announcement = known.again();
            let pieces = all.chunks(step);
            let output: Vec<u8> = pieces
                .flat_map(|piece| announcement.pass(Stream::Stdout, piece))
                .collect();
            assert_eq!(output, similar, "in steps of {step}");
            assert!(!announcement.is_complete());
            announcement.pass(Stream::Stderr, secret);
            assert!(announcement.is_complete());
            assert_eq!(announcement.rest(Stream::Stdout), b"");
        }
    }

    #[test]
    fn output_that_begins_like_it_is_kept_at_the_end() {
        let mut announcement = Announcement::new();
        assert_eq!(announcement.pass(Stream::Stderr, b"x\x1f"), b"x");
        assert_eq!(announcement.rest(Stream::Stderr), b"\x1f");
        assert_eq!(announcement.rest(Stream::Stderr), b"");
    }
}
