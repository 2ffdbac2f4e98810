//! A real terminal, that of tmux, in which `proctor` runs.

use std::io::Write;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::{Output, TestContext};

/// A terminal: tmux with a server of its own, gone when it is dropped.
#[derive(Debug)]
pub struct Terminal<'a> {
    context: &'a TestContext,
    socket: Utf8PathBuf,
}

const TMUX: &str = "/usr/bin/tmux";

/// Say that a test was left out, unless it must not be.
fn skipped(test: &str) {
    assert!(std::env::var_os("CI").is_none(), "tmux is not installed");
    // Not a reason to fail: the line is only for those who look.
    let _ = writeln!(std::io::stdout(), "SKIPPED {test}: there is no tmux");
}

impl Terminal<'_> {
    /// A terminal in which `proctor` runs with these words, and after it a shell tells its exit code
    /// and the terminal's modes. `None`, said aloud, where there is no tmux.
    pub fn open<'a>(
        context: &'a TestContext,
        test: &str,
        env: &[(&str, &str)],
        words: &str,
    ) -> Option<Terminal<'a>> {
        if !Utf8Path::new(TMUX).exists() {
            skipped(test);
            return None;
        }
        let terminal = Terminal {
            context,
            socket: context.root().join("tmux.sock"),
        };
        let proctor = context.binary();
        let env: Vec<String> = env
            .iter()
            .map(|(name, value)| format!("{name}='{value}'"))
            .collect();
        let env = env.join(" ");
        // Ctrl-C reaches the shell too, which is to go on.
        let line = format!(
            "trap : INT; {env} '{proctor}' {words}; echo \"code $?\"; stty -a | grep -ow -e '-*icanon' -e '-*echo'; exec sleep 600"
        );
        let command = [
            "new-session",
            "-d",
            "-x",
            "120",
            "-y",
            "30",
            "sh",
            "-c",
            &line,
        ];
        // tmux itself may lose its server at the start on a busy machine.
        let is_up = (0..5).any(|_| terminal.tmux(&command).code == Some(0));
        assert!(is_up, "tmux does not start");
        Some(terminal)
    }

    /// Ask tmux for something.
    pub fn tmux(&self, args: &[&str]) -> Output {
        let start = ["-u", "-f", "/dev/null", "-S", self.socket.as_str()];
        let all = start.iter().chain(args).copied();
        let program = self.context.program(Utf8Path::new(TMUX), all);
        program
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .run()
    }

    /// The content of the screen.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).stdout
    }

    /// Press keys.
    pub fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat()).assert_code(0);
    }

    /// Wait until the screen shows this.
    #[track_caller]
    pub fn sees(&self, text: &str) -> String {
        let mut screen = String::new();
        for _ in 0..600 {
            screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("not on the screen: {text}\n{screen}");
    }

    /// The program has ended with this code and left the terminal as it was.
    #[track_caller]
    pub fn is_given_back(&self, code: i32) -> String {
        let screen = self.sees(&format!("code {code}\nicanon\necho\n"));
        let modes = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        assert_eq!(modes.stdout, "0 1\n", "{screen}");
        screen
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
