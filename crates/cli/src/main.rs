//! The `proctor` binary: the only crate that prints, reads the environment and parses flags.

mod args;
mod commands;
mod error;
mod host;
mod personality;
mod platform;
mod ui;

use std::process::ExitCode;

use clap::error::ErrorKind;
use proctor_record::VERSION;
use proctor_sandbox::docker;

use crate::{
    args::{Args, Command, ImageCommand, LogCommand, SelfCommand, TaskCommand},
    error::{CliError, Exit},
    personality::{Personality, Purpose, Style},
};

fn main() -> ExitCode {
    // Proctor starts itself as the supervisor of an agent. This must be the first action.
    if let Some(code) = proctor_process::supervise_if_asked() {
        return code;
    }
    // A remote engine starts Proctor in a container that forwards connections.
    let mut args = std::env::args();
    if args.nth(1).as_deref() == Some(docker::MULTIPLEX) {
        let ports: Vec<u16> = args.filter_map(|port| port.parse::<u16>().ok()).collect();
        return docker::multiplex(&ports);
    }
    let personality = Personality::current();
    let Args {
        config,
        mut command,
    } = match parse(personality) {
        Ok(args) => args,
        Err(code) => return code.into(),
    };
    let purpose = Purpose::of(&command);
    let unused = config.and_then(|file| command.take_config(file).err());
    let done = match unused {
        Some(_) => Err(CliError::UnusedConfig),
        None => dispatch(command),
    };
    let exit = match done {
        Ok(exit) => exit,
        Err(error) => {
            let code = personality.code(error.exit(), purpose);
            ui::error(&error);
            let hint = error.hint().map(|hint| personality.in_own_name(&hint));
            let text = error::text(&error);
            ui::json_error(code, &text, hint.as_deref(), &error::faults(&error));
            return code.into();
        }
    };
    personality.code(exit, purpose).into()
}

fn dispatch(command: Command) -> Result<Exit, CliError> {
    match command {
        Command::Run(args) => commands::run::run(&args),
        Command::Ab(args) => commands::ab::ab(&args),
        Command::Experiment(args) => commands::experiment::experiment(&args),
        Command::Ablate(args) => commands::ablate::ablate(&args),
        Command::Bisect(args) => commands::bisect::bisect(&args),
        Command::View(args) => commands::view::view(&args),
        Command::Trend(args) => commands::trend::trend(&args),
        Command::Eval(args) => commands::eval::eval(&args),
        Command::Validate(args) => commands::validate::validate(&args),
        Command::Init(args) => commands::init::init(&args),
        Command::InstallAgents(args) => commands::install_agents::install_agents(&args),
        Command::SuggestTestcase(args) => commands::suggest_testcase::suggest_testcase(&args),
        Command::Config(args) => commands::config::config(&args.command),
        Command::List(args) => commands::list::list(&args),
        Command::Doctor(args) => commands::doctor::doctor(&args),
        Command::Schema(args) => commands::schema::schema(&args),
        Command::Status(args) => commands::status::status(&args),
        Command::Show(args) => commands::show::show(&args),
        Command::Report(args) => commands::report::report(&args),
        Command::Compare(args) => commands::compare::compare(&args),
        Command::Baseline(args) => commands::baseline::baseline(&args),
        Command::Watch(args) => commands::watch::watch(&args),
        Command::Replay(args) => commands::replay::replay(&args),
        Command::Rescore(args) => commands::rescore::rescore(&args),
        Command::Clean(args) => commands::clean::clean(&args),
        Command::Trial(args) => commands::trial::trial(&args),
        Command::Task(args) => match args.command {
            TaskCommand::Check(args) => commands::task::check(&args),
            TaskCommand::Import(args) => commands::import::import(&args),
            TaskCommand::New(args) => commands::new::new(&args),
            TaskCommand::Mine(args) => commands::mine::mine(&args),
            TaskCommand::Refresh(args) => commands::mine::refresh(&args),
            TaskCommand::Lock(args) => commands::lock::lock(&args),
        },
        Command::Log(args) => match args.command {
            LogCommand::Normalize(args) => commands::log::normalize(&args),
            LogCommand::Export(args) => commands::log::export(&args),
        },
        Command::Image(args) => match args.command {
            ImageCommand::Build(args) => commands::image::build(&args),
        },
        Command::Gate(args) => commands::gate::gate(&args),
        Command::Gateway(args) => commands::gateway::gateway(&args),
        Command::Prices(args) => commands::prices::prices(&args),
        Command::SdkServer(args) => commands::sdk_server::sdk_server(&args),
        Command::Installation(args) => match args.command {
            SelfCommand::Check(args) => commands::self_check::self_check(&args),
        },
        Command::Completions(args) => commands::completions::completions(&args),
    }
}

/// Reads the arguments. The error is the exit code; its text is printed.
fn parse(personality: &Personality) -> Result<Args, u8> {
    let parsed = args::parse_from(personality.command(), std::env::args_os());
    parsed.map_err(|error| match (personality.style, error.kind()) {
        (Style::YouBencha, ErrorKind::DisplayVersion) => {
            let _ = ui::print(&format!("{VERSION}\n"));
            0
        }
        (_, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let _ = error.print();
            0
        }
        _ => {
            let _ = error.print();
            let code = personality.code(Exit::Usage, Purpose::Check);
            ui::json_error(code, &args::message(&error), None, &[]);
            code
        }
    })
}
