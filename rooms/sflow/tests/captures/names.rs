//! sflowtool's names for what the specification names otherwise, and its faults.

use std::net::IpAddr;

use serde_json::{Value, json};
use weir_wire::sflow::{Space, Structure};

use super::fields::Fields;

/// Captures at which sflowtool gives up: a text without the bytes that fill it up, lengths that lie.
pub(super) const STOPS: [&str; 3] =
    ["goflow2-SFlowDecodeDropExtendedFunction", "gopacket-SFlowTestPacket5", "tcpdump-sflow_print-segv"];

/// Captures that are damaged: sflowtool reads on where lengths lie, we do not.
pub(super) const MALFORMED: [&str; 2] = ["gopacket-SFlowTestPacket5", "tcpdump-sflow_print-segv"];

/// The plain fields of an object of sflowtool's; those of discarded packets by the names of sampled ones.
pub(super) fn without(object: &Value, left_out: &[&str]) -> Fields {
    let fields = object.as_object().unwrap().iter().filter(|(name, _)| !left_out.contains(&&***name));
    let fields = fields.filter(|(name, _)| !WHO_READ.contains(&&***name));
    fields.map(|(name, value)| (name.trim_start_matches("discarded_").to_owned(), text(value))).collect()
}

/// What sflowtool tells of its own reading, not of the datagram.
const WHO_READ: [&str; 7] = [
    "datagramSourceIP",
    "unixSecondsUTC",
    "unixSecondsUTC_uS",
    "localtime",
    "pcapTimestamp",
    "datagramVersion",
    "samplesInPacket",
];

/// Sets right what sflowtool has wrong; what remains must be equal.
pub(super) fn corrected(mut ours: Fields, mut theirs: Fields) -> (Fields, Fields) {
    // Not decoded at all.
    if theirs.get("flowBlock_tag").is_some_and(|tag| tag == "0:1037") {
        ours.retain(|name, _| name == "flowBlock_tag");
    }
    // The identification of IPv4 in the order of the host's bytes.
    if let Some(id) = theirs.get_mut("IPID") {
        *id = id.parse::<u16>().unwrap().swap_bytes().to_string();
    }
    // Which extension headers IPv6 had; ours are layers.
    theirs.remove("IP6HeaderExtension");
    (ours, theirs)
}

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => match text.parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) => text.clone(),
        },
        other => other.to_string(),
    }
}

/// Names with the values that a sample of ours has for them.
fn renamed(object: &Value, names: &[(&str, &str)]) -> Fields {
    names.iter().map(|(theirs, ours)| ((*theirs).to_owned(), text(&object[ours]))).collect()
}

pub(super) fn datagram(sample: &Value) -> Fields {
    let mut fields = renamed(
        sample,
        &[
            ("agent", "agent_address"),
            ("agentSubId", "sub_agent_id"),
            ("packetSequenceNo", "datagram_sequence_number"),
            ("sysUpTime", "uptime"),
        ],
    );
    let time = sample["time"].as_str().unwrap();
    fields.insert("pcapTimestamp_uS".to_owned(), time[20..26].trim_start_matches('0').parse().unwrap_or(0).to_string());
    fields
}

