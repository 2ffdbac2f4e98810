//! `proctor task import`.

use proctor_document::ConfigError;
use proctor_harness::task::import;

use super::planning;
use crate::{
    args::ImportArgs,
    error::{CliError, Exit},
    host, ui,
};

pub fn import(args: &ImportArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let found = import::find(&host.cwd.join(&args.source));
    let found = found.map_err(|error| CliError::Config(vec![error]))?;
    let found = planning::selected(&args.selection, found, |task, matches| matches(&task.name))?;
    let out = host.cwd.join(&args.out);
    if out.exists()
        && !out
            .read_dir_utf8()
            .is_ok_and(|mut entries| entries.next().is_none())
    {
        return Err(CliError::input(
            format!("{} is not an empty directory", args.out),
            "choose another directory with --out",
        ));
    }
    fs_err::create_dir_all(&out)?;
    let (mut written, mut refused) = (0, 0);
    for task in &found {
        match task.write(&out, &host.env, &settings) {
            Ok(imported) => {
                written += 1;
                ui::print(&format!("{}: written\n", task.name))?;
                for note in imported.notes {
                    ui::print(&format!("  note: {note}\n"))?;
                }
            }
            Err(error) => {
                refused += 1;
                ui::print(&format!("{}: refused: {}\n", task.name, reason(&error)))?;
            }
        }
    }
    let next = match written {
        0 => String::new(),
        _ => format!("; check them with: proctor task check {}", args.out),
    };
    let written = ui::counted(written, "task");
    ui::print(&format!("wrote {written}, refused {refused}{next}\n"))?;
    Ok(if refused == 0 {
        Exit::Success
    } else {
        Exit::Usage
    })
}

/// The faults of a task in one line.
fn reason(error: &ConfigError) -> String {
    let faults = error.faults.iter().map(|fault| fault.message.as_str());
    faults.collect::<Vec<_>>().join("; ")
}
