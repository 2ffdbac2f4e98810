//! The compose file of a Harbor task, with Harbor's variables.

use std::{collections::BTreeMap, sync::Arc};

use camino::Utf8Path;
use proctor_document::ConfigError;
use proctor_record::fs::named;

use crate::workspace::{
    Environment, Image,
    compose::{self, ComposeContext, compose_file},
};

/// The service of the agent.
const MAIN: &str = "main";
/// The value of `MAIN_IMAGE_NAME`.
const MAIN_IMAGE: &str = "proctor-main";

/// Adds the compose file of `environment/` to the environment, if there is one.
pub(super) fn add_to(environment: &mut Environment, folder: &Utf8Path) -> Result<(), ConfigError> {
    let place = folder.join("environment");
    let Some(file) = compose_file(&place) else {
        return Ok(());
    };
    let file = place.join(file);
    // A path in a variable must not depend on the folder that it is used in.
    let place = named::absolute(&place);
    let context = ComposeContext {
        main: MAIN,
        task: folder.to_owned(),
        variables: variables(environment, &place),
        folder: place.clone(),
        image: environment.image.clone(),
        image_name: MAIN_IMAGE.to_owned(),
    };
    let compose = compose::read(&file, &context)?;
    environment.image = compose.image.clone();
    environment.compose = Some(Arc::new(compose));
    Ok(())
}

/// The variables that Harbor sets. Those of this machine are not passed: they may be secrets.
fn variables(environment: &Environment, place: &Utf8Path) -> BTreeMap<String, String> {
    let mut variables = environment.env.clone();
    let mut set = |name: &str, value: String| variables.insert(name.to_owned(), value);
    set("MAIN_IMAGE_NAME", MAIN_IMAGE.to_owned());
    set("CONTEXT_DIR", place.to_string());
    set("TEST_DIR", "/tests".to_owned());
    for (name, folder) in [
        ("VERIFIER_LOGS", "verifier"),
        ("AGENT_LOGS", "agent"),
        ("ARTIFACTS", "artifacts"),
    ] {
        set(&format!("HOST_{name}_PATH"), format!("/logs/{folder}"));
        set(&format!("ENV_{name}_PATH"), format!("/logs/{folder}"));
    }
    if let Image::Named(name) = &environment.image {
        set("PREBUILT_IMAGE_NAME", name.clone());
    }
    if let Some(cpus) = environment.cpus {
        set("CPUS", cpus.to_string());
    }
    if let Some(memory) = environment.memory_mb {
        set("MEMORY", format!("{memory}M"));
    }
    variables
}
