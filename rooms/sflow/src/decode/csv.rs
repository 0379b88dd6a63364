//! A sample as a row: what most samples have, taken from the JSON object. No value needs quotation marks.

use std::io;

use serde_json::Value;
use weir_wire::sflow::{Space, Structure};

use super::Line;

/// The columns before the fields of `if_counters`: the name, and the places in the object to look at, in this order.
const COLUMNS: [(&str, &[&str]); 35] = [
    ("time", &["time"]),
    ("source", &["source"]),
    ("agent_address", &["agent_address"]),
    ("sub_agent_id", &["sub_agent_id"]),
    ("datagram_sequence_number", &["datagram_sequence_number"]),
    ("uptime", &["uptime"]),
    ("sample", &["sample"]),
    ("sequence_number", &["sequence_number"]),
    ("source_id_type", &["source_id_type"]),
    ("source_id_index", &["source_id_index"]),
    ("sampling_rate", &["sampling_rate"]),
    ("sample_pool", &["sample_pool"]),
    ("drops", &["drops"]),
    ("input_format", &["input_format"]),
    ("input", &["input", "inputifindex"]),
    ("output_format", &["output_format"]),
    ("output", &["output", "outputifindex"]),
    ("reason", &["reason"]),
    ("reason_name", &["reason_name", "output_reason"]),
    ("frame_length", &["sampled_header.frame_length", "sampled_ethernet.length", "sampled_ip.length"]),
    ("stripped", &["sampled_header.stripped"]),
    ("src_mac", &["ethernet.source", "sampled_ethernet.src_mac"]),
    ("dst_mac", &["ethernet.destination", "sampled_ethernet.dst_mac"]),
    ("ethernet_type", &["ethernet.type", "sampled_ethernet.type"]),
    ("vlan", &["vlan.id"]),
    ("src_ip", &["ipv4.source", "ipv6.source", "sampled_ip.src_ip"]),
    ("dst_ip", &["ipv4.destination", "ipv6.destination", "sampled_ip.dst_ip"]),
    ("ip_protocol", &["ipv4.protocol", "ipv6.protocol", "sampled_ip.protocol"]),
    ("tos", &["ipv4.tos", "ipv6.traffic_class", "sampled_ip.tos", "sampled_ip.priority"]),
    ("ttl", &["ipv4.ttl", "ipv6.hop_limit"]),
    ("src_port", &["tcp.source_port", "udp.source_port", "sctp.source_port", "sampled_ip.src_port"]),
    ("dst_port", &["tcp.destination_port", "udp.destination_port", "sctp.destination_port", "sampled_ip.dst_port"]),
    ("tcp_flags", &["tcp.flags", "sampled_ip.tcp_flags"]),
    ("src_vlan", &["extended_switch.src_vlan"]),
    ("dst_vlan", &["extended_switch.dst_vlan"]),
];

/// The names of the columns that end a row.
fn if_counters() -> impl Iterator<Item = &'static str> {
    let structure = Structure::named(Space::Counter, "if_counters");
    structure.into_iter().flat_map(|structure| structure.fields).map(|field| field.name)
}

/// Appends the names of all columns.
pub(super) fn write_header(lines: &mut Vec<u8>) {
    let names: Vec<&str> = COLUMNS.into_iter().map(|(name, _)| name).chain(if_counters()).collect();
    lines.extend_from_slice(names.join(",").as_bytes());
    lines.push(b'\n');
}

/// Appends a row.
pub(super) fn write(lines: &mut Vec<u8>, line: &Line<'_>) -> io::Result<()> {
    let sample = serde_json::to_value(line)?;
    let common = COLUMNS.into_iter().map(|(_, places)| places.iter().find_map(|place| find(&sample, place)));
    for value in common.chain(if_counters().map(|name| field(&sample, "if_counters", name))) {
        match value {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => lines.extend_from_slice(text.as_bytes()),
            Some(other) => lines.extend_from_slice(other.to_string().as_bytes()),
        }
        lines.push(b',');
    }
    lines.pop();
    lines.push(b'\n');
    Ok(())
}

/// The value at a place: a key of the sample, or a key of a part of it, `ipv4.source`.
fn find<'a>(sample: &'a Value, place: &str) -> Option<&'a Value> {
    match place.split_once('.') {
        None => sample.get(place),
        Some(("sampled_ip", key)) => field(sample, "sampled_ipv4", key).or_else(|| field(sample, "sampled_ipv6", key)),
        Some((part, key)) => field(sample, part, key),
    }
}

/// A key of the first structure or layer of this name.
fn field<'a>(sample: &'a Value, part: &str, key: &str) -> Option<&'a Value> {
    let records = sample.get("records")?.as_array()?;
    let layers = records.iter().filter_map(|record| record.get("layers")?.as_array()).flatten();
    records.iter().chain(layers).find(|one| one["structure"] == part || one["layer"] == part)?.get(key)
}
