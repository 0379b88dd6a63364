//! The test whether what is sent comes back: a destination's datagrams are held for a moment. Of what goes round, nothing
//! comes in any more until they are let go, and then it does again; what others send does not care.
//!
//! ```text
//! measure -> hold all destinations of the suspect -> let go -> hold each alone -> let go -> ... -> a loop, by these
//!              | it goes on coming                    | it does not come back   | it goes on: not by this one
//!              +-> no loop                            +-> unclear
//! ```
//!
//! Where a machine stands still meanwhile, what was under way may come when nothing does any more, or should: that is unclear, too.
//!
//! A pure machine on the time that it is told; what it counts are repeated contents, see `repeats`.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::repeats::Suspect;

/// A test under way. How long things are held, and when, is left to chance: a sender with a rhythm of its own would else
/// fall in step with it.
#[derive(Debug)]
pub(super) struct Circuit {
    pub(super) suspect: Suspect,
    /// Indices of the outlets by which it may go round.
    outlets: Vec<usize>,
    /// Of them, those that were found to be part of it.
    guilty: Vec<usize>,
    stage: Stage,
    /// What is held, or was held last.
    target: Target,
    /// What is to be held after that, the next one last.
    next: Vec<Target>,
    /// Repeated contents in the last slice in which nothing was held.
    base: u32,
    /// The same in this slice.
    count: u32,
    /// Whether any came at all.
    came: bool,
    /// Slices of this stage.
    slices: u32,
    /// Slices in a row that are as this stage wants them: busy, or silent while something is held.
    row: u32,
    /// How many it wants.
    wanted: u32,
    /// Slices of the last hold in which something still came.
    drained: u32,
    /// Whether what comes in this hold may have been under way when it began, however long ago: nothing had come for a while, or
    /// nobody had looked.
    doubtful: bool,
    /// Slices that cannot be judged, for the thread had no processor.
    late: u32,
    ends: Instant,
    random: Rng,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is held.
    Open {
        returned: bool,
    },
    Hold,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    All,
    /// The outlet at this place.
    One(usize),
    Guilty,
}

/// What is to be done now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Wait,
    /// Hold [`Circuit::held`].
    Hold,
    /// Let it go.
    Release,
    /// Let it go: the test is over.
    Over(Verdict),
}

/// What a test has shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes round by these outlets.
    Loop(Vec<usize>),
    /// It comes whether or not anything is sent, or it only looked as if anything came again.
    None,
    /// Too little came, it stopped by itself, or it came late.
    Unclear,
}

impl Circuit {
    /// Begins to test whether what the suspect sends comes back by these outlets, of which there is one at least.
    pub(super) fn begin(suspect: Suspect, outlets: Vec<usize>, now: Instant, mut random: Rng) -> Self {
        Self {
            suspect,
            guilty: outlets.clone(),
            outlets,
            stage: Stage::Open { returned: true },
            target: Target::All,
            next: vec![Target::All],
            base: 0,
            count: 0,
            came: false,
            slices: 0,
            row: 0,
            wanted: random.u32(BUSY),
            drained: 0,
            doubtful: false,
            late: 0,
            ends: now + SLICE,
            random,
        }
    }

    /// A content of the suspect came that had come before.
    pub(super) fn count(&mut self) {
        self.count += 1;
        self.came = true;
    }

    /// When [`advance`](Self::advance) has something to do.
    pub(super) fn deadline(&self) -> Instant {
        self.ends
    }

    /// The outlets that are held now, or were last.
    pub(super) fn held(&self) -> &[usize] {
        match self.target {
            Target::All => &self.outlets,
            Target::One(at) => &self.outlets[at..=at],
            Target::Guilty => &self.guilty,
        }
    }

    /// Whether they are held.
    pub(super) fn holds(&self) -> bool {
        self.stage == Stage::Hold
    }

    /// Whether nothing came any more while they were held.
    pub(super) fn has_stopped(&self) -> bool {
        self.stage == Stage::Open { returned: false }
    }

    /// Goes on, if a slice is over.
    pub(super) fn advance(&mut self, now: Instant) -> Step {
        if now < self.ends {
            return Step::Wait;
        }
        let late = self.holds() && now - self.ends > SLICE;
        let count = std::mem::take(&mut self.count);
        self.ends = now + SLICE;
        if late {
            // What came meanwhile waits in the listener's buffer and is counted in the next one.
            self.late += 1;
            self.doubtful = true;
            return if self.late > MOST_LATE { Step::Over(Verdict::Unclear) } else { Step::Wait };
        }
        self.slices += 1;
        match self.stage {
            Stage::Hold => self.listen(count),
            Stage::Open { returned } => self.measure(count, returned),
        }
    }

    /// A slice in which something was held.
    fn listen(&mut self, count: u32) -> Step {
        if count <= self.base / 8 {
            self.row += 1;
        } else {
            self.doubtful |= self.row > 0;
            (self.row, self.drained) = (0, self.slices);
        }
        if self.row == self.wanted {
            self.stopped()
        } else if self.drained > UNDER_WAY || self.slices >= HELD {
            self.withstood()
        } else {
            Step::Wait
        }
    }

