//! The CLIs of a trial's agents.

use proctor_record::{
    outcome::Outcome,
    record::cli::{Cli, Registry},
};
use proctor_sandbox::{
    availability,
    docker::Image,
    packages::{self, Package, PythonVersion},
};

use super::{AgentTools, Contestant, Trial, chain, prepare::NotRun};

impl Trial<'_> {
    /// The CLI of a contestant, or the outcome with a hint for its installation.
    pub(super) async fn tools_of(
        &mut self,
        contestant: Contestant,
        image: Option<&Image>,
    ) -> Result<AgentTools, NotRun> {
        let plan = self.plan_of(contestant);
        let Some(cli) = plan.adapter.cli() else {
            return Ok(AgentTools::default());
        };
        let not_installed = |message| NotRun::Infrastructure {
            outcome: Outcome::NotInstalled,
            code: cli.not_found_code,
            message,
        };
        let host = self.context.host;
        let mut package = None;
        if let Some(wanted) = plan.package {
            let python = self.python_for(wanted, image).await?;
            let target = match image {
                None => packages::Target::Here,
                Some(_) => packages::Target::Containers,
            };
            let installed = wanted.install(host, python, target).await;
            package = Some(installed.map_err(|error| not_installed(chain(&error)))?);
        }
        let installed = match (image, &package) {
            (None, None) => availability::installed(cli, host).await?,
            (None, Some(own)) => {
                availability::installed_at(cli, own.folder.join(&own.program), host).await?
            }
            (Some(image), _) => {
                self.installed_in(image, cli, contestant, package.as_ref())
                    .await?
            }
        };
        let Some(installed) = installed else {
            let message = where_it_is_not(cli, image, plan.package);
            return Err(not_installed(message));
        };
        if contestant == Contestant::Primary {
            self.record.agent.version.clone_from(&installed.version);
            let definition = self.record.agent.definition.as_mut();
            if let Some((definition, version)) = definition.zip(installed.version.as_ref()) {
                definition.find("version", version);
            }
            self.record.agent.program = Some(installed.path.to_string());
        }
        Ok(AgentTools {
            cli: Some(installed),
            package,
        })
    }

    /// The Python version for a package: the image's, or this machine's. `None` if the package does
    /// not need Python or there is none.
    async fn python_for(
        &self,
        package: &Package,
        image: Option<&Image>,
    ) -> Result<Option<PythonVersion>, NotRun> {
        if matches!(package.registry, Registry::Npm(_)) {
            return Ok(None);
        }
        match image {
            None => Ok(PythonVersion::here(self.context.host).await),
            Some(image) => self.python_in(image).await,
        }
    }
}

/// The hint for a missing CLI.
fn where_it_is_not(cli: &Cli, image: Option<&Image>, package: Option<&Package>) -> String {
    let program = cli.program;
    match (image, package) {
        (None, _) => cli.not_installed(),
        (Some(_), Some(package)) => {
            let needs = match package.registry {
                Registry::Npm(_) => "a shell and the C library of GNU",
                Registry::PyPi { .. } => "a shell, the C library of GNU and all of Python",
            };
            format!("`{program}` of {package} does not run in the image; it requires {needs}")
        }
        (Some(_), None) => {
            format!(
                "`{program}` is not in the image; name a `version` to have it installed, or make an image that has it (`proctor image build`)"
            )
        }
    }
}
