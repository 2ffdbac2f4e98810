//! The commands, one file each.

pub mod ab;
pub mod ablate;
pub mod baseline;
pub mod bisect;
pub mod clean;
pub mod compare;
pub mod completions;
pub mod config;
pub mod doctor;
pub mod eval;
pub mod experiment;
pub mod gate;
pub mod gateway;
mod github;
pub mod image;
pub mod import;
pub mod init;
mod inputs;
pub mod install_agents;
mod interrupt;
pub mod list;
pub mod lock;
pub mod log;
pub mod mine;
mod models;
pub mod new;
mod planning;
pub mod prices;
pub mod replay;
pub mod report;
pub mod rescore;
pub mod run;
mod runs;
pub mod schema;
pub mod sdk_server;
pub mod self_check;
pub mod show;
pub mod status;
pub mod suggest_testcase;
pub mod task;
pub mod trend;
pub mod trial;
pub mod validate;
pub mod view;
pub mod watch;

use self::inputs::{
    default_suite, files, is_dataset, load, load_folders, notes, pinned, resolve, settings,
    show_refused, wanted_progress,
};
use self::runs::{
    all_runs, find_run, named_runs, one_run, places, project_dir, results_places, run_in, runs_dir,
    sort_by_start,
};
