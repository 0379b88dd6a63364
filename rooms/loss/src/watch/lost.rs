//! Drops by place, of whatever source tells them best.

use std::collections::{BTreeMap, BTreeSet};

use weir_units::format::counted;

use super::snapshot::{Count, Snapshot};
use crate::places::Place;

/// What is lost at one place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lost {
    pub(super) place: Place,
    /// Destination port; `None`: the counter does not tell.
    pub(super) port: Option<u16>,
    /// What the network namespace is called; `machine`: the counter is that of all of them.
    pub(super) namespace: String,
    /// Drop reason or counter.
    pub(super) why: String,
    pub(super) datagrams: Count,
}

/// What has been lost, the worst first. Of what eBPF sees, the counters say the same again, without ports and of other
/// protocols, too: then they tell only what came before it was attached.
pub(super) fn lost(now: &Snapshot) -> Vec<Lost> {
    let mut traced: BTreeMap<_, Count> = BTreeMap::new();
    let mut places: BTreeSet<(Option<u32>, Place)> = BTreeSet::new();
    for drops in &now.drops {
        // The same reason in several functions is one.
        let known = traced.entry((drops.namespace, drops.place, drops.port, drops.reason.as_str())).or_insert(NOTHING);
        *known = known.plus(drops.datagrams);
        places.extend([drops.namespace, None].map(|namespace| (namespace, drops.place.counted_at())));
    }
    let traced = traced.into_iter().map(|((namespace, place, port, reason), datagrams)| Lost {
        place,
        port,
        namespace: namespace.map_or_else(|| "unknown".to_owned(), |inode| now.name_of(inode)),
        why: reason.to_owned(),
        datagrams,
    });
    let is_traced = !matches!(now.sources.trace, "off" | "starting") && now.sources.trace_missed == 0;
    let of_counters = now.counted.iter().filter_map(|counted| {
        let told = (is_traced && !counted.of_card && counted.place != NO_BUFFER)
            || places.contains(&(counted.namespace, counted.place));
        let (datagrams, why) = if told {
            (Count { total: counted.before_trace, per_s: Some(0.0) }, format!("before eBPF ({})", counted.counter))
        } else {
            (counted.datagrams, counted.counter.clone())
        };
        let namespace = counted.namespace.map_or_else(|| "machine".to_owned(), |inode| now.name_of(inode));
        (datagrams.total > 0).then_some(Lost { place: counted.place, port: None, namespace, why, datagrams })
    });
    let mut all: Vec<Lost> = traced.chain(of_counters).collect();
    let rate = |lost: &Lost| lost.datagrams.per_s.unwrap_or(0.0);
    all.sort_by(|one, other| {
        rate(other).total_cmp(&rate(one)).then_with(|| other.datagrams.total.cmp(&one.datagrams.total))
    });
    all
}

/// All of them together.
pub(super) fn total(lost: &[Lost]) -> Count {
    lost.iter().fold(NOTHING, |sum, lost| {
        let per_s = sum.per_s.map(|sum| sum + lost.datagrams.per_s.unwrap_or(0.0));
        Count { total: sum.total + lost.datagrams.total, per_s }
    })
}

/// Where the kernel looks for a route before it has a buffer: no tracepoint sees it.
const NO_BUFFER: Place = Place::NoRoute;

const NOTHING: Count = Count { total: 0, per_s: Some(0.0) };

