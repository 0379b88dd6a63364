//! What tshark reads on the way to the router is what was meant, field for field.

use std::collections::BTreeSet;

use serde_json::Value;
use weir_protect::model::{Action, Icmp, Ports, Route, Rule, TcpFlags};

use crate::capture::{Reading, nlri};
use crate::network::{Network, blackhole, gobgpds, settings};

/// Routes, and how tshark's fields read, by hand: AFI/SAFI, components by type, communities, action.
pub(crate) fn meant() -> Vec<(Route, &'static str)> {
    let flow = |rule: Rule, action| Route { rule, action, next_hop: None, communities: Vec::new() };
    let to = |prefix: &str| Rule::to(prefix.parse().unwrap());
    let long_answers = Rule {
        source: Some("10.1.0.0/16".parse().unwrap()),
        protocols: vec![17],
        destination_ports: vec![Ports(80, 90), Ports(1000, 1000)],
        source_ports: vec![Ports(53, 53)],
        lengths: Some((500, 1500)),
        dscp: Some(8),
        fragment: true,
        ..to("10.9.5.0/24")
    };
    let syn = Rule { protocols: vec![6], tcp_flags: Some(TcpFlags { mask: 0x12, value: 0x02 }), ..to("10.9.5.1/32") };
    let null = Rule { protocols: vec![6], tcp_flags: Some(TcpFlags { mask: 0xff, value: 0 }), ..to("10.9.5.2/32") };
    let ping = Rule { protocols: vec![58], icmp: Some(Icmp { kind: 128, code: Some(0) }), ..to("fd09:2::7/128") };
    let reflected = Rule {
        source: Some("2001:db8::/32".parse().unwrap()),
        protocols: vec![17],
        source_ports: vec![Ports(53, 53), Ports(123, 123), Ports(1900, 1900)],
        ..to("fd09:2::/64")
    };
    vec![
        (blackhole("10.9.4.9/32"), "1/1 10.9.4.9/32 via 192.0.2.1, 65001:666 65535:666,"),
        (blackhole("10.9.6.0/28"), "1/1 10.9.6.0/28 via 192.0.2.1, 65001:666 65535:666,"),
        (blackhole("fd09:2::9/128"), "2/1 fd09:2::9/128 via 100::1, 65001:666 65535:666,"),
        (
            flow(long_answers, Action::Limit { bytes_per_s: 125_000.0 }),
            "1/133 [1 10.9.5.0/24] [2 10.1.0.0/16] [3 |=17] [5 |>=80 &<=90 |=1000] [6 |=53] [10 |>=500 &<=1500] [11 |all 0x08] \
             [12 |any 0x06], 65001:666, rate 125000",
        ),
        (
            flow(syn, Action::Mark { dscp: 10 }),
            "1/133 [1 10.9.5.1/32] [3 |=6] [9 |all 0x02 &not 0x10], 65001:666, mark 0x0a",
        ),
        (flow(null, Action::Drop), "1/133 [1 10.9.5.2/32] [3 |=6] [9 |not 0xff], 65001:666, rate 0"),
        (
            flow(ping, Action::Redirect { asn: 65001, number: 70_000 }),
            "2/133 [1 fd09:2::7/128 from 0] [3 |=58] [7 |=128] [8 |=0], 65001:666, redirect 65001:70000",
        ),
        (
            flow(reflected, Action::Redirect { asn: 70_000, number: 7 }),
            "2/133 [1 fd09:2::/64 from 0] [2 2001:db8::/32 from 0] [3 |=17] [6 |=53 |=123 |=1900], 65001:666, redirect 70000:7",
        ),
    ]
}

#[test]
#[ignore = "long: 4 s"]
fn tshark_reads_what_was_meant() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let (Some(_gobgpd), Some(_bird)) = (network.gobgpd(gobgpd), network.bird()) else { return };
        let Some(capture) = network.capture() else { return };

        let held = network.speaker(&settings());
        held.speaker.want(&[]);
        held.until_established();
        let (mut routes, wanted): (Vec<Route>, BTreeSet<String>) =
            meant().into_iter().map(|(route, text)| (route, text.to_owned())).unzip();
        held.install(&routes);
        // By this one it is seen that all others have been told.
        routes.push(blackhole("10.9.7.77/32"));
        held.install(&routes);
        let mut seen = announced(&capture.end(&nlri([10, 9, 7, 77])));
        assert!(seen.remove("1/1 10.9.7.77/32 via 192.0.2.1, 65001:666 65535:666,"), "{gobgpd}: {seen:#?}");
        assert_eq!(seen, wanted, "{gobgpd}");
    }
}

/// All that the speaker announces.
fn announced(reading: &Reading) -> BTreeSet<String> {
    let filter = "bgp.type == 2 && ip.src == 10.9.0.1";
    let json = reading.read(&["-Y", filter, "-T", "json", "--no-duplicate-keys", "-J", "bgp"]);
    let packets: Vec<Value> = serde_json::from_slice(&json).unwrap();
    let messages = packets.iter().flat_map(|packet| list(&packet["_source"]["layers"]["bgp"]));
    messages.flat_map(routes).collect()
}