pub(super) fn sample(sample: &Value) -> Fields {
    let flow = [("meanSkipCount", "sampling_rate"), ("samplePool", "sample_pool"), ("dropEvents", "drops")];
    let drop = [("dropEvents", "drops"), ("discardCode", "reason")];
    let (tag, names): (_, &[_]) = match sample["sample"].as_str().unwrap() {
        "flow_sample" => ("0:1", &flow),
        "counters_sample" => ("0:2", &[]),
        "flow_sample_expanded" => ("0:3", &flow),
        "counters_sample_expanded" => ("0:4", &[]),
        "discarded_packet" => ("0:5", &drop),
        other => panic!("{other}"),
    };
    let mut fields = renamed(sample, names);
    fields.insert("sampleType_tag".into(), tag.into());
    fields.insert("sampleSequenceNo".into(), text(&sample["sequence_number"]));
    fields.insert("sourceId".into(), format!("{}:{}", sample["source_id_type"], sample["source_id_index"]));
    let way = |format: &Value, value: &Value| match format.as_u64().unwrap() {
        0 => value.to_string(),
        1 => format!("dropCode {value}"),
        2 => format!("multiple {value}"),
        other => panic!("{other}"),
    };
    if tag == "0:5" {
        fields.insert("inputPort".into(), text(&sample["inputifindex"]));
        fields.insert("outputPort".into(), text(&sample["outputifindex"]));
        // Mistyped in sflowtool's table; unknown to it, as to us.
        let reason = match sample["reason"].as_u64().unwrap() {
            332 | 366 => "NotFound".to_owned(),
            _ => sample["reason_name"].as_str().unwrap_or("NotFound").to_owned(),
        };
        fields.insert("discardReason".into(), reason);
    } else if !names.is_empty() {
        fields.insert("inputPort".into(), way(&sample["input_format"], &sample["input"]));
        fields.insert("outputPort".into(), way(&sample["output_format"], &sample["output"]));
    }
    fields
}

/// A record by sflowtool's names.
pub(super) fn record(record: &Value, counters: bool) -> Fields {
    let (space, tag) = if counters { (Space::Counter, "counterBlock_tag") } else { (Space::Flow, "flowBlock_tag") };
    let Some(structure) = record["structure"].as_str() else {
        let format = format!("{}:{}", record["enterprise"], record["format"]);
        return Fields::from([(tag.to_owned(), format)]);
    };
    let mut fields = Fields::new();
    for (name, value) in record.as_object().unwrap() {
        if !["structure", "layers", "header"].contains(&&**name) {
            let (name, value) = field(structure, name, value);
            fields.insert(name, value);
        }
    }
    fields.insert(tag.to_owned(), Structure::named(space, structure).unwrap().format.to_string());
    if let Some((_, kind)) = EXTENDED.iter().find(|(name, _)| *name == structure) {
        fields.insert("extendedType".to_owned(), (*kind).to_owned());
    }
    match structure {
        "sampled_header" => header(record, &mut fields),
        "sampled_ethernet" => {
            fields.insert("flowSampleType".to_owned(), "ETHERNET".to_owned());
        }
        "extended_gateway" => {
            let path: Vec<String> = fields["dst_as_path"].split('-').map(str::to_owned).collect();
            fields.insert("dst_peer_as".to_owned(), path[0].clone());
            fields.insert("dst_as".to_owned(), path[path.len() - 1].clone());
        }
        _ => {}
    }
    fields
}

const EXTENDED: [(&str, &str); 10] = [
    ("extended_switch", "SWITCH"),
    ("extended_router", "ROUTER"),
    ("extended_gateway", "GATEWAY"),
    ("extended_egress_queue", "egress_queue"),
    ("extended_function", "function"),
    ("extended_transit", "transit_delay"),
    ("extended_queue", "queue_depth"),
    ("extended_hw_trap", "hw_trap"),
    ("extended_linux_drop_reason", "linux_reason"),
    ("extended_timestamp", "timestamp"),
];

