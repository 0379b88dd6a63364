//! What a tee loses, each reason with its remedy, for the log.

use weir_service::losses::Loss;

use weir_forward::drops::Reason;
use weir_forward::ledger::Ledger;

/// All losses that nobody asked for, as totals above 0: [`weir_service::losses::Losses`] makes lines of how they grow. What a
/// sample leaves out, what no rule takes and what a rule without a destination discards is as configured.
pub(crate) fn losses(ledger: &Ledger) -> Vec<Loss> {
    let mut losses = Vec::new();
    for listener in &ledger.listeners {
        if listener.kernel_drops.unwrap_or(0) + listener.truncated == 0 {
            continue;
        }
        let subject = subject("listener", &listener.name, &listener.address);
        let remedy = "bursts fill its buffer: raise `receive_buffer` and net.core.rmem_max, or `workers`";
        losses.push(loss(&subject, "kernel_drops", remedy, listener.kernel_drops.unwrap_or(0)));
        let remedy = "longer than UDP allows, which no sender should manage";
        losses.push(loss(&subject, "truncated", remedy, listener.truncated));
    }
    for rule in ledger.rules.iter().filter(|rule| rule.copies > 0 && rule.discarded > 0) {
        let remedy = "no member of its group lives";
        losses.push(loss(&format!("rule {}", rule.name), "discarded", remedy, rule.discarded));
    }
    for destination in &ledger.destinations {
        // Of thousands that do well nothing is written.
        if destination.drops.total() == 0 && destination.replies.is_none() {
            continue;
        }
        let subject = subject("destination", &destination.name, &destination.address.to_string());
        let unwanted = Reason::ALL.iter().filter_map(|&reason| Some((reason, reason.remedy()?)));
        let drops = &destination.drops;
        losses.extend(unwanted.map(|(reason, remedy)| loss(&subject, reason.name(), remedy, drops[reason])));
        let Some(replies) = &destination.replies else { continue };
        let remedy = "clients are gone, or send buffers full";
        losses.push(loss(&subject, "answers dropped", remedy, replies.dropped));
        let remedy = "more clients than `sessions`, whose answers are led back to the latest: raise it";
        losses.push(Loss { unit: "session", ..loss(&subject, "evicted", remedy, replies.evicted) });
        let remedy = "no port or descriptor is left: see `-v`";
        losses.push(Loss { unit: "session", ..loss(&subject, "failed", remedy, replies.failed) });
    }
    losses.retain(|loss| loss.total > 0);
    losses
}

/// A thing without a name in the file is called by its address: once is enough.
fn subject(kind: &str, name: &str, address: &str) -> String {
    if [name, ""].contains(&address) { format!("{kind} {name}") } else { format!("{kind} {name} {address}") }
}

fn loss(subject: &str, reason: &'static str, remedy: &'static str, total: u64) -> Loss {
    Loss { subject: subject.to_owned(), reason, remedy, unit: "datagram", total }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use weir_service::losses::{Line, Losses};

    use super::super::fixture;
    use super::*;
    use weir_forward::drops::Drops;

    #[test]
    fn a_slow_destination_is_told_with_its_remedy() {
        let start = Instant::now();
        let mut watched = Losses::new(Duration::from_secs(10), start);
        watched.lines(start, losses(&fixture::at(50)));
        let mut lines = watched.lines(start + Duration::from_secs(10), losses(&fixture::at(60)));
        lines.retain(|line| matches!(line, Line::Lost(_)));
        let [Line::Lost(kernel), Line::Lost(slow)] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(
            kernel,
            "listener syslog 0.0.0.0:514: 70 datagrams dropped in 10 s: kernel_drops (bursts fill its buffer: raise \
             `receive_buffer` and net.core.rmem_max, or `workers`)"
        );
        assert_eq!(
            slow,
            "destination siem 10.0.0.5:514: 10,000 datagrams dropped in 10 s: queue_full (it is slow, or its next hop \
             was being asked for: raise its `queue` to bridge that)"
        );
    }

    #[test]
    fn every_reason_but_the_sample_is_watched_and_has_a_remedy() {
        let mut ledger = fixture::busy();
        ledger.destinations.truncate(1);
        ledger.destinations[0].drops = Drops::count(|_| 1);
        let all = losses(&ledger);
        for reason in Reason::ALL {
            let name = reason.name();
            let found = all.iter().find(|loss| loss.reason == name && loss.subject.starts_with("destination "));
            assert_eq!(found.is_some(), *reason != Reason::SampledOut, "{name}");
            let same = all.iter().filter(|loss| found.is_some_and(|found| found.remedy == loss.remedy));
            assert_eq!(same.count(), usize::from(found.is_some()), "{name}: a remedy of its own");
        }
    }

    #[test]
    fn what_has_no_name_is_told_once() {
        assert_eq!(subject("destination", "10.0.0.5:514", "10.0.0.5:514"), "destination 10.0.0.5:514");
        assert_eq!(subject("destination", "late:514", ""), "destination late:514");
    }
}
