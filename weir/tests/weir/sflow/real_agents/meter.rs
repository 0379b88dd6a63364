//! What the kernel counted at every moment, to be compared with what somebody says of a time.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use weir_kernel::namespaces::NetNs;
use weir_testbed::PATIENCE;

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    /// A counter of an interface: its column of /proc/net/dev.
    Column { interface: &'static str, column: usize },
    /// What follows from several.
    Of(fn(&Reading) -> f64),
}

pub(super) const RX_OCTETS: usize = 0;
pub(super) const RX_PACKETS: usize = 1;
pub(super) const TX_OCTETS: usize = 8;
pub(super) const TX_PACKETS: usize = 9;

/// Reads the counters of a network's interfaces every few milliseconds, until dropped.
pub(super) struct Meter {
    readings: Arc<Mutex<Vec<Reading>>>,
    over: Arc<AtomicBool>,
}

/// /proc/net/dev and /proc/net/snmp of a network.
#[derive(Debug)]
pub(super) struct Reading {
    at: Instant,
    text: String,
    protocols: String,
}

impl Meter {
    pub(super) fn start(ns: &NetNs) -> Meter {
        let meter = Meter { readings: Arc::default(), over: Arc::default() };
        let (readings, over, ns) = (meter.readings.clone(), meter.over.clone(), ns.try_clone().unwrap());
        let read = move || {
            while !over.load(Ordering::Relaxed) {
                let [text, protocols] =
                    ["dev", "snmp"].map(|file| fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap());
                readings.lock().unwrap().push(Reading { at: Instant::now(), text, protocols });
                thread::sleep(Duration::from_millis(10));
            }
        };
        thread::spawn(move || ns.run(read).unwrap());
        meter
    }

    /// All of them, with one behind an instant: who reads may have stood still.
    #[track_caller]
    fn readings(&self, at: Instant) -> MutexGuard<'_, Vec<Reading>> {
        let begin = Instant::now();
        loop {
            let readings = self.readings.lock().unwrap();
            if readings.last().is_some_and(|last| last.at >= at) {
                return readings;
            }
            drop(readings);
            assert!(begin.elapsed() < PATIENCE, "nobody reads the counters");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The counter at an instant, on the line between the readings around it.
    pub(super) fn at(&self, count: &Count, at: Instant) -> f64 {
        let readings = self.readings(at);
        let next = readings.partition_point(|reading| reading.at <= at).clamp(1, readings.len() - 1);
        let [before, after] = [&readings[next - 1], &readings[next]];
        let share = (at - before.at).as_secs_f64() / (after.at - before.at).as_secs_f64();
        let [from, to] = [before, after].map(|reading| reading.value(count));
        from + (to - from) * share.min(1.0)
    }

    /// Its rate a second at an instant, smoothed exponentially with this time constant in seconds.
    pub(super) fn smoothed(&self, count: &Count, at: Instant, t: f64) -> f64 {
        let readings = self.readings(at);
        let weight = |then: Instant| (-(at.saturating_duration_since(then).as_secs_f64()) / t).exp() / t;
        // What is older weighs nothing.
        let steps = readings.windows(2).filter(|step| step[0].at < at && weight(step[1].at) * t > 1e-6);
        // The last step goes on behind the instant.
        let share = |from: Instant, to: Instant| ((at - from).as_secs_f64() / (to - from).as_secs_f64()).min(1.0);
        let grown = |step: &[Reading]| (step[1].value(count) - step[0].value(count)) * share(step[0].at, step[1].at);
        // Weights at both ends: a step may be as long as the machine stood still.
        steps.map(|step| grown(step) * (weight(step[0].at) + weight(step[1].at)) / 2.0).sum()
    }
}

impl Reading {
    fn value(&self, count: &Count) -> f64 {
        match count {
            Count::Column { interface, column } => self.column(interface, *column),
            Count::Of(what) => what(self),
        }
    }

    pub(super) fn column(&self, interface: &str, column: usize) -> f64 {
        let named = |line: &&str| line.trim_start().strip_prefix(interface).is_some_and(|rest| rest.starts_with(':'));
        let line = self.text.lines().find(named).unwrap();
        line.split_once(':').unwrap().1.split_whitespace().nth(column).unwrap().parse().unwrap()
    }

    /// A counter of a protocol: `Tcp`, `OutSegs`.
    pub(super) fn protocol(&self, protocol: &str, name: &str) -> f64 {
        let mut lines = self.protocols.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(':'));
        let [names, values] = [lines.next().unwrap(), lines.next().unwrap()];
        let at = names.split_whitespace().position(|one| one == name).unwrap();
        values.split_whitespace().nth(at).unwrap().parse().unwrap()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