/// A field by sflowtool's name, in its form.
fn field(structure: &str, name: &str, value: &Value) -> (String, String) {
    let hundredths = || format!("{:.2}", value.as_i64().unwrap() as f64 / 100.0);
    let numbers = |list: &Value| list.as_array().unwrap().iter().map(text).collect::<Vec<_>>().join("-");
    let same = || (name.to_owned(), text(value));
    let named = |theirs: &str| (theirs.to_owned(), text(value));
    let mac = |theirs: &str| (theirs.to_owned(), text(value).replace(':', ""));
    match (structure, name) {
        ("if_counters", "ifType") => named("networkType"),
        ("port_name", "name") => named("ifName"),
        ("of_port", "datapath_id") => ("openflow_datapath_id".into(), format!("{:016x}", value.as_u64().unwrap())),
        ("of_port", "port_no") => named("openflow_port"),
        ("vlan_counters", "vlan_id") => named("in_vlan"),
        ("processor", "cpu_5s") => ("5s_cpu".into(), hundredths()),
        ("processor", "cpu_1m") => ("1m_cpu".into(), hundredths()),
        ("processor", "cpu_5m") => ("5m_cpu".into(), hundredths()),
        ("processor", "total_memory" | "free_memory") => named(&format!("{name}_bytes")),
        ("host_descr", "uuid") => named("UUID"),
        ("host_adapters", "adapters") => {
            let adapters: Vec<Value> = value.as_array().unwrap().iter().map(adapter).collect();
            ("adaptor_list".into(), Value::from(adapters).to_string())
        }
        ("host_cpu", "load_one" | "load_five" | "load_fifteen") => {
            (format!("cpu_{name}"), format!("{:.3}", value.as_f64().unwrap()))
        }
        ("host_cpu", "proc_run" | "proc_total" | "uptime" | "contexts") => named(&format!("cpu_{name}")),
        ("host_cpu", "cpu_intr") => named("cpuintr"),
        ("host_cpu", "interrupts") => named("cpuinterrupts"),
        ("host_disk_io", "part_max_used") => ("disk_partition_max_used".into(), hundredths()),
        ("host_disk_io", "disk_total" | "disk_free") => same(),
        ("host_disk_io", _) => named(&format!("disk_{name}")),
        ("host_net_io", "packets_out") => named("nio_pkts_out"),
        ("host_net_io", _) => named(&format!("nio_{name}")),
        ("mib2_tcp_group", "tcpInCsumErrs") => named("tcpInCsumErrors"),
        ("http_counters", "method_connect_count") => named("http_methd_connect_count"),
        ("http_counters", _) => named(&format!("http_{name}")),
        ("app_resources", "user_time" | "system_time") => same(),
        ("app_resources", _) => {
            named(&name.replace("mem_", "memory_").replace("fd_", "files_").replace("conn_", "connections_"))
        }
        ("ovs_dp_stats", _) => named(&format!("OVS_dp_{name}")),
        ("lag_port_stats", "dot3adAggPortActorSystemID") => mac("actorSystemID"),
        ("lag_port_stats", "dot3adAggPortPartnerOperSystemID") => mac("partnerSystemID"),
        ("lag_port_stats", _) => {
            let rest =
                name.trim_start_matches("dot3adAggPort").trim_start_matches("Stats").replace("State", "PortState");
            let rest = if rest.starts_with("LACP") { rest } else { rest[..1].to_lowercase() + &rest[1..] };
            named(&rest)
        }
        ("sampled_header", "protocol") => named("headerProtocol"),
        ("sampled_header", "frame_length") => named("sampledPacketSize"),
        ("sampled_header", "stripped") => named("strippedBytes"),
        ("sampled_ethernet", "length") => named("ethernet_len"),
        ("sampled_ethernet", "type") => named("ethernet_type"),
        ("sampled_ethernet", "src_mac") => mac("ethernet_src"),
        ("sampled_ethernet", "dst_mac") => mac("ethernet_dst"),
        ("extended_switch", _) => named(&name.replace("src_", "in_").replace("dst_", "out_")),
        ("extended_router", "nexthop") => named("nextHop"),
        ("extended_router", "src_mask_len") => named("srcSubnetMask"),
        ("extended_router", "dst_mask_len") => named("dstSubnetMask"),
        ("extended_gateway", "nexthop") => named("bgp_nexthop"),
        ("extended_gateway", "as") => named("my_as"),
        ("extended_gateway", "localpref") => named("BGP_localpref"),
        ("extended_gateway", "communities") => ("BGP_communities".into(), numbers(value)),
        ("extended_gateway", "dst_as_path") => {
            let segments = value.as_array().unwrap().iter().map(|segment| numbers(&segment["as_numbers"]));
            ("dst_as_path".into(), segments.collect::<Vec<_>>().join("-"))
        }
        ("extended_egress_queue", "queue") => named("egress_queue_id"),
        ("extended_transit", "delay") => named("transit_delay_nS"),
        ("extended_queue", "depth") => named("queue_depth_bytes"),
        ("extended_hw_trap", "group") => named("hw_trap_group"),
        ("extended_hw_trap", "trap") => named("hw_trap_name"),
        ("extended_linux_drop_reason", "reason") => named("linux_drop_reason"),
        ("extended_timestamp", "nanoseconds") => named("timestamp_nS"),
        _ => same(),
    }
}

