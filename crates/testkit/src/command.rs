//! Runs a program as a user would, in the environment of a test context.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use fs_err::File;

use crate::platform;

/// How long a program may run before a test gives up on it.
const DEADLINE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(5);

/// A program that is about to run.
#[derive(Debug)]
pub struct Program {
    command: Command,
    /// Where output goes: files, because a leaked child would keep a pipe open.
    output: Utf8PathBuf,
    deadline: Duration,
}

/// The result of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A program that runs. Killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    output: Utf8PathBuf,
    deadline: Duration,
}

impl Program {
    pub(crate) fn new(command: Command, output: Utf8PathBuf) -> Self {
        Self {
            command,
            output,
            deadline: DEADLINE,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<str>) -> Self {
        self.command.arg(arg.as_ref());
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.command.env(name, value.as_ref());
        self
    }

    /// Runs elsewhere than in the context's root.
    #[must_use]
    pub fn current_dir(mut self, dir: impl AsRef<std::path::Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Gives up later or sooner than after two minutes.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Gives it this text on stdin, which is empty otherwise.
    #[must_use]
    pub fn stdin(mut self, text: &str) -> Self {
        let path = self.output.with_extension("stdin");
        fs_err::write(&path, text).expect("a file for stdin");
        let file = File::open(&path).expect("the file that was just written");
        self.command.stdin(Stdio::from(file.into_file()));
        self
    }

    /// Talks to this model: sets the variables that make Claude Code use it and nothing else.
    #[must_use]
    pub fn model(self, model: &proctor_scripted_model::ScriptedModel) -> Self {
        self.env("ANTHROPIC_BASE_URL", model.url())
            .env("ANTHROPIC_API_KEY", "sk-ant-fake")
    }

    /// Runs it to its end.
    pub fn run(self) -> Output {
        self.spawn().wait()
    }

    /// Starts it.
    pub fn spawn(mut self) -> Running {
        let file = |extension| {
            let file = File::create(self.output.with_extension(extension));
            Stdio::from(file.expect("a file for output").into_file())
        };
        self.command.stdout(file("stdout")).stderr(file("stderr"));
        platform::prepare(&mut self.command);
        let child = self.command.spawn();
        let child =
            child.unwrap_or_else(|error| panic!("cannot start {:?}: {error}", self.command));
        Running {
            child,
            output: self.output,
            deadline: self.deadline,
        }
    }
}

impl Running {
    /// The process.
    #[cfg(unix)]
    pub(crate) fn child(&self) -> &Child {
        &self.child
    }

    /// Asks it to stop, as Ctrl-C does, or Ctrl-Break on Windows.
    pub fn interrupt(&self) {
        platform::interrupt(&self.child).expect("a child that was not waited for can be asked");
    }

    /// Ends it at once, without a chance to tidy up.
    pub fn kill(&mut self) {
        self.child
            .kill()
            .expect("a child that was not waited for can be killed");
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.status().is_none()
    }

    /// The stdout so far.
    pub fn stdout_so_far(&self) -> String {
        read(&self.output, "stdout")
    }

    /// The stderr so far.
    pub fn stderr_so_far(&self) -> String {
        read(&self.output, "stderr")
    }

    /// Waits for its end; panics when that does not come in time.
    pub fn wait(mut self) -> Output {
        let began = Instant::now();
        loop {
            if let Some(status) = self.status() {
                return Output {
                    code: status.code(),
                    signal: platform::signal_of(status),
                    stdout: self.stdout_so_far(),
                    stderr: self.stderr_so_far(),
                };
            }
            if began.elapsed() > self.deadline {
                let (out, err) = (self.stdout_so_far(), self.stderr_so_far());
                panic!("still running after {:?}\n{out}\n{err}", self.deadline);
            }
            std::thread::sleep(POLL);
        }
    }

    fn status(&mut self) -> Option<ExitStatus> {
        let status: io::Result<_> = self.child.try_wait();
        status.expect("a child can be waited for")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Output {
    /// Panics with all the output unless the program exited with this code.
    #[track_caller]
    pub fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            code,
            signal,
            stdout,
            stderr,
        } = self;
        write!(
            f,
            "code {code:?}, signal {signal:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
        )
    }
}

fn read(output: &Utf8PathBuf, extension: &str) -> String {
    let bytes = fs_err::read(output.with_extension(extension)).expect("the output file");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(unix)]
impl Running {
    /// Its process id.
    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(self.child())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal)
            .expect("a child that was not waited for takes signals");
    }
}
