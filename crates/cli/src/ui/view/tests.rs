//! Tests of the view, drawn to memory, and of its keys.

use insta::assert_snapshot;
use jiff::Timestamp;
use proctor_record::{
    outcome::Outcome,
    record::{
        Entry, Event, Passage, Phase, TrialStatus,
        follow::{RunView, TrialState, TrialView},
    },
    usage::Usd,
};
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};

use super::{
    draw::draw,
    session::SessionView,
    state::{InputMode, Layout, Purpose, ViewAction, ViewState},
};

fn now() -> Timestamp {
    "2026-01-01T12:01:30Z".parse().unwrap()
}

fn trial(number: usize, agent: &str, state: TrialState) -> TrialView {
    let mut trial = TrialView::waiting(number, format!("trial-{number}").into());
    trial.agent = agent.to_owned();
    trial.task = "fix-日本語".to_owned();
    trial.state = state;
    if state != TrialState::Waiting {
        trial.started_at = Some("2026-01-01T12:00:00Z".parse().unwrap());
    }
    if let TrialState::Ended(..) = state {
        trial.duration_ms = Some(60_000);
        trial.tokens = Some(12_345);
        trial.cost = Usd::from_dollars(0.25);
        trial.score = Some(f64::from(u8::from(agent == "claude")));
    }
    trial
}

fn run() -> RunView {
    let ended = |status, outcome| TrialState::Ended(status, outcome);
    let mut active = trial(2, "claude", TrialState::Active(Phase::Running));
    active.tokens = Some(999);
    active.last = Some(Event::Tool {
        id: None,
        tool: "Bash".to_owned(),
        target: Some("make test".to_owned()),
    });
    RunView {
        run_dir: "results/runs/20260101-120000-00000001".into(),
        is_running: true,
        trials: vec![
            trial(0, "claude", ended(TrialStatus::Passed, Outcome::Completed)),
            trial(1, "floor", ended(TrialStatus::Failed, Outcome::Completed)),
            active,
            trial(3, "floor", TrialState::Waiting),
        ],
        expected: 4,
    }
}

fn session() -> SessionView {
    let mut session = SessionView::empty();
    let mut push = |t, event| session.push(&Entry { t, event });
    let phase = Phase::Running;
    push(0, Event::Phase { phase });
    push(900, Event::Thought(Passage::of("Where is the test?")));
    let call = |id: &str, tool: &str, target: &str| Event::Tool {
        id: Some(id.to_owned()),
        tool: tool.to_owned(),
        target: Some(target.to_owned()),
    };
    push(2_000, call("1", "Edit", "src/leap.rs"));
    let id = "1".to_owned();
    let is_error = false;
    push(2_500, Event::ToolResult { id, is_error });
    push(61_000, Event::Note(Passage::of("API call retried (529)")));
    let text =
        "I fixed \x1b[31mthe leap year 閏年 rule; now the tests must show that all of it works.";
    push(62_000, Event::Said(Passage::of(text)));
    push(63_000, call("2", "Bash", "make test"));
    session
}

fn screen(state: &mut ViewState, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let run = run();
    state.settle(&run);
    terminal
        .draw(|frame| draw(frame, state, &run, &mut session(), now()))
        .unwrap();
    // Each row is quoted, followed by remarks on wide characters.
    let shown = terminal.backend().to_string();
    let rows = shown.lines().map(|row| {
        let row = row.strip_prefix('"').and_then(|row| {
            row.rsplit_once("\" Hidden")
                .map(|(row, _)| row)
                .or(row.strip_suffix('"'))
        });
        row.unwrap().trim_end()
    });
    rows.collect::<Vec<_>>().join("\n")
}

