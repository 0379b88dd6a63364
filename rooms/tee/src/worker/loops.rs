//! Whether what a worker sends comes back to it, and what is done about that: `repeats` suspects, `circuit` tests,
//! `returning` keeps it from going round.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use nix::time::{ClockId, clock_gettime};
use weir_dgram::Received;

use super::circuit::{Circuit, Step, Verdict};
use super::repeats::{Repeats, Suspect};
use super::thread::Worker;
use super::turn::Turn;
use crate::counters::LoopKey;
use crate::plan::Plan;
use crate::settings::OnLoop;

/// What a worker knows of loops.
pub(super) struct Loops {
    action: OnLoop,
    repeats: Repeats,
    circuit: Option<Circuit>,
    /// Suspects that were tested, and are not tested again for a while.
    tested: HashMap<Suspect, Tested>,
    /// Until when there is no further test, ms.
    rest: u64,
    /// Whether lanes may have something to remember of what they sent, and when that was last looked at, ms.
    stops: bool,
    looked: u64,
    /// Time of the last batch, ms from any moment on.
    now: u64,
}

/// A suspect that was tested.
#[derive(Clone, Copy)]
struct Tested {
    /// Until when it is not tested again, ms.
    until: u64,
    /// How often in a row it was found to be in no loop.
    times: u32,
}

impl Loops {
    /// Nothing is known.
    pub(super) fn new(action: OnLoop) -> Self {
        Self {
            action,
            repeats: Repeats::new(),
            circuit: None,
            tested: HashMap::new(),
            rest: 0,
            stops: false,
            looked: 0,
            now: 0,
        }
    }

    /// Begins a batch.
    pub(super) fn begin_batch(&mut self) {
        if self.action == OnLoop::Off {
            return;
        }
        // The clock of the kernel's ticks: it costs next to nothing.
        let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE) else { return };
        self.now = Duration::from(now).as_millis() as u64;
        self.repeats.tell_time(self.now as u32);
    }

    /// Time of the last batch, ms from any moment on, modulo 2^32.
    pub(super) fn now(&self) -> u32 {
        self.now as u32
    }

    /// Looks at a message of the batch, if there is time to.
    pub(super) fn see(&mut self, listener: usize, message: &Received<'_>) {
        if !self.repeats.wants() {
            return;
        }
        let (source, first) = (message.source.ip(), message.segments().next().unwrap_or_default());
        if !self.repeats.see(first) {
            return;
        }
        match &mut self.circuit {
            Some(circuit) if circuit.suspect.is(listener, source) => circuit.count(),
            Some(_) => {}
            None => {
                // Who was found to repeat himself must not hide others.
                let from = Suspect { listener, source: Some(source) };
                if !self.is_known(from) {
                    self.repeats.vote(from);
                }
            }
        }
    }

    /// Whether a test is under way.
    pub(super) fn is_testing(&self) -> bool {
        self.circuit.is_some()
    }

    /// When there is something to do, if nothing comes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.circuit.as_ref().map(Circuit::deadline)
    }

    /// Whom to test now.
    fn suspect(&mut self) -> Option<Suspect> {
        let suspect = self.repeats.suspect()?;
        (self.rest <= self.now && !self.is_known(suspect)).then_some(suspect)
    }

    /// Whether it was tested not long ago.
    fn is_known(&self, suspect: Suspect) -> bool {
        self.tested.get(&suspect).is_some_and(|tested| self.now < tested.until)
    }

    /// Notes what came of a test: when the next one may be.
    fn note(&mut self, suspect: Suspect, verdict: &Verdict) {
        self.rest = self.now + BETWEEN_TESTS;
        self.repeats.look_closely(false);
        let times = self.tested.get(&suspect).map_or(0, |tested| tested.times);
        let (pause, times) = match verdict {
            Verdict::Loop(_) => (WHILE_THERE, 0),
            Verdict::None => (INNOCENT.saturating_mul(4_u64.saturating_pow(times)).min(LONGEST), times + 1),
            Verdict::Unclear => (UNCLEAR.saturating_mul(4_u64.saturating_pow(times / 4)).min(LONGEST), times + 1),
        };
        if self.tested.len() >= TESTED {
            // The one that would be tested first.
            let first = self.tested.iter().min_by_key(|(_, tested)| tested.until).map(|(suspect, _)| *suspect);
            first.map(|first| self.tested.remove(&first));
        }
        self.tested.insert(suspect, Tested { until: self.now + pause, times });
    }
}

impl Worker {
    /// Goes on with the test of a suspect, or begins one.
    pub(super) fn mind_loops(&mut self) {
        match &mut self.loops.circuit {
            None => {
                if let Some(suspect) = self.loops.suspect() {
                    self.begin_test(suspect);
                }
            }
            Some(circuit) => match circuit.advance(Instant::now()) {
                Step::Wait => {}
                Step::Hold => self.hold(true),
                Step::Release => {
                    // A queue that fills up shows as well as anything that its outlet is no part of what goes on.
                    let gave_up = circuit.has_stopped() && self.gave_up();
                    self.hold(false);
                    if gave_up {
                        self.end_test(&Verdict::Unclear);
                    }
                }
                Step::Over(verdict) => {
                    let verdict = if self.gave_up() { Verdict::Unclear } else { verdict };
                    self.end_test(&verdict);
                }
            },
        }
        if self.loops.stops && self.loops.now - self.loops.looked >= LOOKS_APART {
            self.loops.looked = self.loops.now;
            self.loops.stops = self.lanes.forget_returned(self.loops.now());
        }
    }

