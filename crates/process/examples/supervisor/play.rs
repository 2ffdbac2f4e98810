//! A child that plays a script, the same on every platform: steps that are separated by semicolons, some of which start
//! this program again to play what stands in braces.

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Plays a script to its end, or to a step that exits.
pub(crate) fn play(script: &str) {
    // Locks are held to the end of the process.
    let mut locks = Vec::new();
    let mut rest = script.trim();
    while !rest.is_empty() {
        let (step, after) = split(rest);
        rest = after;
        let (word, text) = step.split_once(' ').unwrap_or((step, ""));
        match word {
            "alive" => locks.push(lock(text.trim())),
            _ => perform(word, text.trim()),
        }
    }
}

/// The first step, and the others.
fn split(script: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, letter) in script.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return (script[..at].trim(), script[at + 1..].trim()),
            _ => {}
        }
    }
    (script.trim(), "")
}

fn perform(word: &str, text: &str) {
    match word {
        "out" => say(&mut io::stdout(), text),
        "err" => say(&mut io::stderr(), text),
        "zeros" => flood(&mut io::stdout(), number(text)),
        "error-zeros" => flood(&mut io::stderr(), number(text)),
        "nothing" => empty_write(),
        "sleep" => sleep(Duration::from_millis(number(text))),
        "spin" => spin(number(text)),
        "exit" => std::process::exit(text.parse().expect("an exit code")),
        "run" => drop(child(text).status()),
        "start" => drop(child(text).spawn().expect("this program starts")),
        "start-apart" => drop(apart(text).spawn().expect("this program starts")),
        #[cfg(unix)]
        "leave" => {
            rustix::process::setsid().expect("a new process leads no group");
        }
        "stubborn" => on_request(|| {}),
        "heed" => {
            let code = text.parse().expect("an exit code");
            on_request(move || {
                say(&mut io::stdout(), "bye");
                std::process::exit(code)
            });
        }
        "cat" => drop(io::copy(&mut io::stdin(), &mut io::stdout()).expect("stdin goes to stdout")),
        "count" => count_input(),
        "read" => read_input(number(text)),
        "answer" => answer_lines(),
        "arguments" => {
            for argument in std::env::args().skip(3) {
                say(&mut io::stdout(), &format!("{argument:?}"));
            }
        }
        "variables" => {
            for (name, value) in std::env::vars_os() {
                let line = format!("{}={}", name.display(), value.display());
                say(&mut io::stdout(), &line);
            }
        }
        "cwd" => {
            let cwd = std::env::current_dir().expect("there is a folder");
            say(&mut io::stdout(), &cwd.display().to_string());
        }
        "sleep-again" => loop {
            drop(child("{ sleep 600000 }").spawn());
        },
        other => panic!("{other:?} is not a step"),
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn say(stream: &mut impl Write, text: &str) {
    // The listener may be gone.
    let _ = writeln!(stream, "{text}").and_then(|()| stream.flush());
}

fn flood(stream: &mut impl Write, count: u64) {
    let mut zeros = io::repeat(0).take(count);
    let _ = io::copy(&mut zeros, stream).and_then(|_| stream.flush());
}

/// Writes no bytes at all, between two that are.
fn empty_write() {
    let mut out = io::stdout();
    let _ = out.write(b"before ").and_then(|_| out.flush());
    #[cfg(windows)]
    {
        use std::os::windows::io::AsHandle;
        let stream = io::stdout().as_handle().try_clone_to_owned();
        let _ = File::from(stream.expect("stdout is open")).write(&[]);
    }
    sleep(Duration::from_millis(50));
    say(&mut out, "after");
}

/// Works for a while, as long as that takes on a busy machine.
fn spin(millions: u64) {
    for round in 0..millions * 1_000_000 {
        std::hint::black_box(round);
    }
}

/// This program, playing what stands in the braces.
fn child(braced: &str) -> Command {
    playing(within(braced))
}

fn within(braced: &str) -> &str {
    let script = braced
        .trim()
        .strip_prefix('{')
        .and_then(|it| it.strip_suffix('}'));
    script.expect("a script in braces")
}

fn playing(script: &str) -> Command {
    #[expect(clippy::disallowed_methods, reason = "it plays the part of a stranger")]
    let mut command = Command::new(std::env::current_exe().expect("this program has a file"));
    command.args(["play", script]);
    command
}

/// The same, as far away from us as a process can get, and with streams that lead nowhere.
fn apart(braced: &str) -> Command {
    // It leaves by itself, for only a process can open a session of its own.
    #[cfg(unix)]
    let mut command = playing(&format!("leave; {}", within(braced)));
    #[cfg(windows)]
    let mut command = child(braced);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    #[cfg(windows)]
    {
        use windows_sys::Win32::System::Threading::{CREATE_NEW_PROCESS_GROUP, DETACHED_PROCESS};
        std::os::windows::process::CommandExt::creation_flags(
            &mut command,
            CREATE_NEW_PROCESS_GROUP | DETACHED_PROCESS,
        );
    }
    command
}

/// A locked file in that folder for as long as this process lives.
fn lock(folder: &str) -> File {
    let path = std::path::Path::new(folder).join(std::process::id().to_string());
    let file = File::create(path).expect("a file is made");
    file.lock().expect("the file is locked");
    file
}

fn count_input() {
    let count = io::copy(&mut io::stdin(), &mut io::sink()).expect("stdin is read");
    say(&mut io::stdout(), &count.to_string());
}

fn read_input(count: u64) {
    let mut some = io::stdin().take(count);
    io::copy(&mut some, &mut io::sink()).expect("stdin is read");
}

fn answer_lines() {
    for line in io::stdin().lock().lines() {
        say(&mut io::stdout(), &format!("<{}>", line.expect("a line")));
    }
    say(&mut io::stdout(), "end");
}

/// Does something when asked to end, instead of ending.
fn on_request(act: impl Fn() + Send + 'static) {
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime starts").block_on(async {
            #[cfg(unix)]
            let mut asked = {
                use tokio::signal::unix::{SignalKind, signal};
                signal(SignalKind::terminate()).expect("signals are heard")
            };
            #[cfg(windows)]
            let mut asked = tokio::signal::windows::ctrl_break().expect("events are heard");
            ready.send(()).expect("the receiver waits");
            while asked.recv().await.is_some() {
                act();
            }
        });
    });
    is_ready.recv().expect("the thread listens");
}
