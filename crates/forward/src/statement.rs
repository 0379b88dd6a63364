//! The ledger in words, as `weir tee` prints it when it ends.
//!
//! ```text
//! listener syslog 0.0.0.0:514
//!   received 5 010 (2 505 000 B) = matched 5 000 + unmatched 10; dropped by the kernel before: 0
//! ```

use std::fmt;

use weir_units::format;

use crate::ledger::{Count, DestinationCount, Ledger, ListenerCount, ReplyCount, RuleCount};

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "after {}:", format::duration(self.elapsed_s * 1e6))?;
        self.listeners.iter().try_for_each(|listener| listener.fmt(f))?;
        self.rules.iter().try_for_each(|rule| rule.fmt(f))?;
        self.destinations.iter().try_for_each(|destination| destination.fmt(f))?;
        let closing = if self.closed { "the ledger closes: unexplained 0" } else { "the ledger does not close" };
        writeln!(f, "{closing}")
    }
}

impl fmt::Display for ListenerCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "listener {}", called(&self.name, &self.address))?;
        let parts = [("matched", self.matched), ("unmatched", self.unmatched), ("truncated", self.truncated)];
        let drops = self.kernel_drops.map_or_else(|| "unknown".to_owned(), number);
        let equation = Equation { whole: ("received", self.received), parts: &parts, unexplained: self.unexplained };
        writeln!(f, "  {equation}; dropped by the kernel before: {drops}")
    }
}

impl fmt::Display for RuleCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (matched, copies) = (amount(self.matched), number(self.copies));
        write!(f, "rule {}\n  matched {matched}, copies asked for {copies}", self.name)?;
        if self.discarded > 0 {
            write!(f, ", discarded {}", number(self.discarded))?;
        }
        writeln!(f)
    }
}

impl fmt::Display for DestinationCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.0.map_or_else(|| "not resolved".to_owned(), |address| address.to_string());
        let state = match self.healthy {
            Some(true) => "",
            Some(false) => ", down",
            None => ", not in use any more",
        };
        writeln!(f, "destination {}{state}", called(&self.name, &address))?;
        let drops = self.drops.by_reason();
        let parts: Vec<_> =
            [("sent", self.sent.datagrams)].into_iter().chain(drops).chain([("queued", self.queued)]).collect();
        let equation = Equation { whole: ("copies", self.copies), parts: &parts, unexplained: self.unexplained };
        write!(f, "  {equation}")?;
        if self.calls > 0 {
            let batching = format::short(self.sent.datagrams as f64 / self.calls as f64);
            write!(f, "; {batching} a call, {} in joined sends", number(self.joined))?;
        }
        if self.sent_unresolved > 0 {
            write!(f, "; {} sent to a next hop that was not known to answer", number(self.sent_unresolved))?;
        }
        if self.icmp_errors > 0 {
            write!(f, "; ICMP errors {}", number(self.icmp_errors))?;
        }
        if self.icmp_unproven > 0 {
            write!(f, ", {} of them unproven", number(self.icmp_unproven))?;
        }
        writeln!(f)?;
        self.replies.iter().try_for_each(|replies| replies.fmt(f))
    }
}

impl fmt::Display for ReplyCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("returned", self.returned.datagrams), ("dropped", self.dropped)];
        let equation = Equation { whole: ("answers", self.received), parts: &parts, unexplained: self.unexplained };
        let sessions = [("aged", self.aged), ("evicted", self.evicted), ("failed", self.failed)];
        write!(f, "  {equation}; sessions {} of {} opened", number(self.sessions), number(self.opened))?;
        for (name, count) in sessions.iter().filter(|(_, count)| *count > 0) {
            write!(f, ", {} {name}", number(*count))?;
        }
        writeln!(f)
    }
}

/// `whole = part + part`. Parts that are 0 are left out, but for the first.
struct Equation<'a> {
    whole: (&'a str, Count),
    parts: &'a [(&'a str, u64)],
    unexplained: i64,
}

impl fmt::Display for Equation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, whole) = self.whole;
        write!(f, "{name} {} =", amount(whole))?;
        for (index, (part, count)) in self.parts.iter().enumerate() {
            match index {
                0 => write!(f, " {part} {}", number(*count))?,
                _ if *count > 0 => write!(f, " + {} {}", part.replace('_', " "), number(*count))?,
                _ => {}
            }
        }
        if self.unexplained != 0 {
            write!(f, " + unexplained {}", format::count(self.unexplained))?;
        }
        Ok(())
    }
}

/// A name and an address, once where they are the same.
fn called(name: &str, address: &str) -> String {
    if name == address { name.to_owned() } else { format!("{name} {address}") }
}

fn amount(count: Count) -> String {
    format!("{} ({} B)", number(count.datagrams), number(count.bytes))
}

fn number(count: u64) -> String {
    format::count(i64::try_from(count).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drops::{Drops, Reason};
    use crate::ledger::Place;

    #[test]
    fn people_read_equations() {
        let count = |datagrams| Count { datagrams, bytes: datagrams * 500 };
        let ledger = Ledger {
            elapsed_s: 12.5,
            closed: false,
            listeners: vec![ListenerCount {
                name: "syslog".into(),
                address: "0.0.0.0:514".into(),
                received: count(5_010),
                matched: 5_000,
                unmatched: 10,
                kernel_drops: Some(7),
                ..ListenerCount::default()
            }],
            rules: vec![RuleCount { name: "rule 1".into(), matched: count(5_000), discarded: 0, copies: 10_000 }],
            destinations: vec![
                DestinationCount {
                    name: "10.0.0.5:514".into(),
                    address: Place(Some("10.0.0.5:514".parse().unwrap())),
                    healthy: Some(true),
                    copies: count(5_000),
                    sent: count(5_000),
                    calls: 100,
                    joined: 4_950,
                    ..DestinationCount::default()
                },
                DestinationCount {
                    name: "siem".into(),
                    healthy: Some(false),
                    copies: count(5_000),
                    sent: count(4_000),
                    sent_unresolved: 3,
                    queued: 1,
                    drops: Drops::count(|reason| match reason {
                        Reason::QueueFull => 990,
                        Reason::SampledOut => 5,
                        _ => 0,
                    }),
                    icmp_errors: 3,
                    unexplained: 4,
                    ..DestinationCount::default()
                },
            ],
        };
        insta::assert_snapshot!(ledger.to_string());
    }
}
