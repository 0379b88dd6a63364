//! The machine while cells run: when it stood still, who else took its processors, and whether they are kept awake.
//!
//! A [`heartbeat`] on each processor notes [`standstills`]; one more thread reads what the host of a virtual machine and
//! the quota of our control group took, and lets processors sleep again where keeping them [`awake`] costs more than it
//! brings. Everybody who measures holds a [`Mark`] and asks what happened since.

pub mod awake;
mod heartbeat;
pub mod standstills;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_kernel::contention::{self, Contention, Observer};

use weir_program::clock::{Nanos, now};
use weir_stats::Distribution;

pub use self::awake::Choice;
use self::awake::{Keeper, TRIAL};
use self::heartbeat::{Heartbeat, INTERVAL};
use self::standstills::Standstill;

/// Watches the machine until dropped.
pub struct Machine {
    heartbeat: Heartbeat,
    watched: Arc<Mutex<Watched>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// As it was at the start, in words: name and value.
    facts: Vec<(String, String)>,
    started: Mark,
}

/// What the watching thread has seen.
struct Watched {
    keeper: Keeper,
    observer: Observer,
    last: Contention,
    taken: Vec<LostTime>,
    /// What looking has taken of the processors.
    spent: Duration,
}

/// What was taken from us in a short time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostTime {
    /// When that ended, ns of CLOCK_MONOTONIC.
    pub at: Nanos,
    /// By the host of this virtual machine, all processors together.
    pub stolen: Duration,
    /// By the quota of our control group.
    pub throttled: Duration,
}

/// A moment from which on somebody wants to know.
pub struct Mark {
    at: Nanos,
    beats: heartbeat::Mark,
}

/// What happened since a [`Mark`].
pub struct Observed {
    /// The mark's time.
    pub from: Nanos,
    /// The end of it.
    pub to: Nanos,
    /// How late the heartbeats were.
    pub lateness: Distribution,
    /// Those late enough, by processor (`None`: any), in order of time.
    pub standstills: Vec<Standstill<Option<usize>>>,
    /// Further ones that nobody remembers.
    pub forgotten: u64,
    /// What others took; times in which they took nothing are left out.
    pub taken: Vec<LostTime>,
    /// Processors that are watched.
    pub processors: usize,
}

impl Machine {
    /// Begins to watch; `realtime`: as those do that measure. Where processors are to be kept `awake`, that is tried first,
    /// which takes a second.
    pub fn start(realtime: bool, awake: bool) -> Machine {
        let observer = Observer::new();
        let facts = facts(&observer);
        let last = observer.read().unwrap_or_default();
        let keeper = Keeper::new(awake, now());
        let tried = keeper.holds();
        let watched =
            Arc::new(Mutex::new(Watched { keeper, observer, last, taken: Vec::new(), spent: Duration::ZERO }));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (watched, stop) = (watched.clone(), stop.clone());
            std::thread::spawn(move || watch(&watched, &stop))
        };
        let heartbeat = Heartbeat::start(realtime);
        let begin = Instant::now();
        while tried && begin.elapsed() < TRIAL && lock(&watched).keeper.holds() {
            std::thread::sleep(EVERY);
        }
        let started = Mark { at: now(), beats: heartbeat.mark() };
        Machine { heartbeat, watched, stop, thread: Some(thread), facts, started }
    }

    /// From here on.
    pub fn mark(&self) -> Mark {
        Mark { at: now(), beats: self.heartbeat.mark() }
    }

    /// What has happened since then.
    pub fn since(&self, mark: &Mark) -> Observed {
        let beats = self.heartbeat.since(&mark.beats);
        let watched = lock(&self.watched);
        let taken = watched.taken.iter().rev().take_while(|taken| taken.at > mark.at);
        let mut taken: Vec<LostTime> = taken.copied().collect();
        taken.reverse();
        Observed {
            from: mark.at,
            to: now(),
            lateness: beats.lateness,
            standstills: beats.standstills,
            forgotten: beats.forgotten,
            taken,
            processors: self.heartbeat.processors(),
        }
    }

    /// Since everything was ready.
    pub fn since_start(&self) -> Observed {
        self.since(&self.started)
    }

    /// Whether processors are kept awake, and why.
    pub fn choice(&self) -> Choice {
        lock(&self.watched).keeper.choice().clone()
    }

    /// What watching has taken of the processors since the start.
    pub fn spent(&self) -> Duration {
        self.heartbeat.spent() + lock(&self.watched).spent
    }

    /// What it was like at the start, name and value.
    pub fn facts(&self) -> &[(String, String)] {
        &self.facts
    }
}

