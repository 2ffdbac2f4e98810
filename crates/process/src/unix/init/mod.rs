//! The first process of a container: it runs one [`Job`](crate::Job), relays connections, reaps orphans, kills
//! all processes on request, and writes a report. When it exits, the kernel kills all other
//! processes in the container.

mod cgroup;
#[expect(clippy::module_inception, reason = "the main type of the module")]
mod init;
mod ready;
mod relay;
mod start;
mod user;

pub(crate) use self::init::init;
