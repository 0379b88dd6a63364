//! BIRD (2.0): protocols that originate the routes.

use std::fmt::Write;

use super::{checked, communities, joined, lengths, ranges};
use crate::bgp::wire::{Attributes, Family};
use crate::model::{Action, Ports, Route, Rule};

/// Four static protocols, of those that are needed. The tables `flowtab4` and `flowtab6` are the configuration's own.
pub fn bird(routes: &[Route], marker: (u16, u16)) -> String {
    let (mut text, mut protocols) = (String::new(), Family::ALL.map(|_| String::new()));
    for route in routes {
        let attributes = match checked(route, marker) {
            Ok(attributes) => attributes,
            Err(why) => {
                text += &format!("# {why}\n");
                continue;
            }
        };
        let is_v6 = route.rule.destination.network().is_ipv6();
        let is_flow = route.action != Action::Blackhole;
        let what =
            if is_flow { rule(&route.rule, is_v6) } else { format!("{} blackhole", route.rule.destination.trunc()) };
        let index = Family::ALL.iter().position(|&family| family == Family { is_v6, is_flow }).unwrap_or(0);
        protocols[index] += &format!("  route {what} {{{} }};\n", set(&attributes));
    }
    for (family, routes) in Family::ALL.iter().zip(protocols).filter(|(_, routes)| !routes.is_empty()) {
        let version = if family.is_v6 { 6 } else { 4 };
        let (name, channel) = if family.is_flow {
            (format!("weir_flow{version}"), format!("flow{version} {{ table flowtab{version}; }}"))
        } else {
            (format!("weir_ipv{version}"), format!("ipv{version}"))
        };
        text += &format!("protocol static {name} {{\n  {channel};\n{routes}}}\n");
    }
    text
}

fn set(attributes: &Attributes) -> String {
    let mut text = String::new();
    for community in communities(attributes, ",") {
        // A String takes everything.
        let _ = write!(text, " bgp_community.add(({community}));");
    }
    for extended in &attributes.extended {
        let [a, b, c, d, e, f, g, h] = *extended;
        let (high, low) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        let _ = write!(text, " bgp_ext_community.add((generic, {high:#x}, {low:#x}));");
    }
    if let Some(next_hop) = attributes.next_hop {
        let _ = write!(text, " bgp_next_hop = {next_hop};");
    }
    text
}

fn rule(rule: &Rule, is_v6: bool) -> String {
    let version = if is_v6 { 6 } else { 4 };
    let mut text = format!("flow{version} {{ dst {};", rule.destination.trunc());
    let mut add = |name: &str, values: String| {
        if !values.is_empty() {
            let _ = write!(text, " {name} {values};");
        }
    };
    let numbers =
        |list: &[Ports]| ranges(list, |port| port.to_string(), |first, last| format!("{first}..{last}")).join(", ");
    add("src", rule.source.map(|source| source.trunc().to_string()).unwrap_or_default());
    add(if is_v6 { "next header" } else { "proto" }, joined(&rule.protocols, ", "));
    add("dport", numbers(&rule.destination_ports));
    add("sport", numbers(&rule.source_ports));
    if let Some(icmp) = rule.icmp {
        add("icmp type", icmp.kind.to_string());
        add("icmp code", icmp.code.map(|code| code.to_string()).unwrap_or_default());
    }
    if let Some(flags) = rule.tcp_flags {
        add("tcp flags", format!("{:#04x}/{:#04x}", flags.value, flags.mask));
    }
    add("length", numbers(&lengths(rule)));
    add("dscp", rule.dscp.map(|dscp| dscp.to_string()).unwrap_or_default());
    if rule.fragment {
        add("fragment", "is_fragment || first_fragment".to_owned());
    }
    text + " }"
}
