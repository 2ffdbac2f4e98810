//! End-to-end tests of the `proctor` binary, one program for all of them. Agents are fakes that
//! play a script, or real CLIs in the `real_*` files. They use `sh`, signals and `/proc`. Portable
//! tests are in `everywhere`.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

#[path = "../attacks/mod.rs"]
mod table;

mod support;

mod accounts;
mod adapter;
mod attacks;
mod change;
mod clusters;
mod config;
mod datasets;
mod definitions;
mod endurance;
mod eval;
mod experiments;
mod export;
mod first_contact;
mod folders;
mod gates;
mod gateway;
mod hooks;
mod install;
mod isolation;
mod iterations;
mod judges;
mod judging;
mod keep_workspace;
mod launch;
mod leaks;
mod mining;
mod normalize;
mod odd_workspaces;
mod process;
mod progress;
mod prompts;
mod real_agents;
mod real_claude;
mod record;
mod remote;
mod reports;
mod screens;
mod scripts;
mod searches;
mod setup;
mod show;
mod suites;
mod swebench;
mod tasks;
mod terminal_bench;
mod thunderdome;
mod thunderdome_adapters;
mod thunderdome_contract;
mod thunderdome_results;
mod unverified;
mod usage;
mod variants;
mod verdicts;
mod viewing;
mod watching;
mod youbencha;
