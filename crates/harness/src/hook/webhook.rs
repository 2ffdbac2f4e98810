//! `webhook`: sends the results as JSON to a URL, signed if there is a secret, with retries if the
//! server fails.

use std::{collections::BTreeMap, time::Duration};

use proctor_gateway::{Client, Outgoing, Reply};
use proctor_record::{
    fs::hex,
    record::{HookStatus, PATCH_FILE},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{HookContext, HookResult};
use crate::config::WebhookHook;

/// The maximum number of attempts.
const ATTEMPTS: u32 = 3;
/// The back-off after the first attempt; it doubles each time.
const PAUSE: Duration = Duration::from_millis(500);
/// The maximum size of sent artifacts.
const LARGEST_ARTIFACT: u64 = 1 << 20;
const SIGNATURE: &str = "x-proctor-signature-256";
const BLOCK: usize = 64;

impl WebhookHook {
    pub(super) fn secrets(&self) -> Vec<String> {
        let headers = self.headers.values().cloned();
        headers.chain(self.secret.clone()).collect()
    }

    pub(super) async fn run(&self, context: &HookContext<'_>) -> HookResult {
        let body = match self.body(context) {
            Ok(body) => body,
            Err(message) => return HookResult::new(HookStatus::Failed, message),
        };
        let roots = context.host.env.get("SSL_CERT_FILE").map(Into::into);
        let client = match Client::new(&Vec::from_iter(roots)) {
            Ok(client) => client,
            Err(error) => return HookResult::new(HookStatus::Failed, error.to_string()),
        };
        let attempts = if self.retry_on_failure { ATTEMPTS } else { 1 };
        let timeout = Duration::from_millis(self.timeout_ms);
        let mut attempt = 1;
        loop {
            let sent = tokio::select! {
                sent = client.send(self.outgoing(&body), timeout) => sent,
                () = context.cancel.cancelled() => Err(std::io::Error::other("interrupted")),
            };
            let is_last = attempt == attempts || context.cancel.is_cancelled();
            if is_last || !is_worth_another(&sent) {
                return reported(sent, attempt);
            }
            tokio::time::sleep(PAUSE * 2_u32.pow(attempt - 1)).await;
            attempt += 1;
        }
    }

    fn body(&self, context: &HookContext<'_>) -> Result<Vec<u8>, String> {
        let mut body = serde_json::to_value(context.results).map_err(|error| error.to_string())?;
        if self.include_artifacts {
            let files = context.results.iter();
            let left = files.flat_map(|results| &results.artifacts.evaluator_artifacts);
            let names = left.map(String::as_str).chain([PATCH_FILE]);
            let texts: BTreeMap<&str, String> = names
                .filter_map(|name| {
                    let path = context.artifacts.join(name);
                    let size = path.metadata().ok()?.len();
                    let text = (size <= LARGEST_ARTIFACT).then(|| fs_err::read_to_string(&path));
                    Some((name, text?.ok()?))
                })
                .collect();
            if let Value::Object(body) = &mut body {
                body.insert("artifact_contents".to_owned(), json!(texts));
            }
        }
        serde_json::to_vec(&body).map_err(|error| error.to_string())
    }

    fn outgoing(&self, body: &[u8]) -> Outgoing {
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let own = self.headers.iter();
        headers.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        if let Some(secret) = &self.secret {
            let signature = hex(&hmac(secret.as_bytes(), body));
            headers.push((SIGNATURE.to_owned(), format!("sha256={signature}")));
        }
        Outgoing {
            method: self.method.clone(),
            url: self.url.clone(),
            headers,
            body: body.to_vec().into(),
        }
    }
}

/// Whether a retry may succeed.
fn is_worth_another(sent: &std::io::Result<Reply>) -> bool {
    match sent {
        Err(_) => true,
        Ok(reply) => reply.status == 429 || reply.status >= 500,
    }
}

fn reported(sent: std::io::Result<Reply>, attempts: u32) -> HookResult {
    let mut result = match sent {
        Ok(reply) if (200..300).contains(&reply.status) => HookResult::new(
            HookStatus::Passed,
            format!("the server answered with status {}", reply.status),
        ),
        Ok(reply) => HookResult::new(
            HookStatus::Failed,
            format!("the server answered with status {}", reply.status),
        ),
        Err(error) => HookResult::new(
            HookStatus::Failed,
            format!("cannot reach the server: {error}"),
        ),
    };
    result.attempts = Some(attempts);
    result
}

/// HMAC-SHA256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let keyed = |pad: u8| {
        let mut hash = Sha256::new();
        hash.update(block.map(|byte| byte ^ pad));
        hash
    };
    let inner = keyed(0x36).chain_update(message).finalize();
    keyed(0x5c).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test cases 2 and 6 of RFC 4231.
    #[test]
    fn signature_matches_the_rfc() {
        let check = |key: &[u8], message: &[u8], expect: &str| {
            assert_eq!(hex(&hmac(key, message)), expect);
        };
        check(
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        );
        check(
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        );
    }
}
