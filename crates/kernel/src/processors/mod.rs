//! Who used the processors: this process and its children, the kernel's packet work, or somebody else; and for what.

pub(crate) mod activity;

use std::collections::{HashMap, HashSet};

pub use activity::{Activity, Line, Processor, Times};
use procfs::process::{Stat, all_processes};
use procfs::{CurrentSI, KernelStats, ProcResult};

use crate::Error;

/// The processors' accounts at one moment, in ticks of the kernel (mostly 10 ms; proc_stat(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processors {
    /// Everything, idle time included, over all processors.
    all: u64,
    /// Nothing to do.
    idle: u64,
    /// Programs, in user space and in the kernel. Interrupts and packet work (softirq) are not in it.
    programs: u64,
    /// Of these, this process and its descendants.
    own: u64,
    /// What the host of this virtual machine took.
    stolen: u64,
}

impl Processors {
    /// Reads the accounts.
    ///
    /// # Errors
    /// Without /proc.
    pub fn read() -> Result<Self, Error> {
        read().map_err(|error| Error::answer("read /proc/stat", error.to_string()))
    }

    /// The share of all processors that nobody wanted since `earlier`, 0 to 1.
    pub fn idle_share(&self, earlier: &Processors) -> f64 {
        let since = |now: u64, before: u64| now.saturating_sub(before) as f64;
        since(self.idle, earlier.idle) / since(self.all, earlier.all).max(1.0)
    }

    /// The share of all processors that others took since `earlier`: other programs and the host, 0 to 1. Over less
    /// than a second the ticks make it coarse.
    pub fn foreign_share(&self, earlier: &Processors) -> f64 {
        let since = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let others = since(self.programs, earlier.programs) - since(self.own, earlier.own);
        let foreign = others.max(0.0) + since(self.stolen, earlier.stolen);
        foreign / since(self.all, earlier.all).max(1.0)
    }
}

fn read() -> ProcResult<Processors> {
    let total = KernelStats::current()?.total;
    let stolen = total.steal.unwrap_or(0);
    let programs = total.user + total.nice + total.system;
    let waiting = total.idle + total.iowait.unwrap_or(0);
    let interrupts = total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
    Ok(Processors { all: programs + waiting + interrupts + stolen, idle: waiting, programs, own: own()?, stolen })
}

/// Ticks of this process and all below it, those that have ended and were waited for included.
fn own() -> ProcResult<u64> {
    // A process that ends meanwhile is counted by the one that waits for it.
    let stats: Vec<Stat> = all_processes()?.filter_map(|process| process.ok()?.stat().ok()).collect();
    let mut children: HashMap<i32, Vec<&Stat>> = HashMap::new();
    stats.iter().for_each(|stat| children.entry(stat.ppid).or_default().push(stat));
    let me = std::process::id() as i32;
    let mut waiting: Vec<&Stat> = stats.iter().filter(|stat| stat.pid == me).collect();
    let (mut ticks, mut seen) = (0, HashSet::new());
    while let Some(stat) = waiting.pop() {
        if seen.insert(stat.pid) {
            ticks += stat.utime + stat.stime + (stat.cutime + stat.cstime).max(0) as u64;
            waiting.extend(children.get(&stat.pid).into_iter().flatten());
        }
    }
    Ok(ticks)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn own_work_is_not_foreign_and_neither_is_that_of_children() {
        let mut before = Processors::read().unwrap();
        let begin = Instant::now();
        let child = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        loop {
            assert!(Command::new("sh").args(["-c", child]).status().unwrap().success());
            let after = Processors::read().unwrap();
            let (own, programs) = (after.own - before.own, after.programs - before.programs);
            // However small its share of a busy machine is.
            if own >= 20 {
                // The one is measured, the other sampled by the tick, which misses what passes while the machine stands still.
                if programs + 2 + own / 5 >= own {
                    break;
                }
                before = after;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "the shell's work is not counted: {before:?} {after:?}");
        }
    }

    #[test]
    fn others_are_programs_that_are_not_ours_and_the_host() {
        let before = Processors { all: 1000, idle: 400, programs: 500, own: 200, stolen: 10 };
        let after = Processors { all: 2000, idle: 900, programs: 900, own: 500, stolen: 60 };
        assert!((after.foreign_share(&before) - 0.15).abs() < 1e-12);
        assert_eq!((before.foreign_share(&before), after.idle_share(&before)), (0.0, 0.5));
        let rounded = Processors { own: 601, ..after };
        assert!((rounded.foreign_share(&before) - 0.05).abs() < 1e-12, "ticks do not make it negative");
    }
}