impl Observed {
    /// The share of the processors' time between two moments in which they stood still, 0 to 1.
    pub fn share(&self, from: Nanos, to: Nanos) -> f64 {
        let within = |s: &Standstill<_>| s.end.min(to).saturating_sub(s.start.max(from));
        let stood: Nanos = self.standstills.iter().map(within).sum();
        stood as f64 / (to.saturating_sub(from).max(1) * self.processors.max(1) as u64) as f64
    }

    /// What stood still and what was taken, in words.
    pub fn words(&self) -> String {
        let count = self.standstills.len() as u64 + self.forgotten;
        let longest = self.standstills.iter().map(|s| s.end - s.start).max();
        let taken = |of: fn(&LostTime) -> Duration| self.taken.iter().map(of).sum::<Duration>();
        let (stolen, throttled) = (taken(|taken| taken.stolen), taken(|taken| taken.throttled));
        let mut words = match longest {
            None => "none".to_owned(),
            Some(longest) => format!(
                "{count}, {:.2} % of the processors' time, the longest {:.1} ms",
                self.share(self.from, self.to) * 100.0,
                longest as f64 / 1e6
            ),
        };
        if !stolen.is_zero() {
            words += &format!("; the host took {:.2} s (steal)", stolen.as_secs_f64());
        }
        if !throttled.is_zero() {
            words += &format!("; the quota of our control group {:.2} s", throttled.as_secs_f64());
        }
        words
    }

    /// How exact starts and lengths are: a standstill may have begun so much earlier than it says.
    pub const RESOLUTION: Duration = INTERVAL;
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked has nothing left to say.
            let _ = thread.join();
        }
    }
}

fn watch(watched: &Mutex<Watched>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(EVERY);
        let mut watched = lock(watched);
        watched.look();
        watched.spent = heartbeat::spent_by_this_thread();
    }
}

impl Watched {
    fn look(&mut self) {
        let Ok(read) = self.observer.read() else { return };
        let at = now();
        let stolen = read.stolen.iter().zip(&self.last.stolen).map(|(now, before)| now.saturating_sub(*before)).sum();
        let throttled = read.throttled.unwrap_or_default().saturating_sub(self.last.throttled.unwrap_or_default());
        if stolen > Duration::ZERO || throttled > Duration::ZERO {
            self.taken.push(LostTime { at, stolen, throttled });
        }
        self.keeper.judge(at, &read);
        self.last = read;
    }
}

/// What limits us here, as far as that can be seen.
fn facts(observer: &Observer) -> Vec<(String, String)> {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let quota = observer.quota().map(|quota| {
        let (time, period) = (ms(quota.quota), ms(quota.period));
        format!("{:.2} processors ({time} ms of {period} ms)", quota.processors())
    });
    let bandwidth = contention::realtime_bandwidth();
    let bandwidth = bandwidth.map(|(time, period)| format!("{} ms of {} ms", ms(time), ms(period)));
    let pressure = contention::pressure().ok();
    let pressure = pressure.map(|share| format!("{:.1} % of the last 10 s", share * 100.0));
    let facts = [
        ("cpu quota of the control group", Some(quota.unwrap_or_else(|| "none".into()))),
        ("real-time threads may run", Some(bandwidth.unwrap_or_else(|| "without limit".into()))),
        ("programs waited for a processor", pressure),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn lock(watched: &Mutex<Watched>) -> MutexGuard<'_, Watched> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Between two looks at what others take.
const EVERY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_processors() {
        let at = |start, end, place| Standstill { start, end, place: Some(place) };
        let observed = Observed {
            from: 0,
            to: 1_000_000_000,
            lateness: Distribution::new(),
            standstills: vec![at(0, 100_000_000, 0), at(50_000_000, 150_000_000, 1)],
            forgotten: 0,
            taken: vec![LostTime { at: 9, stolen: Duration::from_millis(200), throttled: Duration::ZERO }],
            processors: 2,
        };
        assert_eq!((observed.share(0, 1_000_000_000), observed.share(100_000_000, 200_000_000)), (0.1, 0.25));
        let words = "2, 10.00 % of the processors' time, the longest 100.0 ms; the host took 0.20 s (steal)";
        assert_eq!(observed.words(), words);
    }

    #[test]
    fn it_tells_what_it_is_like() {
        let machine = Machine::start(false, false);
        let names: Vec<&str> = machine.facts().iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"cpu quota of the control group"), "{names:?}");
        let mark = machine.mark();
        while machine.since(&mark).lateness.n() == 0 {
            std::thread::sleep(INTERVAL);
        }
        assert_eq!(machine.choice(), Choice::Unwanted);
    }
}
