//! What each processor does: time by kind, interrupts by line, softirqs by kind.

use std::fs;
use std::time::Duration;

use crate::Error;
use crate::error::During;

/// The processors' running counters at one moment, or (see [`Activity::since`]) what was counted between two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// By processor, those online.
    pub processors: Vec<Processor>,
    /// Interrupts of all kinds since boot, over all processors.
    pub interrupts: u64,
    /// By line.
    pub lines: Vec<Line>,
    /// Softirqs by kind.
    pub softirqs: Vec<Line>,
}

/// Where one processor's time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// Its number.
    pub cpu: u32,
    /// Its time.
    pub time: Times,
}

/// Processor time by kind (proc_stat(5)), in steps of a tick (mostly 10 ms). Without CONFIG_IRQ_TIME_ACCOUNTING the
/// kernel only samples irq and softirq at ticks: over short times they are coarse, and short interrupts may be missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Programs, niced ones included.
    pub user: Duration,
    /// The kernel, for programs and threads of its own.
    pub system: Duration,
    /// Interrupts.
    pub irq: Duration,
    /// Packet work and the like (softirq).
    pub softirq: Duration,
    /// Nothing to do; waiting for disks included.
    pub idle: Duration,
    /// Taken by the host of this virtual machine.
    pub steal: Duration,
}

/// A line of interrupts, or a kind of softirq.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// `41`, `LOC`; a softirq's name: `NET_RX`.
    pub name: String,
    /// What is behind it, as the kernel says it: `PCI-MSIX-0000:00:04.0 1-edge virtio3-rx`; empty for softirqs.
    pub description: String,
    /// How often, by processor as (number, count). Wraps at 2^32.
    pub counts: Vec<(u32, u64)>,
}

impl Times {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.user + self.system + self.irq + self.softirq + self.idle + self.steal
    }

    fn each(&self, other: &Times, f: impl Fn(Duration, Duration) -> Duration) -> Times {
        Times {
            user: f(self.user, other.user),
            system: f(self.system, other.system),
            irq: f(self.irq, other.irq),
            softirq: f(self.softirq, other.softirq),
            idle: f(self.idle, other.idle),
            steal: f(self.steal, other.steal),
        }
    }
}

impl Line {
    /// Over all processors.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }
}

impl Activity {
    /// Reads /proc/stat, /proc/interrupts and /proc/softirqs. Where the last two are hidden, as in some containers,
    /// they are empty.
    ///
    /// # Errors
    /// Without /proc.
    pub fn read() -> Result<Activity, Error> {
        let stat = fs::read_to_string("/proc/stat").during(|| "read /proc/stat")?;
        let table = |path| fs::read_to_string(path).map(|text| lines(&text)).unwrap_or_default();
        let (processors, interrupts) = processors(&stat, procfs::ticks_per_second());
        Ok(Activity { processors, interrupts, lines: table("/proc/interrupts"), softirqs: table("/proc/softirqs") })
    }

    /// What was counted since `earlier`. A processor that came later counts from its first reading on: 0.
    pub fn since(&self, earlier: &Activity) -> Activity {
        let processor = |now: &Processor| {
            let before = earlier.processors.iter().find(|before| before.cpu == now.cpu).unwrap_or(now);
            Processor { cpu: now.cpu, time: now.time.each(&before.time, Duration::saturating_sub) }
        };
        Activity {
            processors: self.processors.iter().map(processor).collect(),
            interrupts: self.interrupts.saturating_sub(earlier.interrupts),
            lines: lines_since(&self.lines, &earlier.lines),
            softirqs: lines_since(&self.softirqs, &earlier.softirqs),
        }
    }

    /// The time of all processors together.
    pub fn time(&self) -> Times {
        let sum = |sum: Times, processor: &Processor| sum.each(&processor.time, |a, b| a + b);
        self.processors.iter().fold(Times::default(), sum)
    }

