//! Which answer of a script a request gets.

use crate::script::{Answer, Message, Repeat, Script};

/// A script and how far each of its lanes has been played.
#[derive(Debug)]
pub(crate) struct ScriptPlayer {
    script: Script,
    /// How often each answer was given.
    given: Vec<u32>,
}

impl ScriptPlayer {
    pub(crate) fn new(script: Script) -> Self {
        let given = vec![0; script.answers.len()];
        Self { script, given }
    }

    /// The message for requests that no answer is left for.
    pub(crate) fn after_the_end(&self) -> Message {
        self.script.then.clone()
    }

    /// The next answer for a conversation that opens like this, with its position.
    ///
    /// A conversation whose lane has run out gets none, never one of another lane.
    pub(crate) fn next(&mut self, opening: &str) -> Option<(usize, Answer)> {
        let lane = self.lane_of(opening);
        self.next_in(lane.as_deref())
    }

    /// The next answer for a side request, which never takes an answer of the main lane.
    pub(crate) fn next_on_the_side(&mut self, opening: &str) -> Option<(usize, Answer)> {
        let lane = self.lane_of(opening)?;
        self.next_in(Some(&lane))
    }

    fn lane_of(&self, opening: &str) -> Option<String> {
        let whens = self.script.answers.iter().filter_map(|a| a.when.as_ref());
        whens.into_iter().find(|w| opening.contains(*w)).cloned()
    }

    fn next_in(&mut self, lane: Option<&str>) -> Option<(usize, Answer)> {
        let answers = self.script.answers.iter().enumerate();
        let (index, answer) = answers
            .filter(|(_, answer)| answer.when.as_deref() == lane)
            .find(|(index, answer)| match answer.repeat {
                Repeat::Forever => true,
                Repeat::Times(times) => self.given[*index] < times,
            })?;
        self.given[index] = self.given[index].saturating_add(1);
        Some((index, answer.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(player: &mut ScriptPlayer, openings: &[&str]) -> Vec<Option<usize>> {
        let next = |opening: &&str| player.next(opening).map(|(index, _)| index);
        openings.iter().map(next).collect()
    }

    #[test]
    fn answers_are_given_in_order() {
        let script = Script::new([Answer::text("a").times(2), Answer::text("b")]);
        let order = order(&mut ScriptPlayer::new(script), &["x"; 4]);
        assert_eq!(order, [Some(0), Some(0), Some(1), None]);
    }

    #[test]
    fn sub_agent_never_takes_an_answer_of_the_main_lane() {
        let script = Script::new([
            Answer::text("main 1"),
            Answer::text("sub").when("look for"),
            Answer::text("main 2"),
        ]);
        let openings = ["main", "please look for it", "please look for it", "main"];
        let order = order(&mut ScriptPlayer::new(script), &openings);
        assert_eq!(order, [Some(0), Some(1), None, Some(2)]);
    }

    #[test]
    fn side_request_only_gets_answers_of_its_lane() {
        let script = Script::new([Answer::text("main"), Answer::text("title").when("a title")]);
        let mut player = ScriptPlayer::new(script);
        assert!(player.next_on_the_side("may this command run?").is_none());
        let (index, _) = player.next_on_the_side("find a title").unwrap();
        assert_eq!(index, 1);
        assert_eq!(player.next("main").map(|(index, _)| index), Some(0));
    }

    #[test]
    fn answer_with_repeat_forever_is_never_used_up() {
        let script = Script::new([Answer::error(529).forever(), Answer::text("unreachable")]);
        let order = order(&mut ScriptPlayer::new(script), &["x"; 3]);
        assert_eq!(order, [Some(0); 3]);
    }
}
