//! Whether a stream may speak for its agent: what comes, and what it is then.

use weir_detect::model::{Why, Word};

use super::super::standing::Judged;
use super::{Agents, Limits, MILLISECOND, Process, SECOND, Told, WHO, agents, from, told};

const START: u64 = 1_000 * SECOND;
const SETTLE: u64 = 60 * SECOND;

/// An agent that sends once a second, for so long; and its table.
struct Scene {
    agents: Agents<u32>,
    process: Process,
    now: u64,
}

impl Scene {
    fn after(seconds: u64) -> Self {
        let process = Process { number: 5_000, booted: START - 900 * SECOND, uptime: 77 };
        let mut scene = Self { agents: agents(Limits::default()), process, now: START };
        scene.go_on(seconds);
        scene
    }

    /// The agent sends on; the last word.
    fn go_on(&mut self, seconds: u64) -> Option<Word> {
        let mut word = None;
        for _ in 0..seconds {
            self.now += SECOND;
            let told = self.process.send(self.now);
            word = self.comes(1, &told).word;
        }
        word
    }

    /// A datagram comes from a port; what is told of it. `None` of one that is left out.
    fn comes(&mut self, port: u16, told: &Told) -> Judged {
        match self.agents.datagram(self.now, WHO, from(port), told) {
            Ok(placed) => self.agents.judge(&placed, SETTLE).unwrap().0,
            _ => Judged { word: None, why: None, alive: false },
        }
    }

    /// What the agent would send next, so many numbers later.
    fn next(&self, more: u32) -> Told {
        let mut process = self.process.clone();
        process.number = process.number.wrapping_add(more);
        process.send(self.now)
    }
}

#[test]
fn a_stream_is_new_for_a_minute_and_settled_then() {
    let mut scene = Scene::after(1);
    assert_eq!(scene.go_on(59), Some(Word::New));
    assert_eq!(scene.go_on(1), Some(Word::Good));
    // A restart begins the minute again.
    scene.process = Process { number: 0, booted: scene.now, uptime: 0 };
    assert_eq!((scene.go_on(60), scene.go_on(1)), (Some(Word::New), Some(Word::Good)));
    // So does another port, after a silence.
    scene.now += 11 * SECOND;
    let told = scene.process.send(scene.now);
    assert_eq!(scene.comes(2, &told).word, Some(Word::New));
}

#[test]
fn loss_disorder_and_doubles_contradict_nothing() {
    let mut scene = Scene::after(70);
    for turn in 0..100 {
        scene.process.number += turn % 7;
        let (late, told) = (scene.next(0), scene.next(1));
        assert_eq!(scene.comes(1, &told).word, Some(Word::Good));
        scene.now += 900 * MILLISECOND;
        assert_eq!(scene.comes(1, &late).word, Some(Word::Good));
        scene.comes(1, &told);
        scene.process.number += 2;
        assert_eq!(scene.go_on(1), Some(Word::Good), "{turn}");
    }
    // Nothing comes for two minutes, then all that was sent, at once.
    let mut waiting = Vec::new();
    for _ in 0..120 {
        scene.now += SECOND;
        waiting.push(scene.process.send(scene.now));
    }
    assert!(waiting.iter().all(|told| scene.comes(1, told).word == Some(Word::Good)));
}

#[test]
fn each_contradiction_is_told_once_and_over_after_a_minute() {
    type Forged = fn(&mut Scene);
    let cases: [(Why, Forged); 4] = [
        (Why::Content, |scene| {
            // He is ahead of the agent by one.
            let told = scene.next(0);
            scene.comes(1, &Told { content: 1, ..told });
        }),
        (Why::Overtaken, |scene| {
            let told = scene.next(100);
            scene.comes(1, &told);
            scene.now += 500 * MILLISECOND;
            scene.go_on(1);
        }),
        (Why::Overtaken, |scene| {
            let told = scene.next(1_000_000);
            scene.comes(1, &told);
        }),
        (Why::Clock, |scene| {
            let told = scene.next(0);
            scene.comes(1, &Told { uptime: told.uptime + 6_000, ..told });
        }),
    ];
    for (case, (why, forged)) in cases.into_iter().enumerate() {
        let mut scene = Scene::after(70);
        forged(&mut scene);
        let mut told = Vec::new();
        let mut last = None;
        for _ in 0..200 {
            scene.now += SECOND;
            let datagram = scene.process.send(scene.now);
            let judged = scene.comes(1, &datagram);
            told.extend(judged.why);
            last = judged.word;
        }
        let of_case = |found: &Why| *found == why || case == 3 && *found == Why::Content;
        assert!(told.len() <= 4 && (case == 1 || told.first().is_some_and(of_case)), "{case}: {told:?}");
        assert_eq!(last, Some(Word::Good), "{case}");
    }
}

/// A forger who sends once in a while: his stream is old, but was never heard for a minute without contradiction.
#[test]
fn age_alone_settles_no_stream() {
    for period in [10_000, 61, 119] {
        let mut scene = Scene::after(70);
        for second in 0..400 {
            if second % period == 0 {
                let told = told(second as u32, 10);
                scene.comes(2, &told);
            }
            assert_eq!(scene.go_on(1), Some(Word::Good), "each {period} s, second {second}");
        }
    }
}

#[test]
fn who_comes_from_elsewhere_is_a_rival_of_a_settled_stream() {
    let mut scene = Scene::after(70);
    for turn in 0..300 {
        let told = told(turn, 10);
        assert_eq!(scene.comes(2, &told).word, (turn == 0).then_some(Word::New));
        assert_eq!(scene.go_on(1), Some(Word::Good));
    }
    // While the agent is silent for two minutes he is nobody, and contested for another one.
    let mut words = Vec::new();
    for turn in 300..500 {
        scene.now += SECOND;
        words.push(scene.comes(2, &told(turn, 10)).word);
    }
    words.dedup();
    assert_eq!(words, [None, Some(Word::Contested), Some(Word::Good)]);
    // The agent is back: nobody knows which of them it is.
    assert_eq!(scene.go_on(1), Some(Word::Contested));
    let judged = scene.comes(2, &told(500, 10));
    assert_eq!((judged.word, judged.why), (Some(Word::Contested), Some(Why::Twins)));
    assert_eq!(scene.go_on(170), Some(Word::Contested));
    assert_eq!(scene.go_on(30), Some(Word::Good));
}

/// Its port is another one, its numbers begin again: nobody hears the one of before any more.
#[test]
fn an_agent_that_restarts_with_another_port_is_new_at_once() {
    let mut scene = Scene::after(70);
    let mut words = Vec::new();
    for turn in 0..150 {
        scene.now += SECOND;
        let judged = scene.comes(2, &told(turn, turn * 1_000));
        assert_eq!(judged.why, None, "{turn}");
        words.push(judged.word);
    }
    assert!(words.iter().take(60).all(|word| *word == Some(Word::New)), "{words:?}");
    assert!(words.iter().skip(60).all(|word| *word == Some(Word::Good)), "{words:?}");
}

#[test]
fn an_agent_is_alive_once_a_second() {
    let mut scene = Scene::after(1);
    let mut alive = 0;
    for _ in 0..1_000 {
        scene.now += 10 * MILLISECOND;
        let told = scene.process.send(scene.now);
        alive += u32::from(scene.comes(1, &told).alive);
    }
    assert_eq!(alive, 10);
}
