//! Reads usage from a response while it is forwarded.

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use proctor_model_api::Wire;

use super::decode::Decoder;
use super::sse::Framer;
use super::summary::ResponseSummary;

/// The length up to which a plain response is kept. Of a longer one the end is kept, which has the usage.
const KEPT: usize = 16 << 20;

/// Meters one response.
pub(crate) struct Meter {
    wire: Wire,
    decoder: Decoder,
    shape: BodyShape,
    summary: ResponseSummary,
    readable: bool,
}

enum BodyShape {
    Events(Framer),
    Plain { parts: Vec<Bytes>, length: usize },
}

/// The result of metering.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) summary: ResponseSummary,
    /// Whether the response was a stream of events.
    pub(crate) stream: bool,
    /// Whether the content encoding is supported.
    pub(crate) readable: bool,
}

impl Meter {
    /// A meter for a response with these headers.
    pub(crate) fn new(wire: Wire, headers: &HeaderMap) -> Self {
        let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let events = kind.is_some_and(|kind| kind.starts_with(b"text/event-stream"));
        Self {
            wire,
            decoder: Decoder::new(headers),
            shape: if events {
                BodyShape::Events(Framer::default())
            } else {
                BodyShape::Plain {
                    parts: Vec::new(),
                    length: 0,
                }
            },
            summary: ResponseSummary::default(),
            readable: true,
        }
    }

    /// Takes the next bytes of the response.
    pub(crate) fn push(&mut self, bytes: &Bytes) {
        let Some(decoded) = self.decoder.push(bytes) else {
            self.readable = false;
            return;
        };
        let (wire, summary) = (self.wire, &mut self.summary);
        match &mut self.shape {
            BodyShape::Events(framer) => {
                framer.push(&decoded, |data| summary.read_event(wire, data));
            }
            BodyShape::Plain { parts, length } => {
                *length += decoded.len();
                parts.push(decoded);
                while *length > KEPT && parts.len() > 1 {
                    *length -= parts.remove(0).len();
                }
            }
        }
    }

    /// Whether a stream has reported its usage and its end.
    pub(crate) fn is_complete(&self) -> bool {
        let stream = matches!(self.shape, BodyShape::Events(_));
        stream && self.summary.finished && self.summary.tokens.is_some()
    }

