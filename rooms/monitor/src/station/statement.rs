//! The ledger in words, as `weir monitor station` prints it when it ends.

use std::collections::BTreeMap;
use std::fmt;

use weir_units::format::{self, counted, printable};

use super::ledger::{Ledger, SourceCount, StreamCount};

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = format::duration(self.elapsed_s * 1e6);
        writeln!(f, "after {after}: station {}, {}", printable(&self.station), counted(self.channels, "channel"))?;
        for source in &self.sources {
            let SourceCount { name, points, refused, crowded, late, misplaced, unreadable, dropped, missed, .. } =
                source;
            let parts = [
                ("refused", *refused),
                ("crowded", *crowded),
                ("late", *late),
                ("misplaced", *misplaced),
                ("unreadable lines", *unreadable),
                ("datagrams dropped by its socket", *dropped),
                ("samples missed", *missed),
            ];
            if *points > 0 || parts.iter().any(|(_, count)| *count > 0) {
                write!(f, "source {}: {} values", printable(name), number(*points))?;
                for (part, count) in parts.iter().filter(|(_, count)| *count > 0) {
                    write!(f, ", {} {part}", number(*count))?;
                }
                writeln!(f)?;
            }
        }
        for stream in &self.streams {
            let StreamCount { name, samples, data, heartbeats, metadata, not_taken, outlets, .. } = stream;
            write!(f, "stream {name}: {} samples = sent {}", number(samples.due), number(samples.sent))?;
            parts(f, &samples.gaps)?;
            if samples.overrun > 0 {
                write!(f, " (of station {} by overrun)", number(samples.overrun))?;
            }
            if samples.waiting > 0 {
                write!(f, " + waiting {}", number(samples.waiting))?;
            }
            writeln!(f)?;
            write!(
                f,
                "  {} datagrams of data, {} heartbeats, {} of metadata",
                number(*data),
                number(*heartbeats),
                number(*metadata)
            )?;
            match not_taken {
                0 => writeln!(f)?,
                count => writeln!(f, ", {} not taken", number(*count))?,
            }
            for outlet in outlets {
                write!(f, "  to {}: {} datagrams = sent {}", outlet.to, number(outlet.datagrams), number(outlet.sent))?;
                parts(f, &outlet.dropped)?;
                writeln!(f)?;
            }
        }
        match self.unexplained {
            0 => writeln!(f, "the ledger closes: unexplained 0"),
            more => writeln!(f, "the ledger does not close: unexplained {}", format::count(more)),
        }
    }
}

/// The rest of a sum.
fn parts(f: &mut fmt::Formatter<'_>, parts: &BTreeMap<&'static str, u64>) -> fmt::Result {
    for (part, count) in parts.iter().filter(|(_, count)| **count > 0) {
        write!(f, " + {} {}", part.replace('_', " "), number(*count))?;
    }
    Ok(())
}

fn number(count: u64) -> String {
    format::count(i64::try_from(count).unwrap_or(i64::MAX))
}
