//! The current context of the `docker` program: Docker Desktop and similar products store their
//! engine's address there.

use std::path::Path;

use proctor_record::fs::hex;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The address of the current engine in the directory of `docker`; `None` if there is none. `named`
/// selects a context.
pub(super) fn engine_in_use(folder: &Path, named: Option<&str>) -> Option<String> {
    let read = |path: &Path| -> Option<Value> {
        let bytes = std::fs::read(path).ok()?;
        serde_json::from_slice(&bytes).ok()
    };
    let name = if let Some(name) = named {
        name.to_owned()
    } else {
        let config = read(&folder.join("config.json"))?;
        config.get("currentContext")?.as_str()?.to_owned()
    };
    let folder_name = hex(&Sha256::digest(name.as_bytes()));
    let about = folder.join("contexts/meta").join(folder_name);
    let about = read(&about.join("meta.json"))?;
    let host = about.pointer("/Endpoints/docker/Host")?.as_str()?;
    (!host.is_empty()).then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_of_the_current_context_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        assert_eq!(engine_in_use(folder, None), None);
        let config = r#"{"currentContext": "desktop-linux"}"#;
        std::fs::write(folder.join("config.json"), config).unwrap();
        assert_eq!(engine_in_use(folder, None), None, "the context was removed");
        // The name of `docker` for the directory of this context.
        let name = "fe9c6bd7a66301f49ca9b6a70b217107cd1284598bfc254700c989b916da791e";
        let about = folder.join("contexts/meta").join(name);
        std::fs::create_dir_all(&about).unwrap();
        let host = "unix:///home/me/.docker/run/docker.sock";
        let meta =
            format!(r#"{{"Name":"desktop-linux","Endpoints":{{"docker":{{"Host":"{host}"}}}}}}"#);
        std::fs::write(about.join("meta.json"), meta).unwrap();
        assert_eq!(engine_in_use(folder, None).as_deref(), Some(host));
        assert_eq!(
            engine_in_use(folder, Some("desktop-linux")).as_deref(),
            Some(host)
        );
        assert_eq!(engine_in_use(folder, Some("default")), None);
    }
}
