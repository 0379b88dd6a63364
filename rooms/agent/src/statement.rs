//! The ledger in words, as `weir sflow agent` prints it when it ends.

use std::fmt;

use weir_units::format::{self, counted};

use crate::ledger::{CollectorCount, DropsCount, Ledger, SamplingCount};

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = format::duration(self.elapsed_s * 1e6);
        writeln!(
            f,
            "after {after}: {}, {} counter samples",
            counted(self.interfaces, "interface"),
            number(self.counter_samples)
        )?;
        if let Some(SamplingCount { means, pool, chosen, sent, shed, lost, .. }) = &self.sampling {
            let [pool, chosen, sent] = [pool, chosen, sent].map(|count| number(*count));
            write!(f, "samples ({means}): {chosen} of {pool} packets = sent {sent}")?;
            parts(f, &[("shed", *shed), ("lost", *lost)])?;
        }
        if let Some(DropsCount { packets, sent, counted_alone, by_reason, .. }) = &self.drops {
            write!(f, "dropped: {} packets = sent {}", number(*packets), number(*sent))?;
            parts(f, &[("counted alone", *counted_alone)])?;
            for (reason, count) in by_reason {
                let reason = if reason.is_empty() { "no reason" } else { reason };
                writeln!(
                    f,
                    "  {}: {} packets, {} sent",
                    format::printable(reason),
                    number(count.packets),
                    number(count.sent)
                )?;
            }
        }
        for CollectorCount { name, datagrams, sent, dropped, .. } in &self.collectors {
            write!(f, "collector {name}: {} datagrams = sent {}", number(*datagrams), number(*sent))?;
            let dropped: Vec<_> = dropped.iter().map(|(&reason, &count)| (reason, count)).collect();
            parts(f, &dropped)?;
        }
        match self.unexplained {
            0 => writeln!(f, "the ledger closes: unexplained 0"),
            more => writeln!(f, "the ledger does not close: unexplained {}", format::count(more)),
        }
    }
}

/// The rest of a sum's line, without what is 0.
fn parts(f: &mut fmt::Formatter<'_>, parts: &[(&str, u64)]) -> fmt::Result {
    for (part, count) in parts.iter().filter(|(_, count)| *count > 0) {
        write!(f, " + {} {}", part.replace('_', " "), number(*count))?;
    }
    writeln!(f)
}

fn number(count: u64) -> String {
    format::count(i64::try_from(count).unwrap_or(i64::MAX))
}
