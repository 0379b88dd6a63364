//! What follows from facts: what is wrong, by which evidence, and the remedy.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use weir_units::format::counted;

use super::Facts;
use crate::serve::REFUSALS;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name: docs/monitor.md explains each.
    pub name: &'static str,
    /// What is wrong, with its evidence.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

/// Facts, and what follows from them.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What is so.
    pub facts: Facts,
    /// What is wrong; begin with the first.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Of what is so.
    pub fn new(facts: Facts) -> Self {
        let findings = findings(&facts);
        Self { facts, findings }
    }
}

fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |name, what: String, remedy: String| findings.push(Finding { name, what, remedy });
    let (group, _) = facts.group.rsplit_once(':').unwrap_or((&facts.group, ""));
    let interface = facts.interface.as_deref().unwrap_or("NAME");
    if let Some(error) = &facts.not_joined {
        let remedy =
            format!("name the interface (--interface {interface}), or ip route add 224.0.0.0/4 dev {interface}");
        find("not-joined", error.clone(), remedy);
        return findings;
    }
    if facts.interface.is_none() {
        let remedy = "weir monitor check --interface NAME for each interface".to_owned();
        find("not-listed", format!("the kernel lists {group} on no interface (/proc/net/igmp)"), remedy);
    } else if !facts.up {
        find("down", format!("{interface} is down"), format!("ip link set {interface} up"));
    }
    if let Some(mtu) = facts.mtu.filter(|&mtu| mtu < FRAME) {
        let remedy = format!("ip link set {interface} mtu {FRAME}, on every machine and switch of the path");
        find("mtu", format!("{interface} has an MTU of {mtu}: a signal's datagram takes up to {FRAME} bytes"), remedy);
    }
    if facts.fragments > 0 {
        let what =
            format!("{} came in fragments: one lost loses the whole", counted(facts.fragments as usize, "datagram"));
        find("fragments", what, "send at most 1472 bytes, over links with an MTU of 1500".into());
    }
    let (asked, granted) = facts.receive_buffer;
    if granted < asked {
        let what = format!("the kernel grants {granted} bytes of receive buffer, {asked} are asked for");
        find("buffer", what, format!("sysctl -w net.core.rmem_max={asked}"));
    }
    if facts.socket_drops > 0 {
        let what = format!(
            "{} were dropped at the socket: its buffer was full",
            counted(facts.socket_drops as usize, "datagram")
        );
        find("socket-drops", what, format!("sysctl -w net.core.rmem_max={}", asked * 2));
    }
    let at_interface = facts.at_interface.unwrap_or(0);
    if facts.at_socket == 0 && at_interface > 0 {
        let came = format!(
            "{} to {group} came to the interface, and none to the socket",
            counted(at_interface as usize, "datagram")
        );
        if facts.reverse_path_drops > 0 {
            let what = format!(
                "{came}: the route back to their source uses another interface (rp_filter dropped {})",
                facts.reverse_path_drops
            );
            find(
                "rp-filter",
                what,
                format!("sysctl -w net.ipv4.conf.{interface}.rp_filter=2 net.ipv4.conf.all.rp_filter=2"),
            );
        } else {
            find("firewall", format!("{came}: a firewall of this machine drops them"), firewall(facts, group));
        }
    }
    // What both counted in the same time; what is on its way at either end is a few.
    let accounted = facts.at_socket + facts.socket_drops + facts.reverse_path_drops;
    let missing = at_interface.saturating_sub(accounted);
    if facts.at_socket > 0 && missing > 3 + at_interface / 100 {
        let what = format!(
            "{} of {at_interface} that came to the interface did not come to the socket, and its buffer was not full: a firewall of this \
             machine drops them",
            counted(missing as usize, "datagram")
        );
        find("firewall", what, firewall(facts, group));
    }
    // What this machine has dropped itself stands above.
    let here = facts.socket_drops + missing + facts.reverse_path_drops;
    let (sent, lost) =
        facts.sources.values().fold((0, 0), |(sent, lost), source| (sent + source.numbered, lost + source.missing));
    if lost > here {
        let worst = facts.sources.iter().max_by_key(|(_, source)| source.missing).map_or("", |(name, _)| name.as_str());
        let what = format!(
            "{} of {sent} did not arrive, by their numbers (most from {worst})",
            counted((lost - here) as usize, "datagram")
        );
        let remedy = "weir loss account on both machines shows where; check the switches for mixed speeds without pause frames (`ethtool -A`) \
                      and for snooping without a querier; a second group (A/B) makes up for it";
        find("lost", what, remedy.into());
    }
    for bridge in facts.bridges.iter().filter(|bridge| bridge.snoops && !bridge.asked) {
        // Somebody else may ask; every 125 s one does.
        if facts.queriers.is_empty() {
            let what = format!(
                "bridge {} forwards groups only to members, and no querier asks for members: it forgets them after minutes",
                bridge.name
            );
            find(
                "no-querier",
                what,
                format!("ip link set {} type bridge mcast_querier 1 (or mcast_snooping 0)", bridge.name),
            );
        }
    }
    let nothing = facts.at_socket == 0 && at_interface == 0;
    if nothing
        && facts.at_interface.is_some()
        && facts.queriers.is_empty()
        && facts.listened_s >= QUERY_INTERVAL_S
        && facts.bridges.is_empty()
    {
        let what =
            format!("no IGMP query came within {:.0} s: a switch with snooping forgets members", facts.listened_s);
        find("no-querier", what, "enable the IGMP querier on one switch or router of this network".into());
    }
    if nothing && findings.iter().all(|finding| finding.name == "buffer") {
        let what = format!("nothing was received on {} for {:.1} s", facts.group, facts.listened_s);
        let remedy = "start a station, or weir monitor check --send on its machine; across a router its TTL must be above 1; a switch with \
                      snooping needs a querier (--duration 130s detects one)";
        findings.push(Finding { name: "silence", what, remedy: remedy.into() });
    }
    findings.extend(refused(facts));
    findings
}

