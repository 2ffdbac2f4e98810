//! The state of containers, queried without bollard, which rejects a whole response for one unknown
//! word; podman has other states.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Address, Engine, EngineError, RUN_LABEL, attach};

/// The maximum size of a response.
const LONGEST: usize = 64 * 1024 * 1024;

/// The timeout of a request.
const ANSWER: Duration = Duration::from_mins(2);

/// A container in a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListedContainer {
    pub(super) id: String,
    pub(super) labels: Option<HashMap<String, String>>,
}

/// A container.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedContainer {
    size_rw: Option<i64>,
    state: Option<ContainerState>,
}

#[derive(Debug, Deserialize)]
struct ContainerState {
    #[serde(rename = "Status")]
    status: Option<String>,
    #[serde(rename = "ExitCode")]
    exit_code: Option<i64>,
    #[serde(rename = "OOMKilled")]
    oom_killed: Option<bool>,
}

/// The version information of podman.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Info {
    rootless: Option<bool>,
}

/// The refusal messages of engines.
#[derive(Deserialize)]
struct Refusal {
    message: String,
}

impl Engine {
    /// The containers of all runs, in any state.
    pub(super) async fn containers_of_runs(&self) -> Result<Vec<ListedContainer>, EngineError> {
        // {"label":["…"]}
        let filters = format!("%7B%22label%22%3A%5B%22{RUN_LABEL}%22%5D%7D");
        let path = format!("/containers/json?all=true&filters={filters}");
        self.ask("list containers", &path).await
    }

    /// Whether a container ended because memory ran out.
    pub(super) async fn is_out_of_memory(&self, id: &str) -> Result<bool, EngineError> {
        let path = format!("/containers/{id}/json");
        let seen: InspectedContainer = self.ask("look at a container", &path).await?;
        Ok(seen.state.and_then(|state| state.oom_killed) == Some(true))
    }

    /// The exit code of a container that has ended and is not about to be restarted.
    pub(super) async fn exit_code(&self, id: &str) -> Result<Option<i64>, EngineError> {
        let path = format!("/containers/{id}/json");
        let seen: InspectedContainer = self.ask("look at a container", &path).await?;
        let state = seen.state;
        let ended =
            state.filter(|it| matches!(it.status.as_deref(), Some("exited" | "dead" | "stopped")));
        Ok(ended.map(|state| state.exit_code.unwrap_or(-1)))
    }

    /// The number of bytes in a container's own layer.
    pub(super) async fn layer_bytes(&self, id: &str) -> Result<u64, EngineError> {
        let path = format!("/containers/{id}/json?size=true");
        let seen: InspectedContainer = self.ask("measure a container", &path).await?;
        Ok(u64::try_from(seen.size_rw.unwrap_or(0)).unwrap_or(0))
    }

    async fn ask<T: DeserializeOwned>(&self, doing: &str, path: &str) -> Result<T, EngineError> {
        ask(self.docker(), self.socket(), doing, path).await
    }
}

/// Whether podman is rootless; other engines do not report it this way.
pub(super) async fn is_rootless(docker: &Docker, socket: &Address) -> Result<bool, EngineError> {
    let info: Info = ask(docker, socket, "look at the engine", "/info").await?;
    Ok(info.rootless == Some(true))
}

async fn ask<T: DeserializeOwned>(
    docker: &Docker,
    socket: &Address,
    doing: &str,
    path: &str,
) -> Result<T, EngineError> {
    let gone = |error: &dyn std::error::Error| EngineError::gone(doing, error.to_string());
    let refused = |status: StatusCode, message| EngineError::Refused {
        doing: doing.to_owned(),
        status: status.as_u16(),
        message,
    };
    let version = docker.client_version();
    let (major, minor) = (version.major_version, version.minor_version);
    let path = format!("/v{major}.{minor}{path}");
    let asked = tokio::time::timeout(ANSWER, get(socket, path)).await;
    let answer = asked.map_err(|error| gone(&error))?;
    let (status, body) = answer.map_err(|error| gone(&*error))?;
    if !status.is_success() {
        let said = serde_json::from_slice(&body).map(|refusal: Refusal| refusal.message);
        let said = said.unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned());
        return Err(refused(status, said));
    }
    serde_json::from_slice(&body).map_err(|error| refused(status, error.to_string()))
}

async fn get(
    socket: &Address,
    path: String,
) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
    let connection = attach::connect(socket).await?;
    let (mut sender, driver) = http1::handshake(TokioIo::new(connection)).await?;
    let request = Request::get(path).header("Host", "docker");
    let request = request.body(Empty::<Bytes>::new())?;
    // The connection ends when all senders are dropped, after the response is read.
    let exchange = async move {
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LONGEST).collect().await?;
        Ok((status, body.to_bytes()))
    };
    let (answered, _) = tokio::join!(exchange, driver);
    answered
}