    /// Finishes metering, also of an interrupted response.
    pub(crate) fn finish(mut self) -> Reading {
        let (wire, summary) = (self.wire, &mut self.summary);
        let stream = match self.shape {
            BodyShape::Events(mut framer) => {
                framer.finish(|data| summary.read_event(wire, data));
                true
            }
            BodyShape::Plain { parts, .. } => {
                match &parts[..] {
                    [] => {}
                    [whole] => summary.read_body(wire, whole),
                    parts => summary.read_body(wire, &parts.concat()),
                }
                false
            }
        };
        Reading {
            summary: self.summary,
            stream,
            readable: self.readable,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use base64::Engine;
    use hyper::header::{CONTENT_ENCODING, HeaderValue};
    use proptest::prelude::*;

    use super::*;
    use crate::metering::Tokens;

    const STREAM: &str = "data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":9}}\n\ndata: {\"type\":\"message_stop\"}\n\n";

    /// `STREAM`, compressed with Brotli.
    const BROTLI: &str = "G78AAIzS1LKsRwjr88kIbEfaPVgQlMmAumCN1gosOn30ZCF34jdRsAlIxWQtKvSGB8mtlq3Iico8o03ABUO0Ka3U+EMuJBWsgtjHl1p69fNk/iDEB9QZR4LtduQLig0=";

    fn read(wire: Wire, encoding: Option<&'static str>, pieces: &[&[u8]]) -> Reading {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        if let Some(encoding) = encoding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        let mut meter = Meter::new(wire, &headers);
        for piece in pieces {
            meter.push(&Bytes::copy_from_slice(piece));
        }
        meter.finish()
    }

    fn packed(encoding: &str) -> Vec<u8> {
        let fast = flate2::Compression::fast();
        match encoding {
            "gzip" => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), fast);
                encoder.write_all(STREAM.as_bytes()).unwrap();
                encoder.finish().unwrap()
            }
            "deflate" => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), fast);
                encoder.write_all(STREAM.as_bytes()).unwrap();
                encoder.finish().unwrap()
            }
            "br" => base64::engine::general_purpose::STANDARD
                .decode(BROTLI)
                .unwrap(),
            "zstd" => ruzstd::encoding::compress_to_vec(
                STREAM.as_bytes(),
                ruzstd::encoding::CompressionLevel::Fastest,
            ),
            other => panic!("{other}"),
        }
    }

    /// A stream of each API, with the same usage.
    const STREAMS: [(Wire, &str); 4] = [
        (Wire::Anthropic, STREAM),
        (
            Wire::OpenAiChat,
            "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"\u{e4}\"}}]}\n\ndata: {\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":9}}\n\ndata: [DONE]\n\n",
        ),
        (
            Wire::OpenAiResponses,
            "event: response.created\r\ndata: {\"type\":\"response.created\",\"response\":{\"model\":\"m\"}}\r\n\r\nevent: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"model\":\"m\",\"usage\":{\"input_tokens\":5,\"output_tokens\":9}}}\r\n\r\n",
        ),
        (
            Wire::Gemini,
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\u{1f980}\"}]}}],\"modelVersion\":\"m\"}\r\n\r\ndata: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"modelVersion\":\"m\",\"usageMetadata\":{\"promptTokenCount\":5,\"candidatesTokenCount\":9}}\r\n\r\n",
        ),
    ];

    #[test]
    fn metering_does_not_depend_on_chunk_boundaries() {
        for (wire, stream) in STREAMS {
            let bytes = stream.as_bytes();
            for at in 0..=bytes.len() {
                let summary = read(wire, None, &[&bytes[..at], &bytes[at..]]).summary;
                let tokens = summary.tokens.unwrap_or_default();
                let found = (tokens.input, tokens.output, summary.finished);
                assert_eq!(found, (5, 9, true), "{wire:?} split at {at}");
                assert_eq!(
                    summary.model.as_deref(),
                    Some("m"),
                    "{wire:?} split at {at}"
                );
            }
        }
    }

    #[test]
    fn compressed_streams_are_metered_byte_by_byte() {
        for encoding in ["gzip", "deflate", "br", "zstd"] {
            let packed = packed(encoding);
            let bytes: Vec<&[u8]> = packed.chunks(1).collect();
            for pieces in [&[&packed[..]][..], &bytes[..]] {
                let reading = read(Wire::Anthropic, Some(encoding), pieces);
                assert!(reading.readable && reading.summary.finished, "{encoding}");
                let tokens = Tokens {
                    input: 5,
                    output: 9,
                    ..Tokens::default()
                };
                assert_eq!(reading.summary.tokens, Some(tokens), "{encoding}");
            }
        }
    }

    #[test]
    fn unknown_or_broken_encoding_is_reported() {
        let unknown = read(Wire::Anthropic, Some("rot13"), &[STREAM.as_bytes()]);
        assert_eq!((unknown.readable, unknown.summary.tokens), (false, None));
        let broken = read(Wire::Anthropic, Some("gzip"), &[b"not gzip at all"]);
        assert!(!broken.readable);
    }

    /// A stream of each API with this usage: fresh input, cached input, output, reasoning.
    fn stream(wire: Wire, [fresh, cached, output, reasoning]: [u64; 4]) -> String {
        let (prompt, completion) = (fresh + cached, output + reasoning);
        match wire {
            Wire::Anthropic => format!(
                "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\"usage\":{{\"input_tokens\":{fresh},\"cache_read_input_tokens\":{cached},\"output_tokens\":1}}}}}}\n\nevent: message_delta\ndata: {{\"type\":\"message_delta\",\"usage\":{{\"output_tokens\":{completion},\"output_tokens_details\":{{\"thinking_tokens\":{reasoning}}}}}}}\n\n"
            ),
            Wire::OpenAiChat => format!(
                "data: {{\"model\":\"m\",\"usage\":null}}\n\ndata: {{\"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion},\"prompt_tokens_details\":{{\"cached_tokens\":{cached}}},\"completion_tokens_details\":{{\"reasoning_tokens\":{reasoning}}}}}}}\n\ndata: [DONE]\n\n"
            ),
            Wire::OpenAiResponses => format!(
                "event: x\ndata: {{\"type\":\"response.completed\",\"response\":{{\"usage\":{{\"input_tokens\":{prompt},\"output_tokens\":{completion},\"input_tokens_details\":{{\"cached_tokens\":{cached}}},\"output_tokens_details\":{{\"reasoning_tokens\":{reasoning}}}}}}}}}\n\n"
            ),
            Wire::Gemini => format!(
                "data: {{\"usageMetadata\":{{\"promptTokenCount\":{prompt},\"cachedContentTokenCount\":{cached},\"candidatesTokenCount\":{output},\"thoughtsTokenCount\":{reasoning}}}}}\r\n\r\n"
            ),
        }
    }

    proptest! {
        #[test]
        fn usage_is_exact_for_every_api_and_chunking(
            counts in proptest::array::uniform4(0_u64..1_000_000),
            size in 1_usize..40,
        ) {
            let [fresh, cached, output, reasoning] = counts;
            let expected = Tokens {
                input: fresh,
                output: output + reasoning,
                cache_read: cached,
                reasoning,
                ..Tokens::default()
            };
            for wire in [Wire::Anthropic, Wire::OpenAiChat, Wire::OpenAiResponses, Wire::Gemini] {
                let stream = stream(wire, counts);
                let pieces: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
                prop_assert_eq!(read(wire, None, &pieces).summary.tokens, Some(expected));
                let plain: Vec<&[u8]> = vec![stream.as_bytes()];
                prop_assert_eq!(read(wire, None, &plain).summary.tokens, Some(expected));
            }
        }

        #[test]
        fn no_response_causes_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let text = [b"{\"usage\":", &bytes[..]].concat();
            for wire in [Wire::Anthropic, Wire::OpenAiChat, Wire::OpenAiResponses, Wire::Gemini] {
                let mut summary = ResponseSummary::default();
                summary.read_event(wire, &text);
                summary.read_body(wire, &text);
            }
        }
    }
}
