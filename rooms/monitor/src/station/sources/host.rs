//! This machine's own metrics, out of /proc: processors, memory, load, interfaces.

use std::collections::HashMap;

use anyhow::Result;
use procfs::{Current, CurrentSI, KernelStats, LoadAverage, Meminfo, net};
use weir_program::clock::Nanos;

use super::clocked::{Clocked, Due};
use super::{Next, Source};
use crate::station::board::{Board, Id, Opening};
use crate::station::settings::Source as Settings;

/// Read at its rate.
#[derive(Debug)]
pub(super) struct Host {
    number: usize,
    settings: Settings,
    clocked: Option<Clocked>,
    read: Option<Read>,
    channels: HashMap<String, Id>,
}

/// Counters as they were.
#[derive(Clone, Debug, Default)]
struct Read {
    at: Nanos,
    busy: u64,
    all: u64,
    interfaces: HashMap<String, [u64; 2]>,
}

/// A value with what it is.
struct Metric {
    name: String,
    unit: &'static str,
    description: &'static str,
    value: f64,
}

impl Host {
    pub(super) fn new(number: usize, settings: &Settings) -> Self {
        Self { number, settings: settings.clone(), clocked: None, read: None, channels: HashMap::new() }
    }

    fn metrics(&mut self, now: Nanos) -> Vec<Metric> {
        let mut metrics = Vec::new();
        let mut add = |name: String, unit, description, value| metrics.push(Metric { name, unit, description, value });
        let mut read = Read { at: now, ..Read::default() };
        let before = self.read.take().unwrap_or_default();
        let rate = |now: u64, then: Option<u64>, elapsed: Nanos| match then {
            // A counter that is less than it was began anew.
            Some(then) if now >= then && elapsed > 0 => (now - then) as f64 * 1e9 / elapsed as f64,
            _ => f64::NAN,
        };
        if let Ok(KernelStats { total, .. }) = KernelStats::current() {
            let parts = [total.user, total.nice, total.system, total.irq.unwrap_or(0), total.softirq.unwrap_or(0)];
            read.busy = parts.iter().sum::<u64>() + total.steal.unwrap_or(0);
            read.all = read.busy + total.idle + total.iowait.unwrap_or(0);
            let (busy, all) = (read.busy.checked_sub(before.busy), read.all.checked_sub(before.all));
            let share = match (busy, all) {
                (Some(busy), Some(all)) if all > 0 && before.all > 0 => busy as f64 * 100.0 / all as f64,
                _ => f64::NAN,
            };
            add("cpu.busy".into(), "%", "of all processors' time", share);
        }
        if let Ok(memory) = Meminfo::current() {
            let free = memory.mem_available.unwrap_or(memory.mem_free);
            add(
                "memory.used".into(),
                "B",
                "memory that is not available",
                memory.mem_total.saturating_sub(free) as f64,
            );
        }
        if let Ok(load) = LoadAverage::current() {
            add("load.1min".into(), "", "tasks that run or wait, over a minute", load.one.into());
        }
        if let Ok(interfaces) = net::dev_status() {
            let mut interfaces: Vec<_> = interfaces.into_iter().collect();
            interfaces.sort_by(|a, b| a.0.cmp(&b.0));
            for (name, status) in interfaces {
                let then = before.interfaces.get(&name).copied();
                let elapsed = now - before.at.min(now);
                let [received, sent] = [status.recv_bytes, status.sent_bytes];
                let of = |at: usize| then.map(|then| then[at]);
                add(format!("{name}.received"), "B/s", "payload of frames", rate(received, of(0), elapsed));
                add(format!("{name}.sent"), "B/s", "payload of frames", rate(sent, of(1), elapsed));
                read.interfaces.insert(name, [received, sent]);
            }
        }
        self.read = Some(read);
        metrics
    }
}

impl Source for Host {
    fn take(&mut self, board: &mut Board) -> Result<Next> {
        let (now, rate) = (board.now.elapsed, self.settings.rate);
        let Some(clocked) = &mut self.clocked else {
            // What is counted needs a first reading.
            self.clocked = Some(Clocked::new(rate, now));
            self.metrics(now);
            return Ok(Next::At(now + 1));
        };
        let Due { missed, samples } = clocked.take_newest(now);
        let next = clocked.due();
        if samples == 0 {
            return Ok(Next::At(next));
        }
        let due = missed + samples;
        let mut there = Vec::new();
        for Metric { name, unit, description, value } in self.metrics(now) {
            let prefix = &self.settings.name;
            let name = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            let known = self.channels.get(&name).copied();
            let channel = known.or_else(|| {
                // That its first sample is of now.
                let opening = Opening::of(self.number, &self.settings, &name, board.now.utc);
                board.channel(&Opening { unit, description, ..opening })
            });
            let Some(id) = channel else { continue };
            if known.is_none() {
                self.channels.insert(name, id);
            } else if missed > 0 {
                board.skip(id, missed);
            }
            board.samples(id, &[value]);
            there.push(id);
        }
        // Interfaces may go, and come back.
        let gone: Vec<Id> = self.channels.values().copied().filter(|id| !there.contains(id)).collect();
        gone.into_iter().for_each(|id| board.skip(id, due));
        Ok(Next::At(next))
    }
}
