//! Rules, routes and doubts as people say them, in one line.

use std::fmt::Write;

use weir_units::BitRate;

use crate::model::{Action, Neighbour, Ports, Route, Rule, Speaking, TcpFlags};

/// `udp to 192.0.2.7/32, from port 53, 500 to 1500 bytes`.
pub(crate) fn rule(rule: &Rule) -> String {
    let protocol = |number: &u8| match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmpv6".to_owned(),
        other => format!("protocol {other}"),
    };
    let protocols: Vec<String> = rule.protocols.iter().map(protocol).collect();
    let what = if protocols.is_empty() { "all".to_owned() } else { protocols.join(" and ") };
    let mut text = format!("{what} to {}", rule.destination);
    // Writing to a string does not fail.
    if let Some(source) = rule.source {
        let _ = write!(text, ", from {source}");
    }
    for (which, list) in [("from", &rule.source_ports), ("to", &rule.destination_ports)] {
        if !list.is_empty() {
            let _ = write!(text, ", {which} {}", ports(list));
        }
    }
    if let Some(icmp) = rule.icmp {
        let code = icmp.code.map(|code| format!(" code {code}")).unwrap_or_default();
        let _ = write!(text, ", type {}{code}", icmp.kind);
    }
    if let Some(wanted) = rule.tcp_flags {
        let _ = write!(text, ", {}", flags(wanted.mask, wanted.value));
    }
    if let Some((least, most)) = rule.lengths {
        let _ = write!(text, ", {least} to {most} bytes");
    }
    if let Some(dscp) = rule.dscp {
        let _ = write!(text, ", DSCP {dscp}");
    }
    if rule.fragment {
        text.push_str(", fragments");
    }
    text
}

/// What gobgpd's table has of ours, as far as it is known; `is_stopped`: it is to have nothing.
pub(crate) fn standing(speaking: &Speaking, is_stopped: bool) -> String {
    let routes = match speaking.standing {
        Some(1) => "1 route".to_owned(),
        Some(routes) => format!("{routes} routes"),
        None => "how many routes".to_owned(),
    };
    let why = match speaking {
        Speaking { connected: false, .. } => "gobgpd does not answer",
        Speaking { settled: false, .. } => "gobgpd has not said yet that it is done",
        Speaking { standing: Some(0), .. } => return "gobgpd's table has nothing of Weir's".to_owned(),
        _ if is_stopped => "gobgpd does not withdraw all of it",
        _ => return format!("gobgpd's table has {routes} of Weir's"),
    };
    let left = if speaking.standing.is_some() { "may still stand" } else { "stand there is not known" };
    format!("{why}: {routes} {left}")
}

/// Whether more, or less, may stand than is to.
pub(crate) fn is_in_doubt(speaking: &Speaking, is_stopped: bool) -> bool {
    !speaking.connected || !speaking.settled || is_stopped && speaking.standing != Some(0)
}

/// Which neighbours have no routes, since their sessions are not established; `None`: all are.
pub(crate) fn away(Speaking { neighbours, .. }: &Speaking) -> Option<String> {
    let away: Vec<&Neighbour> = neighbours.iter().filter(|neighbour| !neighbour.is_established()).collect();
    let first = away.first()?;
    Some(format!("{} of {} neighbours without the routes: {first} is {}", away.len(), neighbours.len(), first.state))
}

fn ports(list: &[Ports]) -> String {
    let said =
        |ports: &Ports| if ports.0 == ports.1 { ports.0.to_string() } else { format!("{}-{}", ports.0, ports.1) };
    let noun = if list.len() == 1 && list[0].0 == list[0].1 { "port" } else { "ports" };
    format!("{noun} {}", list.iter().map(said).collect::<Vec<_>>().join(", "))
}

/// `SYN without ACK`.
fn flags(mask: u8, value: u8) -> String {
    let (set, clear) = (TcpFlags::names(mask & value), TcpFlags::names(mask & !value));
    match (set.is_empty(), clear.is_empty()) {
        (false, false) => format!("{} without {}", set.join("+"), clear.join("+")),
        (true, false) => format!("without {}", clear.join("+")),
        _ => set.join("+"),
    }
}

/// `drop`, `limit to 8mbit`.
pub(crate) fn action(action: &Action) -> String {
    match *action {
        Action::Blackhole => "blackhole".into(),
        Action::Drop => "drop".into(),
        Action::Limit { bytes_per_s } => {
            format!("limit to {}", BitRate { bits_per_second: (f64::from(bytes_per_s) * 8.0).round() as u64 })
        }
        Action::Mark { dscp } => format!("mark DSCP {dscp}"),
        Action::Redirect { asn, number } => format!("redirect to {asn}:{number}"),
    }
}

/// `drop udp to 192.0.2.7/32, from port 53`.
pub(crate) fn route(route: &Route) -> String {
    match (&route.action, route.next_hop) {
        (Action::Blackhole, Some(hop)) => format!("blackhole {} by {hop}", route.rule.destination),
        (Action::Blackhole, None) => format!("blackhole {}", route.rule.destination),
        (other, _) => format!("{}: {}", action(other), rule(&route.rule)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Icmp;

    #[test]
    fn rules_are_said_as_people_say_them() {
        let all = Rule::to("192.0.2.7/32".parse().unwrap());
        for (said, expected) in [
            (all.clone(), "all to 192.0.2.7/32"),
            (
                Rule {
                    protocols: vec![17],
                    source_ports: vec![Ports(53, 53)],
                    lengths: Some((500, 65535)),
                    ..all.clone()
                },
                "udp to 192.0.2.7/32, from port 53, 500 to 65535 bytes",
            ),
            (
                Rule {
                    protocols: vec![6],
                    destination_ports: vec![Ports(80, 80), Ports(8000, 8999)],
                    tcp_flags: Some(TcpFlags { mask: 0x12, value: 0x02 }),
                    ..all.clone()
                },
                "tcp to 192.0.2.7/32, to ports 80, 8000-8999, SYN without ACK",
            ),
            (
                Rule {
                    source: Some("198.51.100.0/24".parse().unwrap()),
                    protocols: vec![1],
                    icmp: Some(Icmp { kind: 8, code: None }),
                    dscp: Some(46),
                    fragment: true,
                    ..all
                },
                "icmp to 192.0.2.7/32, from 198.51.100.0/24, type 8, DSCP 46, fragments",
            ),
        ] {
            assert_eq!(rule(&said), expected);
        }
        assert_eq!(action(&Action::Limit { bytes_per_s: 1e6 }), "limit to 8mbit");
    }
}
