//! Between the interface and the socket: reverse path filter, connection tracking.

use super::{Case, Finding, change, number};
use crate::check::facts::Interface;
use crate::check::setting::Setting;
use crate::places::Place;

pub(super) fn audit(case: &Case<'_>) -> Vec<Finding> {
    let filters = case.facts.interfaces.iter().filter_map(|interface| reverse_path(case, interface));
    filters.chain(table(case)).chain(missing_fragments(case)).collect()
}

/// Strict, and the way back to far senders leads elsewhere.
fn reverse_path(case: &Case<'_>, interface: &Interface) -> Option<Finding> {
    let drops = case.facts.reverse_path_drops.unwrap_or_default();
    let elsewhere = interface.default_route == Some(false);
    // A group's sender is checked as any other: where nothing leads back, it must be a neighbour.
    let nowhere = case.facts.group && interface.default_route.is_none();
    if interface.rp_filter != Some(1) || interface.name == "lo" || !(elsewhere || nowhere || drops.recent > 0) {
        return None;
    }
    let path = format!("net/ipv4/conf/{}/rp_filter", interface.name);
    // The kernel takes the larger of this and conf/all: loose is the largest.
    let change = change(Setting::sysctl(&*path), 2);
    let what =
        format!("the reverse path filter of {} is strict, and the way back to senders leads elsewhere", interface.name);
    let way = match interface.default_route {
        Some(true) => "the default route leads through it",
        Some(false) => "the default route leads through another interface",
        None => "there is no default route",
    };
    Some(
        Finding::mended("rp_filter", Place::ReversePath, what, vec![change])
            .with(format!("/proc/sys/{path} and conf/all"), "1 (strict)")
            .with("/proc/net/route", way)
            .counted("/proc/net/netstat, IPReversePathFilter", "datagrams dropped", drops)
            .need("2 (loose), or a route to the senders through this interface")
            .cost("forged sources are let in if any route leads to them"),
    )
}

/// The table of connections is nearly full, or was.
fn table(case: &Case<'_>) -> Option<Finding> {
    let tracking = case.facts.tracking?;
    let most = tracking.most.filter(|most| *most > 0)?;
    let full = tracking.entries.saturating_mul(10) >= most.saturating_mul(8);
    if !full && tracking.drops.recent == 0 {
        return None;
    }
    let wanted = most.saturating_mul(2);
    let change = change(Setting::sysctl("net/netfilter/nf_conntrack_max"), wanted);
    let what = "the table of tracked connections is nearly full: datagrams of new flows are dropped".to_owned();
    Some(
        Finding::mended("conntrack", Place::Firewall, what, vec![change])
            .with(
                "/proc/sys/net/netfilter/nf_conntrack_count, _max",
                format!("{} of {}", number(tracking.entries), number(most)),
            )
            .counted("/proc/net/stat/nf_conntrack, drop and insert_failed", "packets", tracking.drops)
            .need(
                "room for every flow that was seen in the last half minute; none at all for ports that are not tracked",
            )
            .cost(format!(
                "some {} MB of memory; better: spare the port (nft: udp dport PORT notrack, in a raw prerouting chain)",
                number(wanted.saturating_sub(most).saturating_mul(ENTRY) / 1_000_000)
            )),
    )
}

/// Fragments are lost on the way, or find no memory to wait for their others.
fn missing_fragments(case: &Case<'_>) -> Option<Finding> {
    let failures = case.facts.reassembly_failures.unwrap_or_default();
    if failures.recent == 0 {
        return None;
    }
    let (what, bytes) = ("datagrams are given up because fragments are missing", case.facts.fragment_bytes);
    let thresh = case.facts.settings.ipfrag_high_thresh;
    let short = thresh.filter(|thresh| bytes.saturating_mul(4) >= thresh.saturating_mul(3));
    let (finding, cost) = if let Some(thresh) = short {
        let wanted = thresh.saturating_mul(4);
        let change = change(Setting::sysctl("net/ipv4/ipfrag_high_thresh"), wanted);
        let finding = Finding::mended("reassembly", Place::Reassembly, what.to_owned(), vec![change]);
        (finding, format!("up to {} B of memory in this namespace", number(wanted)))
    } else {
        // More memory brings back nothing that was lost on the way.
        let command = "send datagrams that fit the MTU: fragments are lost on the way, and memory for them is free";
        let finding = Finding::advised("reassembly", Place::Reassembly, what.to_owned(), command.to_owned());
        (finding, "more datagrams for the same data".to_owned())
    };
    let finding = finding.counted("/proc/net/snmp, Ip ReasmFails", "datagrams given up", failures);
    let finding = finding.with("/proc/net/sockstat, FRAG", format!("{} B taken", number(bytes)));
    let finding = match thresh {
        Some(thresh) => finding.with("/proc/sys/net/ipv4/ipfrag_high_thresh", format!("{} B", number(thresh))),
        None => finding,
    };
    let need = "no fragments at all: payloads that fit a packet; else memory for those that wait up to ipfrag_time";
    Some(finding.need(need).cost(cost))
}

/// Bytes of an entry of the table, about.
const ENTRY: u64 = 320;
