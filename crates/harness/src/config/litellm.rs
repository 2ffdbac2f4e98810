//! `kind: litellm` of a suite's `gateway`: LiteLLM between Proctor's gateway and the providers.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{Fault, Node, Value};
use schemars::JsonSchema;
use serde::Deserialize;

use super::execution::GatewaySettings;

/// Which gateway leads to the models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum GatewayKind {
    /// Proctor's own.
    #[default]
    Proctor,
    /// LiteLLM behind it.
    LiteLlm,
}

/// Where LiteLLM is, or how it is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiteLlmSettings {
    /// The one that runs already; else one is started for the run.
    pub url: Option<String>,
    /// The program to start: `litellm` on the PATH unless given.
    pub program: Option<Utf8PathBuf>,
    /// The port of the one that is started: a free one unless given.
    pub port: Option<u16>,
}

/// The settings that only LiteLLM has.
pub(super) fn read(
    kind: GatewayKind,
    node: &Node,
    folder: &Utf8Path,
) -> Result<Option<LiteLlmSettings>, Fault> {
    if kind == GatewayKind::Proctor {
        let stray = ["url", "program", "port"];
        let stray = stray.into_iter().find(|key| node.get(key).is_some());
        return match stray {
            None => Ok(None),
            Some(key) => {
                let message = format!("`{key}` does nothing without `kind: litellm`");
                Err(Fault::new(node.key_span_of(key), message))
            }
        };
    }
    let text = |key: &str| node.get(key).and_then(Node::as_str).map(str::to_owned);
    let settings = LiteLlmSettings {
        url: text("url"),
        program: text("program").map(|program| folder.join(program)),
        port: match node.get("port").map(|node| &node.value) {
            Some(Value::Int(port)) => u16::try_from(*port).ok(),
            _ => None,
        },
    };
    check(&settings, node)?;
    Ok(Some(settings))
}

fn check(settings: &LiteLlmSettings, node: &Node) -> Result<(), Fault> {
    for key in ["script", "replay"] {
        if node.get(key).is_some() {
            let message = format!("with `{key}` no model is asked, and LiteLLM would do nothing");
            return Err(Fault::new(node.key_span_of(key), message).with_hint("keep one of them"));
        }
    }
    if let Some(url) = &settings.url {
        if !url.starts_with("http://") {
            let message = "`url` begins with http://";
            return Err(node.fault("url", message));
        }
        for key in ["program", "port"] {
            if node.get(key).is_some() {
                let message = format!("`{key}` does nothing with `url`: nothing is started");
                return Err(Fault::new(node.key_span_of(key), message));
            }
        }
    }
    Ok(())
}

/// The alternative.
pub(super) const HINT: &str =
    "leave the script out, or use Proctor's own gateway (`kind: proctor`)";

impl GatewaySettings {
    /// Why these settings cannot be: LiteLLM with answers from elsewhere.
    pub fn conflict(&self) -> Option<&'static str> {
        self.litellm.as_ref()?;
        let is_answered = self.script.is_some();
        is_answered.then_some("with a script no model is asked, and LiteLLM would do nothing")
    }
}