    /// A slice in which nothing was.
    fn measure(&mut self, count: u32, returned: bool) -> Step {
        let is_busy = count >= LEAST;
        self.row = if is_busy { self.row + 1 } else { 0 };
        self.stage = Stage::Open { returned: returned || is_busy };
        if is_busy && self.next.is_empty() {
            return Step::Over(Verdict::Loop(std::mem::take(&mut self.guilty)));
        }
        // What goes round is back as soon as it took to stop.
        let gone = !returned && !is_busy && self.slices > self.drained + UNDER_WAY;
        if gone || self.slices >= MEASURED {
            return Step::Over(if self.came { Verdict::Unclear } else { Verdict::None });
        }
        if self.row < self.wanted {
            return Step::Wait;
        }
        if let Some(target) = self.next.pop() {
            self.target = target;
        }
        (self.base, self.drained) = (count, 0);
        self.enter(Stage::Hold);
        Step::Hold
    }

    /// It came no more.
    fn stopped(&mut self) -> Step {
        match self.target {
            Target::All => {
                self.next = vec![Target::Guilty; CONFIRMED];
                if (2..=TRIED_ALONE).contains(&self.outlets.len()) {
                    self.guilty.clear();
                    self.next.extend((0..self.outlets.len()).rev().map(Target::One));
                }
            }
            Target::One(at) => self.guilty.push(self.outlets[at]),
            Target::Guilty => {}
        }
        self.let_go(false)
    }

    /// It went on coming.
    fn withstood(&mut self) -> Step {
        match self.target {
            Target::All if !self.doubtful => Step::Over(Verdict::None),
            Target::One(_) if !self.doubtful => self.let_go(true),
            _ => Step::Over(Verdict::Unclear),
        }
    }

    fn let_go(&mut self, returned: bool) -> Step {
        self.enter(Stage::Open { returned });
        // Each of several ways may be enough for it to go on: then it takes all of them to stop it.
        if self.guilty.is_empty() && self.next.last() == Some(&Target::Guilty) {
            self.guilty.clone_from(&self.outlets);
        }
        Step::Release
    }

    fn enter(&mut self, stage: Stage) {
        (self.stage, self.slices, self.row, self.doubtful) = (stage, 0, 0, false);
        self.wanted = self.random.u32(if stage == Stage::Hold { SILENT } else { BUSY });
    }
}

/// What is counted together: longer than threads mostly wait for a processor.
const SLICE: Duration = Duration::from_millis(20);

/// Repeated contents that make a slice busy.
const LEAST: u32 = 16;

/// Busy slices in a row before something is held. A rhythm must fit this and what follows in each round.
const BUSY: std::ops::Range<u32> = 5..20;

/// Slices for which these are waited for.
const MEASURED: u32 = 60;

/// Slices in a row in which next to nothing comes: it has stopped.
const SILENT: std::ops::Range<u32> = 2..4;

/// Slices in which what was under way may still come in, and come back later.
const UNDER_WAY: u32 = 2;

/// Slices for which something is held at most.
const HELD: u32 = UNDER_WAY + SILENT.end - 1;

/// Times that it must stop and go on again after it was found.
const CONFIRMED: usize = 5;

/// Outlets that are each held alone, to find those that are part of it.
const TRIED_ALONE: usize = 16;

