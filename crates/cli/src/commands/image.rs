//! `proctor image`: builds images with an agent's CLI from the included Dockerfiles.

use std::collections::BTreeMap;

use proctor_harness::run::RunError;
use proctor_sandbox::{
    Sandbox, SandboxKind, SandboxSettings,
    docker::{self, BuildSpec, SHIPPED},
    host::Host,
};

use crate::{
    args::{ImageBuildArgs, ShippedImage},
    error::{CliError, Exit},
    host, ui,
};

pub fn build(args: &ImageBuildArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let (shipped, dockerfile) = match args.name {
        ShippedImage::ClaudeCode => (
            SHIPPED[0],
            include_str!("../../../../docker/claude-code/Dockerfile"),
        ),
        ShippedImage::Aider => (
            SHIPPED[1],
            include_str!("../../../../docker/aider/Dockerfile"),
        ),
    };
    let name = format!("proctor/{shipped}");
    let context = tempfile::tempdir_in(&host.temp)?;
    fs_err::write(context.path().join("Dockerfile"), dockerfile)?;
    fs_err::copy(&host.binary, context.path().join("proctor"))?;
    let spec = BuildSpec {
        context: context.path().to_owned(),
        dockerfile: "Dockerfile".to_owned(),
        images: BTreeMap::new(),
        args: arguments(&args.args)?,
        target: None,
        name: name.clone(),
        labels: BTreeMap::new(),
        network: args.network.clone(),
    };
    let mut tags = args.tags.clone();
    if tags.is_empty() {
        tags.push(name);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(build_as(&host, &spec, &tags, shipped))?;
    for tag in &tags {
        let (repo, tag) = docker::with_tag(tag);
        ui::print(&format!("{repo}:{tag}\n"))?;
    }
    Ok(Exit::Success)
}

/// Builds an image and tags it.
async fn build_as(
    host: &Host,
    spec: &BuildSpec,
    tags: &[String],
    shipped: &'static str,
) -> Result<(), CliError> {
    let settings = SandboxSettings {
        kind: SandboxKind::Docker,
        ..SandboxSettings::default()
    };
    let failed = |error| CliError::Run(RunError::Sandbox(error));
    let sandbox = Sandbox::open(&settings, host, &host.cwd).await;
    let sandbox = sandbox.map_err(failed)?;
    let Sandbox::Docker(docker) = &sandbox else {
        unreachable!("containers were asked for");
    };
    let show = |line: &str| ui::note(line.trim_end());
    let image = match docker.engine.build(spec, show).await {
        Ok(image) => image,
        Err(source) => {
            // The error text differs between engines.
            let missing = spec.missing_bases(&docker.engine).await.unwrap_or_default();
            return Err(match missing.into_iter().next() {
                Some(base) => CliError::NoBaseImage {
                    base,
                    shipped,
                    source,
                },
                None => failed(source),
            });
        }
    };
    for tag in tags {
        docker.engine.name(&image, tag).await.map_err(failed)?;
    }
    Ok(())
}

/// Parses `NAME=VALUE` arguments.
fn arguments(written: &[String]) -> Result<BTreeMap<String, String>, CliError> {
    let pair = |text: &String| {
        let (name, value) = text.split_once('=')?;
        (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
    };
    written
        .iter()
        .map(|text| pair(text).ok_or_else(|| CliError::NotAnArgument { text: text.clone() }))
        .collect()
}