fn adapter(adapter: &Value) -> Value {
    let macs: Vec<String> =
        adapter["mac_address"].as_array().unwrap().iter().map(|mac| text(mac).replace(':', "")).collect();
    json!({ "ifIndex": adapter["ifIndex"].to_string(), "MACs": macs.len().to_string(), "mac_list": macs })
}

/// What sflowtool makes of the header: of the outermost IP header, and of what is in it.
fn header(record: &Value, fields: &mut Fields) {
    let bytes = record["header"].as_str().unwrap();
    let pairs: Vec<&str> = (0..bytes.len() / 2).map(|at| &bytes[at * 2..at * 2 + 2]).collect();
    let mut put = |name: &str, value: String| fields.insert(name.to_owned(), value);
    put("flowSampleType", "HEADER".to_owned());
    put("headerLen", pairs.len().to_string());
    put("headerBytes", pairs.join("-").to_uppercase());
    let number = |value: &Value| value.as_u64().unwrap();
    let mut before = 0;
    let layers = record["layers"].as_array().unwrap();
    for layer in layers {
        match layer["layer"].as_str().unwrap() {
            "ethernet" => {
                put("dstMAC", text(&layer["destination"]).replace(':', ""));
                put("srcMAC", text(&layer["source"]).replace(':', ""));
                put("ethernet_type", layer["type"].to_string());
                before += 14;
            }
            "vlan" => {
                put("decodedVLAN", layer["id"].to_string());
                put("decodedPriority", layer["priority"].to_string());
                put("ethernet_type", layer["type"].to_string());
                before += 4;
            }
            version @ ("ipv4" | "ipv6") => {
                let size = number(&record["frame_length"]) - number(&record["stripped"]) - before;
                put("IPSize", size.to_string());
                put("IPProtocol", layer["protocol"].to_string());
                if version == "ipv4" {
                    put("ip.tot_len", layer["length"].to_string());
                    put("srcIP", text(&layer["source"]));
                    put("dstIP", text(&layer["destination"]));
                    put("IPTOS", layer["tos"].to_string());
                    put("IPTTL", layer["ttl"].to_string());
                    put("IPID", layer["identification"].to_string());
                } else {
                    put("IPV6_payloadLen", layer["payload_length"].to_string());
                    put("srcIP6", text(&layer["source"]));
                    put("dstIP6", text(&layer["destination"]));
                    put("IPTOS", layer["traffic_class"].to_string());
                    put("IPTTL", layer["hop_limit"].to_string());
                    put("IP6_label", format!("{:#x}", number(&layer["flow_label"])));
                }
            }
            "tcp" => {
                put("TCPSrcPort", layer["source_port"].to_string());
                put("TCPDstPort", layer["destination_port"].to_string());
                put("TCPFlags", (number(&layer["flags"]) & 0xff).to_string());
            }
            "udp" => {
                put("UDPSrcPort", layer["source_port"].to_string());
                put("UDPDstPort", layer["destination_port"].to_string());
                put("UDPBytes", layer["length"].to_string());
            }
            // Not ICMPv6.
            "icmp" => {
                put("ICMPType", layer["type"].to_string());
                put("ICMPCode", layer["code"].to_string());
            }
            _ => {}
        }
    }
}
