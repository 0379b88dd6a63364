//! What each processor does: its time by kind, its interrupts, and its rounds of receiving packets.

use std::collections::BTreeMap;
use std::fs;

use procfs::{CurrentSI, KernelStats};

use crate::Error;
use crate::error::During;

/// Counters of one processor since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Ticks (mostly 10 ms, proc_stat(5)) in programs.
    pub user: u64,
    /// Ticks in the kernel on behalf of programs.
    pub system: u64,
    /// Ticks in interrupts. Without CONFIG_IRQ_TIME_ACCOUNTING only whole ticks that met one are counted: coarse.
    pub irq: u64,
    /// Ticks in softirqs, coarse as above. Those that ksoftirqd does are among them.
    pub softirq: u64,
    /// Ticks in all, idle ones included.
    pub all: u64,
    /// Interrupts, those from other processors and the timer's included (/proc/interrupts).
    pub interrupts: u64,
    /// Softirqs that received packets (NET_RX of /proc/softirqs).
    pub net_rx: u64,
}

/// The counters of all processors that are online, by number.
///
/// # Errors
/// Without /proc.
pub fn read() -> Result<BTreeMap<usize, Work>, Error> {
    let stats = KernelStats::current().map_err(|error| Error::answer("read /proc/stat", error.to_string()))?;
    let interrupts = table(&file("/proc/interrupts")?, |_| true);
    let net_rx = table(&file("/proc/softirqs")?, |name| name == "NET_RX");
    // The lines of /proc/stat have lost their numbers here: they are those of /proc/interrupts, both have the online
    // ones in order.
    let times = stats.cpu_time.iter().zip(interrupts);
    let work = times.map(|(time, (processor, interrupts))| {
        let (irq, softirq) = (time.irq.unwrap_or(0), time.softirq.unwrap_or(0));
        let (user, system) = (time.user + time.nice, time.system);
        let others = time.idle + time.iowait.unwrap_or(0) + time.steal.unwrap_or(0);
        let net_rx = net_rx.get(&processor).copied().unwrap_or(0);
        (
            processor,
            Work { user, system, irq, softirq, all: user + system + irq + softirq + others, interrupts, net_rx },
        )
    });
    Ok(work.collect())
}

impl Work {
    /// What was done since `earlier`.
    pub fn since(&self, earlier: &Work) -> Work {
        Work {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            irq: self.irq.saturating_sub(earlier.irq),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            all: self.all.saturating_sub(earlier.all),
            interrupts: self.interrupts.saturating_sub(earlier.interrupts),
            net_rx: self.net_rx.saturating_sub(earlier.net_rx),
        }
    }
}

impl std::ops::Add for Work {
    type Output = Work;

    fn add(self, other: Work) -> Work {
        Work {
            user: self.user + other.user,
            system: self.system + other.system,
            irq: self.irq + other.irq,
            softirq: self.softirq + other.softirq,
            all: self.all + other.all,
            interrupts: self.interrupts + other.interrupts,
            net_rx: self.net_rx + other.net_rx,
        }
    }
}

fn file(path: &str) -> Result<String, Error> {
    fs::read_to_string(path).during(|| format!("read {path}"))
}

/// The sums of the wanted lines, by processor. A line `CPU0 CPU1 ...` of headings, then `name: count count ... words`; a
/// line with fewer counts than processors (`ERR:`) is of none of them.
fn table(text: &str, wanted: impl Fn(&str) -> bool) -> BTreeMap<usize, u64> {
    let mut lines = text.lines();
    let headings = lines.next().unwrap_or_default().split_whitespace();
    let processors: Vec<usize> = headings.filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    let mut sums: BTreeMap<usize, u64> = processors.iter().map(|&processor| (processor, 0)).collect();
    for line in lines {
        let Some((_, counts)) = line.split_once(':').filter(|(name, _)| wanted(name.trim())) else { continue };
        let counts: Vec<u64> = counts.split_whitespace().map_while(|count| count.parse().ok()).collect();
        if counts.len() >= processors.len() {
            for (processor, count) in processors.iter().zip(counts) {
                *sums.entry(*processor).or_default() += count;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_kernels_write() {
        let interrupts = "           CPU0       CPU2\n 24:   1   2   IO-APIC   5-edge  ACPI:Ged\nLOC:   10   20   \
                          Local timer interrupts\nERR:          7\n";
        assert_eq!(table(interrupts, |_| true), BTreeMap::from([(0, 11), (2, 22)]));
        let softirqs = "      CPU0  CPU1\n NET_TX: 5 6\n NET_RX: 7 8\n";
        assert_eq!(table(softirqs, |name| name == "NET_RX"), BTreeMap::from([(0, 7), (1, 8)]));
    }

    #[test]
    fn a_busy_thread_is_seen() {
        let before = read().unwrap();
        let busy = |work: Work| work.all > 0 && work.user + work.system + work.irq + work.softirq > 0;
        loop {
            let now = read().unwrap();
            assert_eq!(now.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
            let sum = now.iter().map(|(number, work)| work.since(&before[number])).fold(Work::default(), |a, b| a + b);
            // This loop is the work; the timer interrupts it.
            if busy(sum) && sum.interrupts > 0 {
                return;
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "\\PC*", lines in "( CPU[0-9]{1,2}){0,4}\n([A-Z]{1,3}:( [0-9]{1,4}){0,5}\n){0,4}") {
            table(&text, |_| true);
            table(&lines, |_| true);
        }
    }
}