/// What cannot be known now, in one line; empty: nothing of note.
pub(super) fn unknown(now: &Snapshot) -> String {
    let mut words = Vec::new();
    let sources = &now.sources;
    let why = sources.trace_refused.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    match sources.trace {
        "starting" => words.push("eBPF is being attached: rates, stalls and drops by port follow".to_owned()),
        "off" => words.push(format!("unknown: datagrams read, stalls, drops by port{why}")),
        "drops" => words.push(format!("unknown: datagrams read, stalls{why}")),
        _ if !why.is_empty() => words.push(format!("traced: {}{why}", sources.trace)),
        _ => {}
    }
    if sources.trace_missed > 0 {
        words.push(format!("{} events were not counted: what is traced are lower bounds", sources.trace_missed));
    }
    if sources.trace_missed_sockets > 0 {
        let sockets = counted(sources.trace_missed_sockets as usize, "socket");
        words.push(format!(
            "what was counted of {sockets} gave way to others: some counts are unknown, or lower bounds"
        ));
    }
    if sources.trace_missed_namespaces > 0 {
        let datagrams = counted(sources.trace_missed_namespaces as usize, "datagram");
        words.push(format!(
            "{datagrams} lost in some namespace of this machine, perhaps in this one, are in no count (--netns all tells them)"
        ));
    }
    if now.drops.iter().any(|drops| drops.function.is_empty() && drops.reason == "NOT_SPECIFIED") {
        words.push("functions that drop are hidden (needs CAP_SYSLOG)".to_owned());
    }
    words.extend(now.notes.iter().cloned());
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::super::snapshot::Counted;
    use super::*;

    #[test]
    fn each_loss_is_told_once_by_the_source_that_knows_most() {
        let told = |now: &Snapshot| -> Vec<(Place, Option<u16>, String)> {
            lost(now).into_iter().map(|lost| (lost.place, lost.port, lost.why)).collect()
        };
        assert_eq!(
            told(&fixture::at(60)),
            [
                (Place::ReceiveBuffer, Some(5000), "SOCKET_RCVBUFF".into()),
                (Place::ReceiveRing, None, "eth0 rx_missed".into()),
                (Place::PortClosed, Some(9999), "NO_SOCKET".into()),
            ]
        );
        assert_eq!(
            told(&fixture::unprivileged(60)),
            [
                (Place::ReceiveBuffer, None, "Udp.RcvbufErrors".into()),
                (Place::ReceiveRing, None, "eth0 rx_missed".into()),
                (Place::PortClosed, None, "Udp.NoPorts".into()),
            ]
        );
        for now in [fixture::at(60), fixture::unprivileged(60)] {
            assert_eq!(total(&lost(&now)), Count { total: 60 * 1_015, per_s: Some(1_015.0) });
        }
    }

    #[test]
    fn what_a_card_lost_while_it_sent_is_told_though_ebpf_is_attached() {
        let mut now = fixture::at(60);
        let ring = now.counted.iter().find(|counted| counted.of_card).unwrap();
        let carrier = Counted { place: Place::Transmit, counter: "eth0 tx_carrier".into(), ..ring.clone() };
        now.counted.push(carrier);
        assert!(lost(&now).iter().any(|lost| lost.why == "eth0 tx_carrier"));
    }

    #[test]
    fn a_place_is_never_short_without_a_word() {
        let mut now = fixture::at(60);
        assert_eq!(unknown(&now), "");
        now.sources.trace_missed_namespaces = 41_112;
        assert!(unknown(&now).contains("lost in some namespace of this machine"), "{}", unknown(&now));
    }

    #[test]
    fn what_was_lost_before_ebpf_is_not_forgotten() {
        let mut now = fixture::at(60);
        now.counted[0].before_trace = 3_000;
        let before = lost(&now).into_iter().find(|lost| lost.why.starts_with("before eBPF")).unwrap();
        assert_eq!((before.port, before.datagrams), (None, Count { total: 3_000, per_s: Some(0.0) }));
    }

    #[test]
    fn one_reason_in_two_functions_is_one_loss() {
        let mut now = fixture::at(60);
        let mut other = now.drops[0].clone();
        other.function = "__udp_enqueue_schedule_skb".into();
        now.drops.push(other);
        assert_eq!(lost(&now)[0].datagrams, Count { total: 120_000, per_s: Some(2_000.0) });
        assert_eq!(lost(&now).len(), 3);
    }
}
