//! `kind: litellm` of a suite's `gateway`: LiteLLM between Proctor's gateway and the providers.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{Fault, Node, Value};
use schemars::JsonSchema;
use serde::Deserialize;

use super::execution::GatewaySettings;

/// The gateway that connects to the providers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum GatewayKind {
    /// Proctor's own gateway.
    #[default]
    Proctor,
    /// Proctor's gateway, with LiteLLM behind it.
    LiteLlm,
}

/// The location of LiteLLM, or how to start it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiteLlmSettings {
    /// The URL of a running LiteLLM. Default: one is started for the run.
    pub url: Option<String>,
    /// The program to start. Default: `litellm` on the PATH.
    pub program: Option<Utf8PathBuf>,
    /// The port of the LiteLLM that is started. Default: a free port.
    pub port: Option<u16>,
}

/// Reads the settings of LiteLLM.
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
                let message = format!("`{key}` has no effect without `kind: litellm`");
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
            let message =
                format!("`kind: litellm` has no effect with `{key}`: no provider is used");
            return Err(Fault::new(node.key_span_of(key), message).with_hint("remove one of them"));
        }
    }
    if let Some(url) = &settings.url {
        if !url.starts_with("http://") {
            let message = "`url` must start with http://";
            return Err(node.fault("url", message));
        }
        for key in ["program", "port"] {
            if node.get(key).is_some() {
                let message = format!("`{key}` has no effect with `url`: no program is started");
                return Err(Fault::new(node.key_span_of(key), message));
            }
        }
    }
    Ok(())
}

pub(super) const HINT: &str = "remove the script, or use Proctor's own gateway (`kind: proctor`)";

impl GatewaySettings {
    /// The conflict between LiteLLM and answers from another source.
    pub fn conflict(&self) -> Option<&'static str> {
        self.litellm.as_ref()?;
        let is_answered = self.script.is_some();
        is_answered.then_some("`kind: litellm` has no effect with a script: no provider is used")
    }
}