    /// Ends a test under way without a verdict: the plan changes, or the worker ends.
    pub(super) fn break_off_test(&mut self) {
        if self.loops.is_testing() {
            self.end_test(&Verdict::Unclear);
        }
    }

    fn begin_test(&mut self, suspect: Suspect) {
        let outlets = self.ways(suspect);
        if outlets.is_empty() || outlets.len() > MOST_HELD {
            self.loops.note(suspect, &Verdict::Unclear);
            return;
        }
        self.loops.repeats.look_closely(true);
        self.loops.circuit = Some(Circuit::begin(suspect, outlets, Instant::now(), Rng::new()));
    }

    fn end_test(&mut self, verdict: &Verdict) {
        self.hold(false);
        let Some(circuit) = self.loops.circuit.take() else { return };
        self.loops.note(circuit.suspect, verdict);
        self.plan.books.loops().count_test();
        tracing::debug!("test for a loop of {:?}: {verdict:?}", circuit.suspect);
        let Verdict::Loop(outlets) = verdict else { return };
        for &at in outlets {
            let outlet = &self.plan.outlets[at];
            let entry = self.plan.books.loops().find(LoopKey {
                listener: self.plan.listeners[circuit.suspect.listener].settings.name.clone(),
                source: circuit.suspect.source,
                destination: outlet.settings.name.clone(),
                address: outlet.address,
            });
            if self.loops.action == OnLoop::Stop {
                self.lanes.stop_returning(at, circuit.suspect, entry, self.loops.now());
                self.loops.stops = true;
            }
        }
    }

    /// Holds what goes to the outlets of the test, or lets it go.
    fn hold(&mut self, hold: bool) {
        let Self { loops, lanes, events, phase, scratch, .. } = self;
        let Some(circuit) = &loops.circuit else { return };
        let mut turn = Turn::begin(phase, scratch);
        for &at in circuit.held() {
            lanes.hold(at, hold, events, &mut turn);
        }
    }

    /// Whether a queue was too short for what was held.
    fn gave_up(&mut self) -> bool {
        let Self { loops, lanes, .. } = self;
        loops.circuit.as_ref().is_some_and(|circuit| {
            let mut held = circuit.held().iter();
            held.any(|&at| lanes.get(at).is_none_or(|lane| lane.egress.gave_up()))
        })
    }

    /// The outlets that a suspect's datagrams may go to, if there is an end to them.
    fn ways(&mut self, suspect: Suspect) -> Vec<usize> {
        let Suspect { listener, source } = suspect;
        let mut rules = Vec::new();
        match source {
            Some(source) => self.plan.matcher.matching(listener, source, &mut rules),
            None => {
                let settings = self.plan.settings.rules.iter().enumerate();
                let hears =
                    settings.filter(|(_, rule)| rule.listeners.is_empty() || rule.listeners.contains(&listener));
                rules.extend(hears.map(|(at, _)| at));
            }
        }
        let mut ways: Vec<usize> = rules.iter().flat_map(|&rule| outlets(&self.plan, rule)).collect();
        // Who asks again when he is answered goes round as well, and is no loop.
        let now = Instant::now();
        if ways.iter().any(|&at| self.lanes.get(at).is_some_and(|lane| lane.egress.is_answered(now))) {
            return Vec::new();
        }
        ways.sort_unstable();
        ways.dedup();
        ways
    }
}

/// The outlets of a rule.
fn outlets(plan: &Plan, rule: usize) -> impl Iterator<Item = usize> {
    let rule = &plan.rules[rule];
    let members = rule.groups.iter().flat_map(|&group| &plan.groups[group].members);
    rule.outlets.iter().chain(members.flat_map(|member| &member.outlets)).copied()
}

/// A message as whoever looks for what comes back needs it.
#[derive(Clone, Copy)]
pub(super) struct Arrived<'a> {
    /// Index of the listener that it came to.
    pub(super) listener: usize,
    /// Its bytes.
    pub(super) bytes: &'a [u8],
    /// Whether it came with the last hop that it had; `false` where nobody needs to know.
    pub(super) is_last_hop: bool,
    /// When it came, ms.
    pub(super) now: u32,
}

/// From the end of a test to the next, ms.
const BETWEEN_TESTS: u64 = 500;

/// Until a suspect is tested again, ms: that was found to be in a loop, that was not (four times as long each time), of which
/// nothing could be told (four times as long each fourth time).
const WHILE_THERE: u64 = 10_000;
const INNOCENT: u64 = 60_000;
const UNCLEAR: u64 = 1_000;
const LONGEST: u64 = 3_600_000;

/// From one look whether something comes back still to the next, ms.
const LOOKS_APART: u64 = 1_000;

/// Suspects that are remembered.
const TESTED: usize = 1_024;

/// Outlets that are held at once.
const MOST_HELD: usize = 1_024;
