//! A helper program without a supervisor: a process group that is killed as one.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Stdio;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use super::{find, status, tree};
use crate::helper::{QuickCommand, Sink, Source};
use crate::{Error, Status};

/// A helper that runs; killed with its group when dropped before its end.
pub(crate) struct Helper {
    child: Child,
}

/// The pipes to a helper's standard streams, except those connected elsewhere.
pub(crate) struct Streams {
    pub(crate) stdin: Option<(ChildStdin, Vec<u8>)>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

impl Helper {
    pub(crate) fn start(command: QuickCommand) -> Result<(Self, Streams), Error> {
        let (mut prepared, input) = prepare(
            command.stdin,
            command.stdout,
            &locate(&command.env, &command.program),
        );
        prepared.args(&command.args).process_group(0);
        if let Some(cwd) = &command.cwd {
            prepared.current_dir(cwd);
        }
        prepared.env_clear().envs(command.env);
        let mut child = prepared
            .spawn()
            .map_err(|source| not_started(&command.program, source))?;
        let streams = Streams {
            stdin: child.stdin.take().zip(input),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
        };
        Ok((Self { child }, streams))
    }

    /// Whether it has not been waited for.
    pub(crate) fn runs(&self) -> bool {
        self.child.id().is_some()
    }

    pub(crate) async fn wait(&mut self) -> io::Result<Status> {
        self.child.wait().await.map(status)
    }

    /// Kills it with all of its group.
    pub(crate) fn kill(&self) {
        // The id is gone once the child has been waited for, so that no stranger is hit.
        if let Some(leader) = self.child.id() {
            tree::kill_group(leader);
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The file that a name stands for. The standard library would leave the search to a fork of ours, which is
/// slow; a path it starts without one.
fn locate(env: &BTreeMap<OsString, OsString>, program: &OsStr) -> OsString {
    let path = env.get(OsStr::new("PATH")).map(OsString::as_os_str);
    let found = find::find(program, path, Path::new(""));
    found.map_or_else(|_| program.to_owned(), OsString::from)
}

/// The command with its streams, and the bytes to feed it.
fn prepare(
    stdin: Source,
    stdout: Sink,
    program: &OsStr,
) -> (tokio::process::Command, Option<Vec<u8>>) {
    let (stdin, input) = match stdin {
        Source::Null => (Stdio::null(), None),
        Source::Bytes(bytes) => (Stdio::piped(), Some(bytes)),
        Source::File(file) => (file.into(), None),
        Source::Pipe(reader) => (reader.into(), None),
    };
    let stdout = match stdout {
        Sink::Collect => Stdio::piped(),
        Sink::File(file) => file.into(),
        Sink::Pipe(writer) => writer.into(),
    };
    #[expect(clippy::disallowed_methods, reason = "this is where processes start")]
    let mut command = tokio::process::Command::new(program);
    command.stdin(stdin).stdout(stdout).stderr(Stdio::piped());
    (command, input)
}

fn not_started(program: &OsString, source: io::Error) -> Error {
    let program = program.clone();
    let is_path = Path::new(&program).components().count() > 1;
    match source.kind() {
        io::ErrorKind::PermissionDenied if is_path => Error::NotExecutable {
            path: program.into(),
        },
        // For a name this only says that some folder of `PATH` is closed to us.
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
            Error::ProgramNotFound { program }
        }
        _ => Error::Start { program, source },
    }
}
