//! The ledger in words, as `weir sflow serve` prints it when it ends.

use std::fmt;

use weir_units::format;

use crate::ledger::Ledger;

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "after {}:", format::duration(self.elapsed_s * 1e6))?;
        write!(f, "received {} datagrams = analysed {}", number(self.received.datagrams), number(self.analysed))?;
        let truncated = [("truncated", self.truncated)];
        let parts = self.rejected.iter().map(|(&reason, &count)| (reason, count)).chain(truncated);
        for (part, count) in parts.filter(|(_, count)| *count > 0) {
            write!(f, " + {} {}", part.replace('_', " "), number(count))?;
        }
        writeln!(f)?;
        for listener in &self.listeners {
            let drops = listener.kernel_drops.map_or_else(|| "unknown".to_owned(), number);
            writeln!(f, "listener {}: dropped by the kernel before: {drops}", listener.name)?;
        }
        writeln!(f, "lost on the way here, by sequence numbers: {}", number(self.lost_before))?;
        writeln!(f, "{}", self.samples)?;
        if let Some(counts) = self.protect.as_ref().map(|protect| &protect.counts) {
            let [attacks, announced, withdrawn] = [counts.attacks, counts.announced, counts.withdrawn].map(number);
            writeln!(f, "protect: {attacks} attacks, {announced} routes announced, {withdrawn} withdrawn")?;
            if counts.dropped > 0 {
                writeln!(f, "protect: {} samples were not looked at: a queue was full", number(counts.dropped))?;
            }
        }
        self.destinations.iter().try_for_each(|destination| destination.fmt(f))?;
        match self.unexplained {
            0 if self.closed => writeln!(f, "the ledger closes: unexplained 0"),
            0 => writeln!(f, "the ledger does not close: see destinations"),
            more => writeln!(f, "the ledger does not close: unexplained {}", format::count(more)),
        }
    }
}

fn number(count: u64) -> String {
    format::count(i64::try_from(count).unwrap_or(i64::MAX))
}
