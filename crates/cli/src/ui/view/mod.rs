//! The live view: the trials of a run on the left, the chosen trial's session on the right. It
//! reads the run's directory, so that it works for a run of this process, from another terminal and
//! for playback.

mod draw;
mod groups;
mod player;
mod screen;
mod session;
mod state;
mod table;
mod text;
mod thread;
mod totals;

pub use player::replay;
pub use screen::is_possible;
pub use text::{clock, line, tame};
pub use thread::{Steering, View};

#[cfg(test)]
mod tests;
