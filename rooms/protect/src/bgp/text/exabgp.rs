//! ExaBGP (5.0): what stands in a `neighbor`.

use std::fmt::Write;

use super::{checked, communities, joined, lengths, ranges};
use crate::model::{Action, Ports, Route, Rule};

/// `static` with blackhole routes, `flow` with FlowSpec.
pub fn exabgp(routes: &[Route], marker: (u16, u16)) -> String {
    let (mut unicast, mut flow) = (String::new(), String::new());
    for route in routes {
        let attributes = match checked(route, marker) {
            Ok(attributes) => attributes,
            Err(why) => {
                flow += &format!("  # {why}\n");
                continue;
            }
        };
        let communities = communities(&attributes, ":").join(" ");
        match (route.action, route.next_hop) {
            (Action::Blackhole, Some(next_hop)) => {
                let prefix = route.rule.destination.trunc();
                unicast += &format!("  route {prefix} next-hop {next_hop} community [ {communities} ];\n");
            }
            (action, _) => {
                let (rule, then) = (conditions(&route.rule), then(action));
                flow += &format!(
                    "  route {{\n    match {{ {rule} }}\n    then {{ {then}; community [ {communities} ]; }}\n  }}\n"
                );
            }
        }
    }
    let block = |name, lines: &str| if lines.is_empty() { String::new() } else { format!("{name} {{\n{lines}}}\n") };
    block("static", &unicast) + &block("flow", &flow)
}

fn then(action: Action) -> String {
    match action {
        Action::Blackhole | Action::Drop => "discard".to_owned(),
        Action::Limit { bytes_per_s } => format!("rate-limit {bytes_per_s:.0}"),
        Action::Mark { dscp } => format!("mark {dscp}"),
        Action::Redirect { asn, number } => format!("redirect {asn}:{number}"),
    }
}

fn conditions(rule: &Rule) -> String {
    let is_v6 = rule.destination.network().is_ipv6();
    // The offset.
    let from_first = if is_v6 { "/0" } else { "" };
    let mut text = format!("destination {}{from_first};", rule.destination.trunc());
    if let Some(source) = rule.source {
        text += &format!(" source {}{from_first};", source.trunc());
    }
    let mut add = |name: &str, values: String| {
        if !values.is_empty() {
            // A String takes everything.
            let _ = write!(text, " {name} [ {values} ];");
        }
    };
    let equal = |value: u16| format!("={value}");
    let numbers = |list: &[Ports]| ranges(list, equal, |first, last| format!(">={first}&<={last}")).join(" ");
    let protocols = rule.protocols.iter().map(|protocol| format!("={protocol}"));
    add(if is_v6 { "next-header" } else { "protocol" }, joined(protocols, " "));
    add("destination-port", numbers(&rule.destination_ports));
    add("source-port", numbers(&rule.source_ports));
    if let Some(icmp) = rule.icmp {
        add("icmp-type", format!("={}", icmp.kind));
        add("icmp-code", icmp.code.map(|code| format!("={code}")).unwrap_or_default());
    }
    if let Some(flags) = rule.tcp_flags {
        let names = |bits: u8| joined((0..8).filter(|bit| bits & 1 << bit != 0).map(|bit| FLAGS[bit]), "+");
        let (set, unset) = (names(flags.value), names(flags.mask & !flags.value));
        let parts = [("=", set), ("!", unset)].into_iter().filter(|(_, names)| !names.is_empty());
        add("tcp-flags", joined(parts.map(|(operator, names)| format!("{operator}{names}")), "&"));
    }
    add("packet-length", numbers(&lengths(rule)));
    if let Some(dscp) = rule.dscp {
        add(if is_v6 { "traffic-class" } else { "dscp" }, format!("={dscp}"));
    }
    if rule.fragment {
        add("fragment", "is-fragment+first-fragment".to_owned());
    }
    text
}

/// From the lowest bit on.
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "push", "ack", "urgent", "ece", "cwr"];
