//! Between the interface and the socket: reverse path filter, connection tracking.

use super::{Case, Finding, change, number};
use crate::check::facts::Interface;
use crate::check::setting::Setting;
use crate::places::Place;

pub(super) fn audit(case: &Case<'_>) -> Vec<Finding> {
    let filters = case.facts.interfaces.iter().filter_map(|interface| reverse_path(case, interface));
    filters.chain(table(case)).collect()
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

/// Bytes of an entry of the table, about.
const ENTRY: u64 = 320;
