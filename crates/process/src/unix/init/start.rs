//! Starts the processes of a job: own session, own terminal, another user.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, ioctl_tiocsctty, setsid};

use super::super::pty::{self, Pty};
use super::super::{find, platform, signals};
use super::ready;
use super::user::{self, ContainerUser};
use crate::{Error, Job, JobFailure, JobInput, Service};

/// Makes the kernel choose the job's processes, not us, when the container is out of memory.
const KILL_FIRST: &str = "500";

/// The running command.
pub(super) struct StartedJob {
    pub(super) main: Pid,
    /// The service, which leads a session of its own.
    pub(super) service: Option<Pid>,
    pub(super) terminal: Option<TerminalCopy>,
}

/// A job whose background processes go on.
#[derive(Clone, Copy)]
pub(super) struct EarlierJob {
    pub(super) service: Option<Pid>,
}

/// Starts the job. The service of an earlier one goes on.
pub(super) fn start(job: &Job, earlier: Option<EarlierJob>) -> Result<StartedJob, JobFailure> {
    let user = job.user.as_deref().map(user::find).transpose()?;
    let failed = |source: io::Error| JobFailure::Start {
        program: job.argv.first().cloned().unwrap_or_default(),
        reason: source.to_string(),
    };
    let mut main = prepare(job, &job.argv, user.as_ref())?;
    if job.input == JobInput::Null {
        main.stdin(Stdio::null());
    }
    let pty = job.terminal.map(|size| pty::open(size.columns, size.rows));
    let pty = pty.transpose().map_err(failed)?;
    if let Some(Pty { terminal, .. }) = &pty {
        if let Some(user) = &user {
            let _ = std::os::unix::fs::fchown(terminal, Some(user.id), None);
        }
        let clone = || terminal.try_clone().map_err(failed);
        main.stdout(clone()?).stderr(clone()?);
    }
    let own = match pty {
        Some(_) => OwnTerminal::Stdout,
        None => OwnTerminal::None,
    };
    enter(&mut main, user, own);
    let service = match earlier {
        Some(EarlierJob { service }) => service,
        None => start_service(job)?,
    };
    let main = spawn(main).map_err(failed)?;
    let terminal = pty.map(|pty| TerminalCopy::start(pty.controller).map_err(failed));
    let terminal = terminal.transpose()?;
    Ok(StartedJob {
        main,
        service,
        terminal,
    })
}

/// Starts the service, and waits until the container is ready.
fn start_service(job: &Job) -> Result<Option<Pid>, JobFailure> {
    let start = |service: &Service| {
        let argv = [service.argv.as_slice(), &service.command].concat();
        spawn(beside(job, &argv)?).map_err(|source| JobFailure::Start {
            program: service.argv.first().cloned().unwrap_or_default(),
            reason: source.to_string(),
        })
    };
    let service = job.service.as_ref().map(start).transpose()?;
    match (&job.readiness, &job.service, service) {
        (Some(readiness), _, _) => ready::wait(readiness, || beside(job, &readiness.argv))?,
        (None, Some(wanted), Some(pid)) => ready::wait_for_command(pid, &wanted.command),
        (None, _, _) => {}
    }
    Ok(service)
}

/// A command that runs next to the job, as the user of the service, with null streams.
fn beside(job: &Job, argv: &[String]) -> Result<Command, JobFailure> {
    let user = job
        .service
        .as_ref()
        .map_or(&job.user, |service| &service.user);
    let user = user.as_deref().map(user::find).transpose()?;
    let mut command = prepare(job, argv, user.as_ref())?;
    command.stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    enter(&mut command, user, OwnTerminal::None);
    Ok(command)
}

fn spawn(mut command: Command) -> io::Result<Pid> {
    let child = command.spawn()?;
    Ok(Pid::from_raw(child.id().cast_signed()).expect("a child has a positive id"))
}

