//! FRR: blackhole routes, as statics that BGP takes up. It originates no FlowSpec.

use super::{checked, communities};
use crate::bgp::wire::Attributes;
use crate::model::{Action, Route};

/// Statics, route-maps that give them their communities and next hop, and what the router of this AS announces.
pub fn frr(routes: &[Route], marker: (u16, u16), asn: u32) -> String {
    let mut text = String::new();
    // One route-map for all that is announced alike.
    let mut maps: Vec<(bool, Attributes)> = Vec::new();
    let mut networks = [String::new(), String::new()];
    for route in routes {
        let attributes = match checked(route, marker) {
            Ok(attributes) if route.action == Action::Blackhole => attributes,
            Ok(_) => {
                text += &format!("! {}: FRR originates no FlowSpec\n", route.rule.destination.trunc());
                continue;
            }
            Err(why) => {
                text += &format!("! {why}\n");
                continue;
            }
        };
        let prefix = route.rule.destination.trunc();
        let is_v6 = prefix.network().is_ipv6();
        let map = (is_v6, attributes);
        let number = maps.iter().position(|known| *known == map).unwrap_or_else(|| {
            maps.push(map);
            maps.len() - 1
        });
        text += &format!("{} route {prefix} blackhole\n", if is_v6 { "ipv6" } else { "ip" });
        networks[usize::from(is_v6)] += &format!("  network {prefix} route-map WEIR-{number}\n");
    }
    for (number, (is_v6, attributes)) in maps.iter().enumerate() {
        let communities = communities(attributes, ":").join(" ");
        text += &format!("route-map WEIR-{number} permit 10\n set community {communities}\n");
        let next_hop = attributes.next_hop.map(|next_hop| next_hop.to_string()).unwrap_or_default();
        text += &format!(" set {} {next_hop}\n", if *is_v6 { "ipv6 next-hop global" } else { "ip next-hop" });
    }
    if !maps.is_empty() {
        text += &format!("router bgp {asn}\n");
    }
    for (family, networks) in ["ipv4", "ipv6"].iter().zip(networks).filter(|(_, networks)| !networks.is_empty()) {
        text += &format!(" address-family {family} unicast\n{networks} exit-address-family\n");
    }
    text
}
