//! Tests of policies on requests.

use hyper::{HeaderMap, Method};

use super::*;
use proctor_model_api::route;

fn run(
    policy: &RequestPolicy,
    path: &str,
    body: &str,
) -> Result<(String, CheckedRequest), Forbidden> {
    let route = route(&Method::POST, path, &HeaderMap::new()).unwrap();
    let asked = policy.apply(&route, Bytes::copy_from_slice(body.as_bytes()))?;
    Ok((String::from_utf8(asked.body.to_vec()).unwrap(), asked))
}

#[test]
fn calls_that_never_report_their_usage_are_refused() {
    let refused = |body: &str| run(&RequestPolicy::default(), "/v1/responses", body).is_err();
    assert!(refused(r#"{"model":"m","background":true}"#));
    assert!(refused(r#"{"model":"m","b\u0061ckground": true }"#));
    assert!(refused(r#"{"model":"m","background":1}"#));
    // Providers also read other encodings, in which nothing would be found.
    assert!(refused("\u{feff}{\"model\":\"m\",\"background\":true}"));
    assert!(refused("\u{1f}\u{8b}\u{8}"));
    assert!(!refused(r#"{"model":"m","background":false}"#));
    assert!(!refused(r#"{"model":"m","background":null}"#));
}

#[test]
fn members_that_occur_twice_are_refused() {
    let gemini = "/v1beta/models/g:generateContent";
    for (path, body) in [
        ("/v1/messages", r#"{"model":"a","model":"b"}"#),
        (
            gemini,
            r#"{"generationConfig":{},"generation_config":{"candidateCount":8}}"#,
        ),
        (
            gemini,
            r#"{"generationConfig":{"candidateCount":1,"candidate_count":8}}"#,
        ),
        (
            gemini,
            r#"{"generationConfig":{"candidateCount":1,"candidateCount":8}}"#,
        ),
    ] {
        let refused = run(&RequestPolicy::default(), path, body).unwrap_err();
        assert!(refused.message.contains("twice"), "{body}");
    }
}

#[test]
fn choices_and_tiers_with_other_prices_are_noted() {
    for (path, body, choices, has_other_price) in [
        ("/v1/chat/completions", r#"{"n":8}"#, Some(8), false),
        (
            "/v1beta/models/g:generateContent",
            r#"{"generationConfig":{"candidateCount":4}}"#,
            Some(4),
            false,
        ),
        (
            "/v1/responses",
            r#"{"service_tier":"priority"}"#,
            None,
            true,
        ),
        ("/v1/responses", r#"{"service_tier":"auto"}"#, None, false),
        ("/v1/messages", r#"{"speed":"fast"}"#, None, true),
        (
            "/v1/messages",
            r#"{"service_tier":"standard_only"}"#,
            None,
            false,
        ),
    ] {
        let (_, asked) = run(&RequestPolicy::default(), path, body).unwrap();
        assert_eq!(asked.choices, choices, "{body}");
        assert_eq!(asked.has_other_price, has_other_price, "{body}");
    }
}

#[test]
fn requests_are_unchanged_without_a_policy() {
    let body = "{ \"model\" :\"m\", \"messages\":[ ], \"max_tokens\": 7 }";
    let (sent, asked) = run(&RequestPolicy::default(), "/v1/messages", body).unwrap();
    assert_eq!(sent, body);
    assert_eq!(
        (asked.model.as_deref(), asked.max_tokens),
        (Some("m"), Some(7))
    );
    assert!(asked.notes.is_empty());
}

#[test]
fn temperature_and_length_are_set_and_clamped_for_every_api() {
    let policy = RequestPolicy {
        temperature: Some(NumberSetting::Set(0.5)),
        max_tokens: Some(NumberSetting::AtMost(100)),
        ..RequestPolicy::default()
    };
    let cases = [
        (
            "/v1/messages",
            r#"{"model":"m","max_tokens":900,"temperature":1}"#,
            r#"{"model":"m","max_tokens":100,"temperature":0.5}"#,
        ),
        (
            "/v1/messages",
            r#"{"max_tokens":9,"temperature":0.5}"#,
            r#"{"max_tokens":9,"temperature":0.5}"#,
        ),
        (
            "/v1/chat/completions",
            r#"{"max_tokens":900,"temperature":0.5}"#,
            r#"{"max_tokens":100,"temperature":0.5}"#,
        ),
        (
            "/v1/responses",
            r#"{"temperature":0.5,"max_output_tokens":900}"#,
            r#"{"temperature":0.5,"max_output_tokens":100}"#,
        ),
        (
            "/v1beta/models/g:generateContent",
            r#"{"generationConfig":{"temperature":2,"maxOutputTokens":5}}"#,
            r#"{"generationConfig":{"temperature":0.5,"maxOutputTokens":5}}"#,
        ),
    ];
    for (path, body, expected) in cases {
        assert_eq!(run(&policy, path, body).unwrap().0, expected, "{path}");
    }
    let (sent, asked) = run(&policy, "/v1/messages", r#"{"model":"m"}"#).unwrap();
    let sent: serde_json::Value = serde_json::from_str(&sent).unwrap();
    assert_eq!(
        (&sent["max_tokens"], &sent["temperature"]),
        (&100.into(), &0.5.into())
    );
    assert_eq!(
        asked.notes,
        ["max_tokens: unset -> 100", "temperature: unset -> 0.5"]
    );
}

#[test]
fn gemini_config_is_added_if_missing() {
    let policy = RequestPolicy {
        temperature: Some(NumberSetting::Set(0.0)),
        ..RequestPolicy::default()
    };
    let (sent, _) = run(&policy, "/models/g:generateContent", r#"{"contents":[]}"#).unwrap();
    assert_eq!(
        sent,
        r#"{"generationConfig":{"temperature":0},"contents":[]}"#
    );
}

#[test]
fn model_is_renamed_in_body_or_path() {
    let policy = RequestPolicy {
        rename: vec![("old*".to_owned(), "new".to_owned())],
        models: vec!["new".to_owned()],
        ..RequestPolicy::default()
    };
    let (sent, asked) = run(&policy, "/v1/messages", r#"{"model":"old-1"}"#).unwrap();
    assert_eq!(sent, r#"{"model":"new"}"#);
    assert_eq!(asked.effective_model(), Some("new"));
    let (_, asked) = run(&policy, "/models/old:generateContent", "{}").unwrap();
    assert_eq!(asked.path, "/v1beta/models/new:generateContent");
}

#[test]
fn forbidden_model_is_refused_in_every_form() {
    let policy = RequestPolicy {
        models: vec!["good*".to_owned()],
        ..RequestPolicy::default()
    };
    assert!(run(&policy, "/v1/messages", r#"{"model":"good-1"}"#).is_ok());
    for body in [
        r#"{"model":"bad"}"#,
        r#"{"mod\u0065l":"bad"}"#,
        r#"{"model":"bad","model":"good"}"#,
        r#"{"messages":[]}"#,
        "[]",
    ] {
        assert!(run(&policy, "/v1/messages", body).is_err(), "{body}");
    }
    assert_eq!(
        run(&policy, "/models/bad:generateContent", "{}")
            .unwrap_err()
            .status,
        403
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn server_tools_are_refused_without_network() {
    let closed = RequestPolicy {
        server_tools: ServerTools::Refuse,
        ..RequestPolicy::default()
    };
    let cases = [
        (
            "/v1/messages",
            r#"{"tools":[{"type":"web_search_20250305"}]}"#,
            "web_search_20250305",
        ),
        (
            "/v1/messages",
            r#"{"mcp_servers":[{"url":"https://x"}]}"#,
            "mcp_servers",
        ),
        (
            "/v1/messages",
            r#"{"tools":[],"tools":[{"type":"web_fetch_1"}]}"#,
            "twice",
        ),
        (
            "/v1/chat/completions",
            r#"{"web_search_options":{}}"#,
            "web_search_options",
        ),
        (
            "/v1/chat/completions",
            r#"{"model":"gpt-4o-search-preview"}"#,
            "gpt-4o-search-preview",
        ),
        (
            "/v1/chat/completions",
            r#"{"model":"m:online","messages":[]}"#,
            "m:online",
        ),
        (
            "/v1/chat/completions",
            r#"{"plugins":[{"id":"web"}]}"#,
            "plugins",
        ),
        (
            "/v1/chat/completions",
            r#"{"search_parameters":{"mode":"on"}}"#,
            "search_parameters",
        ),
        (
            "/v1/chat/completions",
            r#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]}"#,
            "image_url",
        ),
        (
            "/v1/messages/count_tokens",
            r#"{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://x"}}]}]}"#,
            "source",
        ),
        (
            "/v1/responses",
            r#"{"input":[{"content":[{"type":"input_file","file_url":"https://x"}]}]}"#,
            "file_url",
        ),
        ("/v1/responses", r#"{"prompt":{"id":"pmpt_1"}}"#, "prompt"),
        (
            "/models/g:generateContent",
            r#"{"contents":[{"parts":[{"fileData":{"fileUri":"https://x"}}]}]}"#,
            "fileData",
        ),
        ("/v1/responses", r#"{"tools":[{"type":"mcp"}]}"#, "mcp"),
        (
            "/models/g:generateContent",
            r#"{"tools":[{"googleSearch":{}}]}"#,
            "googleSearch",
        ),
    ];
    for (path, body, name) in cases {
        let refused = run(&closed, path, body).unwrap_err();
        assert_eq!(refused.status, 400, "{body}");
        assert!(refused.message.contains(name), "{}", refused.message);
    }
    for (path, body, _) in &cases {
        let open = run(&RequestPolicy::default(), path, body);
        assert!(open.is_ok() || body.contains("],\"tools\""), "{body}");
    }
    for (path, body) in [
        (
            "/v1/messages",
            r#"{"tools":[{"name":"Bash"}],"mcp_servers":[]}"#,
        ),
        (
            "/v1/messages/count_tokens",
            r#"{"tools":[{"type":"web_search_1"}]}"#,
        ),
        (
            "/v1/responses",
            r#"{"tools":[{"type":"function","name":"f"}]}"#,
        ),
    ] {
        assert_eq!(run(&closed, path, body).unwrap().0, body);
    }
    let offered = r#"{"tools":[{"type":"function"},{"type":"web_search","external_web_access":false}],"model":"m"}"#;
    let (sent, asked) = run(&closed, "/v1/responses", offered).unwrap();
    assert_eq!(sent, r#"{"tools":[{"type":"function"}],"model":"m"}"#);
    assert_eq!(asked.notes, ["tools: web_search removed"]);
}

#[test]
fn usage_is_requested_for_chat_streams() {
    let plain = RequestPolicy::default();
    let path = "/v1/chat/completions";
    let (sent, asked) = run(&plain, path, r#"{"stream":true}"#).unwrap();
    assert_eq!(
        sent,
        r#"{"stream_options":{"include_usage":true},"stream":true}"#
    );
    assert_eq!(asked.notes, ["stream_options.include_usage: added"]);
    let off = r#"{"stream":true,"stream_options":{"include_usage":false}}"#;
    assert_eq!(
        run(&plain, path, off).unwrap().0,
        off.replace("false", "true")
    );
    for same in [r#"{"stream":false}"#, &off.replace("false", "true")] {
        assert_eq!(run(&plain, path, same).unwrap().0, same);
    }
}