/// The command without its streams.
fn prepare(
    job: &Job,
    argv: &[String],
    user: Option<&ContainerUser>,
) -> Result<Command, JobFailure> {
    let cwd = Path::new(&job.cwd);
    if !cwd.is_dir() {
        return Err(JobFailure::CwdMissing {
            cwd: job.cwd.clone(),
        });
    }
    let name = argv.first().cloned().unwrap_or_default();
    let mut wanted = crate::Command::new(&name, cwd);
    let env = job
        .env
        .iter()
        .map(|(key, value)| (key.into(), value.into()));
    wanted.env = env.collect();
    let program = find::program(&wanted, cwd).map_err(|error| match error {
        Error::NotExecutable { path } => JobFailure::NotExecutable {
            path: path.to_string_lossy().into_owned(),
        },
        _ => JobFailure::ProgramNotFound {
            program: name.clone(),
        },
    })?;
    #[expect(clippy::disallowed_methods, reason = "this is where processes start")]
    let mut command = Command::new(program);
    command
        .arg0(name)
        .args(argv.get(1..).unwrap_or_default())
        .env_clear();
    if let Some(home) = user.and_then(|user| user.home.as_ref()) {
        command.env("HOME", home);
    }
    command.envs(&job.env).current_dir(cwd);
    Ok(command)
}

/// Whether stdout is to be the controlling terminal.
#[derive(Clone, Copy, PartialEq)]
enum OwnTerminal {
    None,
    Stdout,
}

fn enter(command: &mut Command, user: Option<ContainerUser>, terminal: OwnTerminal) {
    // SAFETY: before the first job there is only one thread. Later ones run only code of relays and terminals, which
    // shares nothing with the closure but the allocator, and the C library's fork leaves that one usable.
    #[expect(unsafe_code, reason = "session and user change between fork and exec")]
    unsafe {
        command.pre_exec(move || {
            setsid()?;
            if terminal == OwnTerminal::Stdout {
                ioctl_tiocsctty(rustix::stdio::stdout())?;
            }
            // Else the file below belongs to root. A program starts with this anyway.
            platform::open_memory();
            // Refused in some containers, which costs nothing but a good choice.
            let _ = std::fs::write("/proc/self/oom_score_adj", KILL_FIRST);
            if let Some(user) = &user {
                platform::become_user(user.id, user.group, &user.groups)?;
            }
            signals::unblock()
        });
    }
}

/// How often and for how long each time the number of processes may be used up when a thread is to start.
const THREAD_TRIES: u32 = 100;
const THREAD_PAUSE: Duration = Duration::from_millis(10);

/// A thread of ours beside a job that runs already, and that may have taken all the processes there are: then it is
/// tried for a while.
pub(super) fn thread(work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    // Values moved into a thread are lost if it cannot be spawned, so they are kept outside.
    let work = Arc::new(Mutex::new(Some(work)));
    let make = || {
        let work = Arc::clone(&work);
        Builder::new().spawn(move || {
            let work = work.lock().ok().and_then(|mut work| work.take());
            if let Some(work) = work {
                work();
            }
        })
    };
    let mut thread = make();
    for _ in 0..THREAD_TRIES {
        if thread.is_ok() {
            break;
        }
        std::thread::sleep(THREAD_PAUSE);
        thread = make();
    }
    thread
}

/// Copies what is written to a terminal to our own stdout.
pub(super) struct TerminalCopy {
    thread: JoinHandle<()>,
}

impl TerminalCopy {
    fn start(controller: OwnedFd) -> io::Result<Self> {
        let thread = thread(move || {
            let mut from = File::from(controller);
            let Ok(to) = rustix::stdio::stdout().try_clone_to_owned() else {
                return;
            };
            // Ends with an error when no process has the terminal open any more, like terminals do.
            let _ = io::copy(&mut from, &mut File::from(to));
        })?;
        Ok(Self { thread })
    }

    /// Waits for the last bytes with a timeout: a process that could not be killed may hold the
    /// pipe.
    pub(super) fn drain(self, longest: Duration) {
        let until = Instant::now() + longest;
        while !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