/// What a server would refuse: its sources, the worst first, and why.
fn refused(facts: &Facts) -> Option<Finding> {
    let count = |reasons: &BTreeMap<&'static str, u64>| reasons.values().sum::<u64>();
    let mut senders: Vec<_> = facts.refused.iter().collect();
    senders.sort_by_key(|(_, reasons)| std::cmp::Reverse(count(reasons)));
    if senders.is_empty() {
        return None;
    }
    let mut reasons: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (why, count) in facts.refused.values().flatten() {
        *reasons.entry(*why).or_default() += count;
    }
    let all: u64 = senders.iter().map(|(_, reasons)| count(reasons)).sum();
    let of = |(sender, reasons): &(&String, &BTreeMap<&'static str, u64>)| format!("{sender} ({})", in_words(reasons));
    let mut from: Vec<String> = senders.iter().take(MOST_NAMED).map(of).collect();
    if senders.len() > MOST_NAMED {
        from.push(format!("{} more", senders.len() - MOST_NAMED));
    }
    let foreign: u64 = facts.refused.values().filter_map(|reasons| reasons.get("foreign")).sum();
    let is_all = foreign == facts.at_socket;
    let what = if is_all { "nothing that arrives is a signal" } else { "a server would refuse part of what arrives" };
    let what = format!("{what}: {} from {}", counted(all as usize, "datagram"), from.join(", "));
    Some(Finding { name: if is_all { "foreign" } else { "refused" }, what, remedy: remedies(&reasons) })
}

/// The remedy of each reason, the most frequent first; of one alone without its name.
fn remedies(reasons: &BTreeMap<&'static str, u64>) -> String {
    let mut all = by_count(reasons);
    let remedy = |why: &str| REFUSALS.iter().find(|(known, _)| *known == why).map_or("", |(_, remedy)| remedy);
    if let [(why, _)] = all[..] {
        return remedy(why).into();
    }
    let more = all.split_off(all.len().min(MOST_REASONS));
    let mut told: Vec<String> = all.iter().map(|(why, count)| format!("{why} {count}: {}", remedy(why))).collect();
    if !more.is_empty() {
        told.push(format!("{} more: docs/monitor.md explains each", counted(more.len(), "reason")));
    }
    told.join("; ")
}

/// `foreign 12, malformed 3`, and how many others.
fn in_words(reasons: &BTreeMap<&'static str, u64>) -> String {
    let all = by_count(reasons);
    let (named, more) = all.split_at(all.len().min(MOST_REASONS));
    let mut words: Vec<String> = named.iter().map(|(why, count)| format!("{why} {count}")).collect();
    if !more.is_empty() {
        words.push(format!("other reasons {}", more.iter().map(|(_, count)| count).sum::<u64>()));
    }
    words.join(", ")
}

/// The most frequent first.
fn by_count(reasons: &BTreeMap<&'static str, u64>) -> Vec<(&'static str, u64)> {
    let mut all: Vec<_> = reasons.iter().map(|(why, count)| (*why, *count)).collect();
    all.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    all
}

/// A rule in another chain cannot accept what this one drops.
fn firewall(facts: &Facts, group: &str) -> String {
    let (_, port) = facts.group.rsplit_once(':').unwrap_or_default();
    format!(
        "nft list ruleset (or iptables-save) shows the rule that drops them: delete it, or accept `ip daddr {group} udp dport {port}` \
         before it in the same chain"
    )
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &self.facts;
        writeln!(f, "{}, listened to for {:.1} s", facts.group, facts.listened_s)?;
        if let Some(interface) = &facts.interface {
            let mtu = facts.mtu.map_or_else(String::new, |mtu| format!(", MTU {mtu}"));
            writeln!(f, "  joined on {interface}{mtu}")?;
        }
        match facts.at_interface {
            Some(count) => writeln!(f, "  {count} datagrams at the interface, {} at the socket", facts.at_socket)?,
            None => writeln!(
                f,
                "  {} datagrams at the socket (those at the interface cannot be counted without CAP_NET_RAW)",
                facts.at_socket
            )?,
        }
        for (source, count) in &facts.sources {
            let ttl = count.ttl.map_or_else(String::new, |ttl| format!(", TTL {ttl}"));
            let lost = match count.missing {
                0 => String::new(),
                missing => format!(", {missing} of {} missing", count.numbered),
            };
            let refused = match facts.refused.get(source) {
                Some(reasons) => format!(", refused: {}", in_words(reasons)),
                None => String::new(),
            };
            writeln!(f, "  from {source}: {} received{lost}{refused}{ttl}", count.at_socket)?;
        }
        for querier in &facts.queriers {
            writeln!(f, "  IGMP querier: {querier}")?;
        }
        for Finding { name, what, remedy } in &self.findings {
            writeln!(f, "{name}: {what}\n  remedy: {remedy}")?;
        }
        let is_measured = facts.at_socket == 0 || facts.sources.values().any(|source| source.numbered > 0);
        if !is_measured {
            writeln!(
                f,
                "loss was not measured: nothing that came is numbered (a station and weir monitor check --send number their data)"
            )?;
        }
        match (self.findings.is_empty(), is_measured) {
            (true, true) => writeln!(f, "nothing is wrong")?,
            (true, false) => writeln!(f, "nothing else is wrong")?,
            (false, _) => {}
        }
        Ok(())
    }
}

/// Senders of what is not taken that are named.
const MOST_NAMED: usize = 8;

/// Reasons that are named.
const MOST_REASONS: usize = 6;

/// A frame of Ethernet.
const FRAME: u32 = 1500;

/// RFC 9776, and something.
const QUERY_INTERVAL_S: f64 = 126.0;