fn routes(message: &Value) -> Vec<String> {
    let attributes = list(&message["bgp.update.path_attributes"]["bgp.update.path_attribute"]);
    let kind = |attribute: &&Value, kind| attribute["bgp.update.path_attribute.type_code"] == kind;
    let find = |wanted| attributes.iter().find(|attribute| kind(attribute, wanted)).copied().unwrap_or(&Value::Null);
    let with = format!(", {}, {}", communities(find("8")), action(find("16"))).trim_end().to_owned();

    let mut found = Vec::new();
    let hop = of(find("3"), "next_hop");
    found.extend(keys(&message["bgp.update.nlri"]).map(|prefix| format!("1/1 {prefix} via {hop}{with}")));
    let reach = find("14");
    let family = format!("{}/{}", of(reach, "mp_reach_nlri.afi"), of(reach, "mp_reach_nlri.safi"));
    let nlri = &reach["bgp.update.path_attribute.mp_reach_nlri"];
    if family == "2/1" {
        let hop = &reach["bgp.update.path_attribute.mp_reach_nlri.next_hop_tree"];
        let hop = of(hop, "mp_reach_nlri.next_hop.ipv6");
        found.extend(keys(nlri).map(|prefix| format!("2/1 {prefix} via {hop}{with}")));
    }
    for rule in list(&nlri["bgp.flowspec_nlri_tree"]) {
        let components = list(&rule["bgp.flowspec_nlri.filter"]).into_iter().map(component);
        found.push(format!("{family} {}{with}", components.collect::<Vec<_>>().join(" ")));
    }
    found
}

fn of<'a>(value: &'a Value, name: &str) -> &'a str {
    text(&value[format!("bgp.update.path_attribute.{name}")])
}

fn component(filter: &Value) -> String {
    let field = |name: &str| &filter[format!("bgp.flowspec_nlri.{name}")];
    let kind = text(field("filter_type"));
    if let Some(prefix) = keys(filter).find(|key| key.contains('/')) {
        let offset = &filter[prefix]["bgp.flowspec_nlri.ipv6_pref_offset"];
        let offset = if offset.is_null() { String::new() } else { format!(" from {}", text(offset)) };
        return format!("[{kind} {prefix}{offset}]");
    }
    // Values of one byte and of two stand apart.
    let short = ["dec_val_8", "val_tcp.flags", "val_frag", "val_dsfield"].iter().flat_map(|name| list(field(name)));
    let (mut short, mut long) = (short, list(field("dec_val_16")).into_iter());
    let mut items = Vec::new();
    for operator in list(field("opflags_tree")) {
        let is = |name: &str| operator[format!("bgp.flowspec_nlri.op.{name}")] == "1";
        let value = if is("val_len") { long.next() } else { short.next() };
        // tshark takes the operator of a DSCP for one of bits, where the bit of `=` says `all`.
        let sign = if ["9", "11", "12"].contains(&kind) {
            if is("flg_not") {
                "not "
            } else if is("flg_match") {
                "all "
            } else {
                "any "
            }
            .to_owned()
        } else {
            [("gt", ">"), ("lt", "<"), ("equal", "=")]
                .iter()
                .filter(|(name, _)| is(name))
                .map(|(_, sign)| *sign)
                .collect()
        };
        items.push(format!("{}{sign}{}", if is("and") { '&' } else { '|' }, text(value.unwrap_or(&Value::Null))));
    }
    format!("[{kind} {}]", items.join(" "))
}

fn communities(attribute: &Value) -> String {
    let all = &attribute["bgp.update.path_attribute.communities"];
    let own = list(&all["bgp.update.path_attribute.community"]);
    let mut list_of: Vec<String> = own
        .into_iter()
        .map(|community| format!("{}:{}", of(community, "community_as"), of(community, "community_value")))
        .collect();
    for known in list(&all["bgp.update.path_attribute.community_wellknown"]) {
        let number = u32::from_str_radix(text(known).trim_start_matches("0x"), 16).unwrap();
        list_of.push(format!("{}:{}", number >> 16, number & 0xffff));
    }
    list_of.join(" ")
}

fn action(attribute: &Value) -> String {
    let community = &attribute["bgp.ext_communities"]["bgp.ext_community"];
    let of = |name: &str| text(&community[format!("bgp.ext_com{name}")]);
    let kind = (of(".type"), of(".stype_tr_exp"), of(".stype_tr_exp_3"));
    match kind {
        ("", ..) => String::new(),
        ("0x80", "0x06", _) => format!("rate {}", of("_flow.rate_limit")),
        ("0x80", "0x09", _) => format!("mark {}", of(".value_fs_dscp")),
        ("0x80", "0x08", _) => format!("redirect {}:{}", of(".value_as2"), of(".value_an4")),
        ("0x82", ..) => format!("redirect {}:{}", of(".value_as4"), of(".value_an2")),
        _ => community.to_string(),
    }
}

/// One or many: JSON has an array where a field occurs more than once.
fn list(value: &Value) -> Vec<&Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(values) => values.iter().collect(),
        value => vec![value],
    }
}

fn keys(value: &Value) -> impl Iterator<Item = &str> {
    value.as_object().into_iter().flatten().map(|(key, _)| key.as_str())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