#[test]
fn trials_and_running_session_are_side_by_side() {
    assert_snapshot!(screen(&mut ViewState::new(Purpose::Run), (110, 14)), @"
    proctor · 20260101-120000-00000001 · running
    2/4 done · 1 running · 1 passed, 1 failed · $0.50 · 01:00 left · 25.7k tokens
      trial                  state         time  tokens│● claude · fix-日本語 #1 · running
    claude · score 1.00, 1/1 passed · 1/2 done    13.3k│  changed: src/leap.rs
    ✓ fix-日本語 #1          passed       01:00   12.3k│00:00  ─ running the agent
    ● fix-日本語 #1          running      01:30     999│00:00  ~ Where is the test?
    floor · score 0.00, 0/1 passed · 1/2 done     12.3k│00:02  ✓ Edit src/leap.rs
    ✗ fix-日本語 #1          failed       01:00   12.3k│01:01  ! API call retried (529)
    · fix-日本語 #1          waiting                   │01:02    I fixed [31mthe leap year 閏年 rule; now the
                                                       │         tests must show that all of it works.
                                                       │01:03  ▸ Bash make test
                                                       │
                                                       │
    ? help · ↑↓ move · ⏎ open · c cancel · p pause · / filter · t table · q quit
    ");
}

/// The help, the cost and the score of each agent are visible on a small terminal.
#[test]
fn view_fits_a_terminal_of_80_columns() {
    let shown = screen(&mut ViewState::new(Purpose::Run), (80, 24));
    for part in [
        "? help",
        "q quit",
        "$0.50",
        "01:00 left",
        "claude · score 1.00, 1/1 passed · 1/2 done",
        "$0.2500",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(!shown.contains('…'), "{shown}");
}

#[test]
fn narrow_terminal_shows_one_part_at_a_time() {
    let mut state = ViewState::new(Purpose::Run);
    assert_snapshot!(screen(&mut state, (44, 9)), @"
    proctor · 20260101-120000-00000001 · running
    2/4 done · 1 running · 1 passed, 1 failed ·…
      trial                   state         time
    claude · score 1.00, 1/1 passed · 1/2 done
    ✓ fix-日本語 #1           passed       01:00
    ● fix-日本語 #1           running      01:30
    floor · score 0.00, 0/1 passed · 1/2 done
    ✗ fix-日本語 #1           failed       01:00
    ? help · ↑↓ move · ⏎ open · c cancel · p pa…
    ");
    state.key(key('\n'), &run());
    assert_snapshot!(screen(&mut state, (44, 12)), @"
    proctor · 20260101-120000-00000001 · running
    2/4 done · 1 running · 1 passed, 1 failed ·…
    ● claude · fix-日本語 #1 · running
      changed: src/leap.rs
    00:00  ~ Where is the test?
    00:02  ✓ Edit src/leap.rs
    01:01  ! API call retried (529)
    01:02    I fixed [31mthe leap year 閏年
             rule; now the tests must show that
             all of it works.
    01:03  ▸ Bash make test
    ? help · ↑↓ move · ⏎ open · c cancel · p pa…
    ");
}

#[test]
fn table_shows_last_action_of_each_trial() {
    let mut state = ViewState::new(Purpose::Watch);
    state.key(key('t'), &run());
    assert_snapshot!(screen(&mut state, (110, 10)), @"
    proctor · 20260101-120000-00000001 · running
    2/4 done · 1 running · 1 passed, 1 failed · $0.50 · 01:00 left · 25.7k tokens
      trial                                state         time  tokens     cost last
    claude · score 1.00, 1/1 passed · 1/2 done                  13.3k  $0.2500
    ✓ fix-日本語 #1                        passed       01:00   12.3k  $0.2500
    ● fix-日本語 #1                        running      01:30     999        – Bash make test
    floor · score 0.00, 0/1 passed · 1/2 done                   12.3k  $0.2500
    ✗ fix-日本語 #1                        failed       01:00   12.3k  $0.2500
    · fix-日本語 #1                        waiting
    ? help · ↑↓ move · ⏎ open · f follow · / filter · t table · q quit
    ");
}

#[test]
fn view_draws_at_any_size() {
    for purpose in [Purpose::Run, Purpose::Watch, Purpose::Replay] {
        for width in [1, 2, 7, 19, 40, 99, 100, 101, 300] {
            for height in [1, 2, 3, 4, 50] {
                for layout in [Layout::Both, Layout::Table, Layout::Session] {
                    let mut state = ViewState::new(purpose);
                    state.layout = layout;
                    let shown = screen(&mut state, (width, height));
                    assert_eq!(shown.lines().count(), usize::from(height));
                }
            }
        }
    }
}

fn key(c: char) -> KeyEvent {
    let code = match c {
        '\n' => KeyCode::Enter,
        '\t' => KeyCode::Tab,
        '\x1b' => KeyCode::Esc,
        '\x08' => KeyCode::Backspace,
        c => KeyCode::Char(c),
    };
    KeyEvent::new(code, KeyModifiers::NONE)
}

/// Presses keys, and returns the resulting actions.
fn press(state: &mut ViewState, keys: &str) -> Vec<ViewAction> {
    let run = run();
    let actions = keys.chars().filter_map(|c| {
        let action = state.key(key(c), &run);
        state.settle(&run);
        action
    });
    actions.collect()
}

#[test]
fn selection_follows_running_trial_until_user_moves_it() {
    let mut state = ViewState::new(Purpose::Run);
    press(&mut state, "");
    state.settle(&run());
    assert_eq!(state.chosen, Some(2));
    press(&mut state, "g");
    assert_eq!((state.chosen, state.follows), (Some(0), false));
    press(&mut state, "j");
    assert_eq!(state.chosen, Some(2), "the next one of the agent");
    press(&mut state, "Gj");
    assert_eq!(
        state.chosen,
        Some(3),
        "the selection stays on the last trial"
    );
    press(&mut state, "f");
    assert_eq!((state.chosen, state.follows), (Some(2), true));
}

#[test]
fn filter_narrows_list_and_escape_clears_it() {
    let mut state = ViewState::new(Purpose::Run);
    press(&mut state, "/FLOx\x08\n");
    assert_eq!(state.listed(&run()), [1, 3]);
    assert_eq!(state.chosen, Some(1), "the selected trial is listed");
    press(&mut state, "/\x1b\t");
    assert_eq!(state.listed(&run()), [2], "running only");
    press(&mut state, "\t");
    assert_eq!(state.listed(&run()), [1], "not passed only");
    press(&mut state, "\t/nothing like it\n");
    assert_eq!(state.chosen, None);
    assert!(screen(&mut state, (60, 6)).contains("no matching trials"));
}

#[test]
fn stopping_a_trial_or_run_needs_confirmation() {
    let mut state = ViewState::new(Purpose::Run);
    state.settle(&run());
    assert_eq!(press(&mut state, "cn"), []);
    assert_eq!(press(&mut state, "cy"), [ViewAction::Cancel(2)]);
    assert_eq!(
        press(&mut state, "gcy"),
        [],
        "an ended trial cannot be stopped"
    );
    assert_eq!(press(&mut state, "q"), []);
    assert_eq!(state.input, InputMode::Quit);
    assert_eq!(press(&mut state, "y"), [ViewAction::Leave]);
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.key(ctrl_c, &run()), Some(ViewAction::Stop));
    assert_eq!(press(&mut state, "p"), [ViewAction::Pause]);
}

#[test]
fn watch_view_cannot_control_the_run() {
    let mut state = ViewState::new(Purpose::Watch);
    state.settle(&run());
    assert_eq!(press(&mut state, "cyp"), []);
    assert_eq!(
        press(&mut state, "q"),
        [ViewAction::Leave],
        "without a confirmation"
    );
}

#[test]
fn replay_can_pause_speed_up_and_skip() {
    let mut state = ViewState::new(Purpose::Replay);
    let asked = press(&mut state, " +-");
    assert_eq!(
        asked,
        [ViewAction::Pause, ViewAction::Faster, ViewAction::Slower]
    );
    let right = KeyEvent::new(KeyCode::Right, KeyModifiers::NONE);
    assert_eq!(state.key(right, &run()), Some(ViewAction::Skip));
    assert_eq!(state.layout, Layout::Session);
}
