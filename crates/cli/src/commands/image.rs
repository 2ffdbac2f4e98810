//! `proctor image`: images that have an agent's CLI, from the Dockerfiles that are shipped.

use std::collections::BTreeMap;

use proctor_harness::{
    config::{Execution, SandboxKind},
    sandbox::{Sandbox, docker::BuildSpec},
    suite::SuiteError,
};

use crate::{
    args::{ImageBuildArgs, ShippedImage},
    error::{CliError, Exit},
    host, ui,
};

pub fn build(args: &ImageBuildArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let (name, dockerfile) = match args.name {
        ShippedImage::ClaudeCode => (
            "proctor/claude-code",
            include_str!("../../../../docker/claude-code/Dockerfile"),
        ),
        ShippedImage::Aider => (
            "proctor/aider",
            include_str!("../../../../docker/aider/Dockerfile"),
        ),
    };
    let context = tempfile::tempdir_in(&host.temp)?;
    fs_err::write(context.path().join("Dockerfile"), dockerfile)?;
    fs_err::copy(&host.binary, context.path().join("proctor"))?;
    let spec = BuildSpec {
        context: context.path().to_owned(),
        dockerfile: "Dockerfile".to_owned(),
        images: BTreeMap::new(),
        args: arguments(&args.args)?,
        name: name.to_owned(),
        labels: BTreeMap::new(),
        network: args.network.clone(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let execution = Execution {
        sandbox: SandboxKind::Docker,
        ..Execution::default()
    };
    let image = runtime.block_on(async {
        let sandbox = Sandbox::open(&execution, &host, &host.cwd).await?;
        let Sandbox::Docker(docker) = &sandbox else {
            unreachable!("containers were asked for");
        };
        let show = |line: &str| ui::note(line.trim_end());
        let image = docker.engine.build(&spec, show).await?;
        docker.engine.name(&image, name).await
    });
    image.map_err(|error| CliError::Suite(SuiteError::Sandbox(error)))?;
    ui::print(&format!("{name}:latest\n"))?;
    Ok(Exit::Success)
}

/// `NAME=VALUE`, each.
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
