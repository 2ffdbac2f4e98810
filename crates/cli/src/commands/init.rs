//! `proctor init`.

use fs_err as fs;

use crate::{
    args::InitArgs,
    error::{CliError, Exit},
    ui,
};

const TEMPLATE: &str = include_str!("../../templates/testcase.yaml");

pub fn init(args: &InitArgs) -> Result<Exit, CliError> {
    if args.path.exists() && !args.force {
        return Err(CliError::Exists {
            path: args.path.clone(),
        });
    }
    if let Some(folder) = args
        .path
        .parent()
        .filter(|folder| !folder.as_str().is_empty())
    {
        fs::create_dir_all(folder)?;
    }
    fs::write(&args.path, TEMPLATE)?;
    ui::print(&format!(
        "wrote {path}; run it with: proctor run -c {path}\n",
        path = args.path
    ))?;
    Ok(Exit::Success)
}
