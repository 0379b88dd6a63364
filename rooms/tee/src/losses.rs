//! What a tee loses, each reason with its remedy, for the log.

use weir_service::losses::Loss;

use crate::ledger::Ledger;

/// All losses that nobody asked for, as totals: [`weir_service::losses::Losses`] makes lines of how they grow. What a
/// sample leaves out, what no rule takes and what a rule without a destination discards is as configured.
pub fn losses(ledger: &Ledger) -> Vec<Loss> {
    let mut losses = Vec::new();
    for listener in &ledger.listeners {
        let subject = subject("listener", &listener.name, Some(&listener.address));
        let reasons = [("kernel_drops", listener.kernel_drops.unwrap_or(0)), ("truncated", listener.truncated)];
        losses.extend(reasons.map(|(reason, total)| loss(&subject, reason, total)));
    }
    for rule in ledger.rules.iter().filter(|rule| rule.copies > 0) {
        losses.push(loss(&format!("rule {}", rule.name), "discarded", rule.discarded));
    }
    for destination in &ledger.destinations {
        let address = destination.address.map(|address| address.to_string());
        let subject = subject("destination", &destination.name, address.as_deref());
        let unwanted = destination.drops.by_reason().into_iter().filter(|(reason, _)| *reason != "sampled_out");
        losses.extend(unwanted.map(|(reason, total)| loss(&subject, reason, total)));
    }
    losses
}

/// A thing without a name in the file is called by its address: once is enough.
fn subject(kind: &str, name: &str, address: Option<&str>) -> String {
    match address {
        Some(address) if address != name => format!("{kind} {name} {address}"),
        _ => format!("{kind} {name}"),
    }
}

fn loss(subject: &str, reason: &'static str, total: u64) -> Loss {
    Loss { subject: subject.to_owned(), reason, remedy: remedy(reason), total }
}

fn remedy(reason: &str) -> &'static str {
    match reason {
        "kernel_drops" => "bursts fill its buffer: raise `receive_buffer` and net.core.rmem_max, or `workers`",
        "truncated" => "longer than UDP allows, which no sender should manage",
        "discarded" => "no member of its group lives",
        "queue_full" => "it is slow, or its neighbour does not answer",
        "rate_limited" => "above its `rate` or `bandwidth`: raise them, or sample",
        "too_long" => "longer than the way there allows: check its MTU",
        "unreachable" => "no route to it: check routes and interfaces",
        "refused" => "a firewall of this machine forbids it: check its output rules",
        "no_buffers" => "the kernel has no memory for it: a slow interface, or net.core.wmem_max",
        "unresolved" => "its name does not resolve: check DNS",
        "family" => "an IPv4 source cannot be kept towards IPv6, nor the other way round: use `source = \"proxy\"`",
        "abandoned" => "still queued when the drain ended, or when a reload removed it",
        _ => "an error of the kernel: see `-v`",
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use weir_service::losses::{Line, Losses};

    use super::super::fixture;
    use super::super::ledger::Drops;
    use super::*;

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
            "destination siem 10.0.0.5:514: 10,000 datagrams dropped in 10 s: queue_full (it is slow, or its neighbour \
             does not answer)"
        );
    }

    #[test]
    fn every_reason_but_the_sample_is_watched_and_has_a_remedy() {
        let mut ledger = fixture::busy();
        ledger.destinations.truncate(1);
        let all = losses(&ledger);
        for (reason, _) in Drops::default().by_reason() {
            let found = all.iter().find(|loss| loss.reason == reason && loss.subject.starts_with("destination "));
            assert_eq!(found.is_some(), reason != "sampled_out", "{reason}");
            let generic = remedy("other_error");
            assert!(reason == "other_error" || found.is_none_or(|loss| loss.remedy != generic), "{reason}");
        }
    }

    #[test]
    fn what_has_no_name_is_told_once() {
        assert_eq!(subject("destination", "10.0.0.5:514", Some("10.0.0.5:514")), "destination 10.0.0.5:514");
        assert_eq!(subject("destination", "late:514", None), "destination late:514");
    }
}
