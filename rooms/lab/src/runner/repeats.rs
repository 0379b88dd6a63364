//! How often each cell is run, where the machine is to say: as often as it carries side by side.

use std::time::Duration;

use weir_kernel::processors::Processors;
use weir_traffic::Transport;

use super::queue::{MOST_BUSY, processors};
use crate::machine::Machine;
use crate::scenario::{Jobs, Mode, Repeat};
use crate::sweep::{Cell, Sweep};
use crate::{cell, endpoints};

/// What the control cell took of the processors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Processors kept busy by a message a second, over two emulated links.
    per_message: f64,
    /// The share of all processors that was left over.
    idle: f64,
}

impl Load {
    /// A guess, where there is no control cell.
    pub(super) const GUESSED: Load = Load { per_message: 60e-6, idle: 1.0 };

    /// As a fact about the run.
    pub(super) fn words(self) -> String {
        format!("{:.0} µs of a processor, over two links", self.per_message * 1e6)
    }

    /// Measures while `control` runs, which sends so many messages over so many links.
    pub(super) fn measure<T>(machine: &Machine, messages: f64, links: usize, control: impl FnOnce() -> T) -> (T, Load) {
        // Watching the machine costs the same with any number of cells.
        let spent = || spent().saturating_sub(machine.spent());
        let (processors, before) = (Processors::read().ok(), spent());
        let done = control();
        let spent = spent().saturating_sub(before).as_secs_f64();
        let others =
            processors.zip(Processors::read().ok()).map_or(0.0, |(before, after)| after.foreign_share(&before));
        let per_message = spent / messages.max(1.0) * 2.0 / links.max(1) as f64;
        (done, Load { per_message, idle: 1.0 - others })
    }
}

/// Repeats of each cell, at least 1, of which no more than `most_cells` may be up at once.
pub(super) fn how_many(sweep: &Sweep, load: Load, realtime: bool, most_cells: usize) -> u32 {
    let run = &sweep.scenario().run;
    match run.repeat {
        Repeat::Count(count) => count.get(),
        // Cells that fill the machine leave no room beside them.
        Repeat::Auto if run.jobs != Jobs::All => 1,
        Repeat::Auto => {
            let wanted: f64 = sweep.cells.iter().map(|cell| needed(cell, load)).sum();
            // What others do runs behind real-time threads.
            let left = load.idle.max(if realtime { 0.5 } else { 0.25 });
            let carried = (processors() * MOST_BUSY * left / wanted.max(1e-9)) as u32;
            let most = u32::try_from(most_cells / sweep.cells.len().max(1)).unwrap_or(u32::MAX);
            carried.min(most).clamp(1, MOST)
        }
    }
}

/// Processors that a cell of messages will keep busy.
fn needed(cell: &Cell, load: Load) -> f64 {
    let (scenario, traffic) = (&cell.scenario, &cell.scenario.traffic);
    // Nobody knows what programs need.
    if traffic.mode != Mode::Messages || cell::load(scenario).is_some() {
        return f64::INFINITY;
    }
    let links = scenario.links.len().max(1) as f64 / 2.0;
    // What is acknowledged goes both ways, and is encrypted besides.
    let protocol = match traffic.transport {
        Transport::Udp => 1.0,
        Transport::Tcp => 2.0,
        Transport::Quic | Transport::QuicDatagram => 4.0,
    };
    load.per_message * links * protocol / endpoints::interval(traffic).as_secs_f64().max(1e-6)
}

/// Processor time of this process, packet work on behalf of its calls included.
fn spent() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID);
    time.map_or(Duration::ZERO, Duration::from)
}

/// More tell little: intervals shrink with the root of their number.
const MOST: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn sweep(set: &[(&str, &str)]) -> Sweep {
        let (_, text) = Scenario::find("telemetry").unwrap();
        let set: Vec<_> = set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Sweep::new("telemetry.toml", &text, &set).unwrap()
    }

    #[test]
    fn the_machine_says_how_often() {
        let all = processors();
        // 21 cells of 100 messages a second over UDP, 21 over TCP: 6300 a second as UDP would need.
        let load = |repeats: f64| Load { per_message: all * MOST_BUSY / (6300.0 * repeats), idle: 1.0 };
        let auto = sweep(&[("run.repeat", "auto")]);
        let at = |sweep: &Sweep, load, most| how_many(sweep, load, false, most);
        assert_eq!(at(&auto, load(3.5), 10_000), 3);
        let busy = Load { idle: 0.0, ..load(4.5) };
        assert_eq!((at(&auto, busy, 10_000), how_many(&auto, busy, true, 10_000)), (1, 2), "others work, too");
        assert_eq!(at(&auto, load(0.1), 10_000), 1);
        assert_eq!(at(&auto, load(100.0), 10_000), MOST);
        assert_eq!(at(&auto, load(100.0), 100), 2, "two times 42 cells are all that fit");
        assert_eq!(at(&sweep(&[("run.repeat", "7")]), load(1.0), 10_000), 7);
        assert_eq!(at(&sweep(&[("run.repeat", "auto"), ("run.jobs", "2")]), load(100.0), 10_000), 1);
    }
}
