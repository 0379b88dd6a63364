//! Keeping processors awake where that helps, and giving it up where the host of a virtual machine makes one pay.
//!
//! Waking a processor takes tens of microseconds, which keeping it from sleeping saves. But then an idle processor
//! spins, and a host that allots processor time stops who has used up its own: for 100 ms at a time, seen as steal.

use std::time::Duration;

use weir_kernel::contention::Contention;
use weir_kernel::scheduling::Awake;
use weir_program::clock::{Nanos, nanos};

/// What was chosen, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Nobody asked for it.
    Unwanted,
    /// It was asked for in vain.
    Refused(String),
    /// A trial went well.
    Kept,
    /// The host took so much of a processor within [`RECENT`].
    GivenUp {
        /// Since the lab began to keep processors awake.
        after: Duration,
        /// Which.
        processor: usize,
        /// How much.
        stolen: Duration,
    },
}

impl Choice {
    /// As a fact about the run.
    pub fn words(&self) -> String {
        let sleep = "may sleep between packets";
        match self {
            Choice::Unwanted => sleep.into(),
            Choice::Refused(why) => format!("{sleep} ({why})"),
            Choice::Kept => format!(
                "kept awake (/dev/cpu_dma_latency): the host never took {} ms of one within a second",
                MOST_STOLEN.as_millis()
            ),
            Choice::GivenUp { after, processor, stolen } => format!(
                "{sleep}: kept awake, the host took {} ms of processor {processor} within a second; given up after {:.1} s",
                stolen.as_millis(),
                after.as_secs_f64()
            ),
        }
    }
}

/// Holds the request as long as it does no harm.
pub(super) struct Keeper {
    held: Option<Awake>,
    choice: Choice,
    since: Nanos,
    /// What had been stolen by then, as far back as [`RECENT`].
    readings: Vec<(Nanos, Contention)>,
}

impl Keeper {
    /// Begins a trial at `now`, if it is wanted and may be.
    pub(super) fn new(wanted: bool, now: Nanos) -> Keeper {
        let (held, choice) = match wanted.then(Awake::request) {
            None => (None, Choice::Unwanted),
            Some(Ok(held)) => (Some(held), Choice::Kept),
            Some(Err(error)) => (None, Choice::Refused(error.to_string())),
        };
        Keeper { held, choice, since: now, readings: Vec::new() }
    }

    /// Whether processors are kept awake.
    pub(super) fn holds(&self) -> bool {
        self.held.is_some()
    }

    pub(super) fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Looks at what has been taken until `now`, and gives up if it is too much.
    pub(super) fn judge(&mut self, now: Nanos, taken: &Contention) {
        self.readings.retain(|(at, _)| now - at <= nanos(RECENT));
        if let Some((processor, stolen)) = most_stolen(self.readings.first().map(|(_, first)| first), taken)
            && stolen >= MOST_STOLEN
            && self.held.take().is_some()
        {
            self.choice = Choice::GivenUp { after: Duration::from_nanos(now - self.since), processor, stolen };
        }
        self.readings.push((now, taken.clone()));
    }
}

/// The processor of which most was stolen between two readings.
fn most_stolen(before: Option<&Contention>, now: &Contention) -> Option<(usize, Duration)> {
    let stolen = before?.stolen.iter().zip(&now.stolen).map(|(before, now)| now.saturating_sub(*before));
    stolen.enumerate().max_by_key(|(_, stolen)| *stolen)
}

/// How long it is tried before anything is measured.
pub(super) const TRIAL: Duration = Duration::from_secs(1);

/// What is stolen within this time is looked at together.
const RECENT: Duration = Duration::from_secs(1);

/// So much of one processor: two ticks. One may be a coincidence.
const MOST_STOLEN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn stolen(ms: [u64; 2]) -> Contention {
        Contention { stolen: ms.map(Duration::from_millis).into(), throttled: None }
    }

    #[test]
    fn steal_ends_it_and_says_when_and_where() {
        let path = std::env::temp_dir().join(format!("weir-awake-{}", std::process::id()));
        let held = Some(Awake::of(std::fs::File::create(&path).unwrap()));
        std::fs::remove_file(path).unwrap();
        let mut keeper = Keeper { held, choice: Choice::Kept, since: 0, readings: Vec::new() };
        // Before the lab began the host had taken much; since then a tick every two seconds.
        for (at, ms) in [(0, 5000), (900, 5010), (2000, 5010), (2900, 5020)] {
            keeper.judge(at * MS, &stolen([0, ms]));
            assert!(keeper.holds(), "{at}");
        }
        keeper.judge(3800 * MS, &stolen([0, 5120]));
        assert!(!keeper.holds());
        let given_up = "may sleep between packets: kept awake, the host took 100 ms of processor 1 within a second; given up after 3.8 s";
        assert_eq!(keeper.choice().words(), given_up);
        keeper.judge(3900 * MS, &stolen([500, 5120]));
        assert_eq!(keeper.choice().words(), given_up, "once is enough");
    }

    #[test]
    fn who_does_not_ask_gets_nothing() {
        let keeper = Keeper::new(false, 0);
        assert_eq!((keeper.holds(), keeper.choice().words().as_str()), (false, "may sleep between packets"));
    }
}