    /// The part of one processor, by its number; `None`: it is not online. Of the interrupts those that have a line.
    pub fn of(&self, cpu: u32) -> Option<Activity> {
        let processor = *self.processors.iter().find(|processor| processor.cpu == cpu)?;
        let line = |line: &Line| {
            let counts = line.counts.iter().filter(|(other, _)| *other == cpu).copied().collect();
            Line { counts, ..line.clone() }
        };
        let lines: Vec<Line> = self.lines.iter().map(line).collect();
        Some(Activity {
            processors: vec![processor],
            interrupts: lines.iter().map(Line::total).sum(),
            lines,
            softirqs: self.softirqs.iter().map(line).collect(),
        })
    }

    /// How often a softirq ran, by its name: `NET_RX`; `None`: hidden.
    pub fn softirq(&self, name: &str) -> Option<u64> {
        self.softirqs.iter().find(|line| line.name == name).map(Line::total)
    }
}

fn lines_since(now: &[Line], earlier: &[Line]) -> Vec<Line> {
    let since = |line: &Line| {
        let before = earlier.iter().find(|before| before.name == line.name && before.description == line.description);
        let count = |&(cpu, count): &(u32, u64)| {
            let known = before.and_then(|before| before.counts.iter().find(|(other, _)| *other == cpu));
            // A line that came later, a new card's, has counted from 0; a processor that came later kept its old count.
            let last = known.map_or(if before.is_some() { count } else { 0 }, |(_, last)| *last);
            (cpu, u64::from((count as u32).wrapping_sub(last as u32)))
        };
        Line { counts: line.counts.iter().map(count).collect(), ..line.clone() }
    };
    now.iter().map(since).collect()
}

/// `cpu3 user nice system idle iowait irq softirq steal guest guest_nice`, in ticks, and `intr total ...`. Guests are
/// part of user and nice.
fn processors(stat: &str, ticks_per_second: u64) -> (Vec<Processor>, u64) {
    let (mut processors, mut interrupts) = (Vec::new(), 0);
    let time = |ticks: u64| Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / ticks_per_second.max(1)));
    for line in stat.lines() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let mut numbers = words.map_while(|word| word.parse::<u64>().ok());
        if name == "intr" {
            interrupts = numbers.next().unwrap_or(0);
        } else if let Some(cpu) = name.strip_prefix("cpu").and_then(|cpu| cpu.parse().ok()) {
            let mut next = || numbers.next().unwrap_or(0);
            let [user, nice, system, idle, iowait, irq, softirq, steal] = std::array::from_fn(|_| next());
            let time = Times {
                user: time(user.saturating_add(nice)),
                system: time(system),
                irq: time(irq),
                softirq: time(softirq),
                idle: time(idle.saturating_add(iowait)),
                steal: time(steal),
            };
            processors.push(Processor { cpu, time });
        }
    }
    (processors, interrupts)
}