/// Slices of a hold that may be late.
const MOST_LATE: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const SUSPECT: Suspect = Suspect { listener: 0, source: None };

    /// Carries a test out; `comes`: what comes in a slice of this number while these outlets are held. Tells for how many slices
    /// something was held at most, too.
    fn verdict(outlets: &[usize], seed: u64, mut comes: impl FnMut(u32, &[usize]) -> u32) -> (Verdict, u32) {
        let mut now = Instant::now();
        let mut circuit = Circuit::begin(SUSPECT, outlets.to_vec(), now, Rng::with_seed(seed));
        let (mut held, mut longest, mut long) = (Vec::new(), 0, 0);
        for slice in 0..20_000 {
            long = if held.is_empty() { 0 } else { long + 1 };
            longest = longest.max(long);
            assert_eq!(circuit.holds(), !held.is_empty());
            (0..comes(slice, &held)).for_each(|_| circuit.count());
            now += SLICE;
            match circuit.advance(now) {
                Step::Wait => {}
                Step::Hold => held = circuit.held().to_vec(),
                Step::Release => held.clear(),
                Step::Over(verdict) => return (verdict, longest),
            }
        }
        panic!("it never ends")
    }

    #[test]
    fn what_stops_while_it_is_held_and_comes_back_goes_round() {
        for seed in 0..20 {
            let (found, held) = verdict(&[3], seed, |_, held| if held.is_empty() { 100 } else { 0 });
            assert_eq!(found, Verdict::Loop(vec![3]));
            assert!(held <= SILENT.end);
            // By one of three.
            let by_five = |_, held: &[usize]| if held.contains(&5) { 1 } else { 100 };
            assert_eq!(verdict(&[4, 5, 6], seed, by_five).0, Verdict::Loop(vec![5]));
            // By either of two, so that it takes both to stop it.
            let by_two = |_, held: &[usize]| if held.contains(&4) && held.contains(&6) { 0 } else { 100 };
            assert_eq!(verdict(&[4, 5, 6], seed, by_two).0, Verdict::Loop(vec![4, 5, 6]));
            let many: Vec<usize> = (0..100).collect();
            let by_any = |_, held: &[usize]| if held.is_empty() { 40 } else { 0 };
            assert_eq!(verdict(&many, seed, by_any).0, Verdict::Loop(many));
        }
    }

    #[test]
    fn what_is_under_way_comes_in_first_and_takes_as_long_to_come_back() {
        let (mut since, mut held_before) = (0, false);
        let slow = |_, held: &[usize]| {
            since = if held_before == held.is_empty() { 0 } else { since + 1 };
            held_before = !held.is_empty();
            if (since < UNDER_WAY) == held_before { 60 } else { 0 }
        };
        assert_eq!(verdict(&[0], 1, slow).0, Verdict::Loop(vec![0]));
    }

    #[test]
    fn what_comes_all_the_same_is_none_and_is_soon_let_go() {
        for rate in [LEAST, 100, 640] {
            assert_eq!(verdict(&[0, 1], 1, |_, _| rate), (Verdict::None, UNDER_WAY + 1));
        }
    }

    #[test]
    fn what_ends_by_itself_is_unclear() {
        assert_eq!(
            verdict(&[0], 1, |slice, held| if slice < 30 && held.is_empty() { 100 } else { 0 }).0,
            Verdict::Unclear
        );
        assert_eq!(verdict(&[0], 1, |_, _| LEAST - 1).0, Verdict::Unclear, "too little to tell");
    }

    #[test]
    fn what_only_looked_as_if_it_came_again_is_none_and_is_never_held() {
        assert_eq!(verdict(&[0, 1], 1, |_, _| 0), (Verdict::None, 0));
    }

    #[test]
    fn a_thread_without_a_processor_judges_nothing() {
        let mut now = Instant::now();
        let mut circuit = Circuit::begin(SUSPECT, vec![0], now, Rng::with_seed(1));
        while !circuit.holds() {
            (0..100).for_each(|_| circuit.count());
            now += SLICE;
            circuit.advance(now);
        }
        for _ in 0..MOST_LATE {
            now += 5 * SLICE;
            assert_eq!(circuit.advance(now), Step::Wait, "silence that nobody has listened to");
        }
        now += 5 * SLICE;
        assert_eq!(circuit.advance(now), Step::Over(Verdict::Unclear));
    }

    /// Another machine of the loop, or this one, has stood still.
    #[test]
    fn what_comes_late_is_unclear() {
        for seed in 0..20 {
            for outlets in [&[4][..], &[4, 5]] {
                // While the last of them is held alone: after one silent slice it all comes at once.
                let mut long = 0;
                let last = |held: &[usize]| held == [outlets[outlets.len() - 1]];
                let late = |_, held: &[usize]| {
                    long = if last(held) { long + 1 } else { 0 };
                    if held.is_empty() || long > 1 { 100 } else { 0 }
                };
                assert_eq!(verdict(outlets, seed, late).0, Verdict::Unclear, "{outlets:?} {seed}");
            }
        }
    }

    #[test]
    fn what_comes_after_nobody_has_looked_is_unclear() {
        let mut now = Instant::now();
        let mut circuit = Circuit::begin(SUSPECT, vec![0], now, Rng::with_seed(1));
        let mut step = |slices: u32| {
            (0..100).for_each(|_| circuit.count());
            now += slices * SLICE;
            circuit.advance(now)
        };
        while step(1) != Step::Hold {}
        assert_eq!(step(5), Step::Wait);
        let rest: Vec<_> = (0..=UNDER_WAY).map(|_| step(1)).collect();
        assert_eq!(rest.last(), Some(&Step::Over(Verdict::Unclear)), "{rest:?}");
    }

    /// A sender with a rhythm of its own, whatever it is, does not stop and go on six times in step with a test.
    #[test]
    fn a_rhythm_is_no_loop() {
        let mut found = Vec::new();
        let all = (1..40).flat_map(|on| (1..12).flat_map(move |off| (0..5).map(move |shift| (on, off, shift * 7))));
        for (seed, (on, off, shift)) in all.enumerate() {
            let comes = |slice: u32, _: &[usize]| if (slice + shift) % (on + off) < on { 100 } else { 0 };
            if let (Verdict::Loop(_), _) = verdict(&[0], seed as u64, comes) {
                found.push((on, off));
            }
        }
        assert!(found.len() <= 1, "{found:?} of 2,145: by chance it is one of 10,000");
    }
}