/// A heading `CPU0 CPU3`, then `41: 11517 0 PCI-MSIX ... virtio3-rx`, a line each. Lines with fewer numbers (`ERR`)
/// belong to no processor and are left out.
pub(crate) fn lines(text: &str) -> Vec<Line> {
    let mut lines = text.lines();
    let heading = lines.next().unwrap_or_default().split_whitespace();
    let Some(cpus) = heading.map(|name| name.strip_prefix("CPU")?.parse().ok()).collect::<Option<Vec<u32>>>() else {
        return Vec::new();
    };
    let row = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let mut words = rest.split_whitespace();
        let counts = cpus.iter().map(|cpu| Some((*cpu, words.next()?.parse().ok()?))).collect::<Option<Vec<_>>>()?;
        let description = words.collect::<Vec<_>>().join(" ");
        Some(Line { name: name.trim().to_owned(), description, counts })
    };
    lines.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAT: &str = "cpu  30 4 40 400 50 6 70 8 0 0\ncpu0 10 1 20 300 5 1 30 2 9 9\ncpu2 20 3 20 100 45 5 40 6 0 0\n\
                        intr 47875551 0 1 2\nctxt 9\nsoftirq 352598014 0\n";

    #[test]
    fn reads_what_kernels_write() {
        let (processors, interrupts) = processors(STAT, 100);
        let ms = |ticks: u64| Duration::from_millis(10 * ticks);
        let two = Times { user: ms(23), system: ms(20), irq: ms(5), softirq: ms(40), idle: ms(145), steal: ms(6) };
        assert_eq!(processors.len(), 2);
        assert_eq!(processors[1], Processor { cpu: 2, time: two });
        assert_eq!(interrupts, 47_875_551);

        let text = "           CPU0       CPU2       \n 41:      11517          0 PCI-MSIX-0000:00:04.0   1-edge      \
                    virtio3-rx\nLOC:   22980713   12196384   Local timer interrupts\nERR:          0\n";
        let expected = [
            ("41", "PCI-MSIX-0000:00:04.0 1-edge virtio3-rx", [11_517, 0]),
            ("LOC", "Local timer interrupts", [22_980_713, 12_196_384]),
        ];
        let expected = expected.map(|(name, description, [a, b])| Line {
            name: name.into(),
            description: description.into(),
            counts: vec![(0, a), (2, b)],
        });
        assert_eq!(lines(text), expected);
    }

    #[test]
    fn a_processor_has_its_part() {
        let line =
            |name: &str, counts: &[(u32, u64)]| Line { name: name.into(), counts: counts.to_vec(), ..Line::default() };
        let (processors, interrupts) = processors(STAT, 100);
        let lines = vec![line("41", &[(0, 7), (2, 5)]), line("LOC", &[(0, 1), (2, 3)])];
        let all = Activity { processors, interrupts, lines, softirqs: vec![line("NET_RX", &[(0, 9), (2, 4)])] };
        let two = all.of(2).unwrap();
        assert_eq!((two.time(), two.interrupts, two.softirq("NET_RX")), (all.processors[1].time, 8, Some(4)));
        assert_eq!(all.of(1), None);
    }

    #[test]
    fn counts_wrap_and_lines_come_and_go() {
        let line =
            |name: &str, counts: &[(u32, u64)]| Line { name: name.into(), counts: counts.to_vec(), ..Line::default() };
        let before = [line("NET_RX", &[(0, u64::from(u32::MAX)), (1, 5)]), line("7", &[(0, 1)])];
        let after = [line("NET_RX", &[(0, 9), (1, 5), (2, 1000)]), line("8", &[(0, 3)])];
        assert_eq!(lines_since(&after, &before), [line("NET_RX", &[(0, 10), (1, 0), (2, 0)]), line("8", &[(0, 3)])]);
    }

    #[test]
    fn time_passes_and_work_is_counted() {
        let before = Activity::read().unwrap();
        assert!(!before.processors.is_empty() && before.interrupts > 0);
        // Work until a tick has seen it. The kernel writes the two one after the other.
        let seen = |since: &Activity| !(since.time().user + since.time().system).is_zero() && since.interrupts > 0;
        let mut since = Activity::read().unwrap().since(&before);
        while !seen(&since) {
            since = Activity::read().unwrap().since(&before);
        }
        assert!(since.time().total() >= since.time().user + since.time().system);
        assert_eq!(before.since(&before).time(), Times::default());
        if let Some(softirqs) = since.softirq("TIMER") {
            assert!(softirqs <= since.softirqs.iter().map(Line::total).sum());
        }
    }

    proptest! {
        #[test]
        fn lines_are_read_whatever_lies_beside_them(strange in prop::collection::vec("\\PC{0,40}", 2), counts: [u64; 2]) {
            let [a, b] = counts.map(|count| count >> 8);
            let text = format!("CPU0 CPU3\n{}\n 41: {a} {b} PCI virtio3-rx\n{}\n", strange[0], strange[1]);
            let sound = Line { name: "41".into(), description: "PCI virtio3-rx".into(), counts: vec![(0, a), (3, b)] };
            prop_assert!(lines(&text).contains(&sound));
            let text = format!("{}\ncpu7 0 0 0 {} 0 0 0 0 0 0\n{}\n", strange[0], a % 1_000_000, strange[1]);
            let idle = Duration::from_millis(10 * (a % 1_000_000));
            let sound = Processor { cpu: 7, time: Times { idle, ..Times::default() } };
            prop_assert!(processors(&text, 100).0.contains(&sound));
            prop_assert_eq!(lines(&strange[0]), []);
        }
    }
}
