//! A sample as a row: what most of them have. Nothing in it needs quotation marks.

use std::fmt::Display;
use std::io::Write;

use weir_wire::frame::{Frame, Protocol, Start};
use weir_wire::sflow::{
    DataSource, Interface, Records, Sample, SampledEthernet, SampledHeader, SampledIp, Space, Structure, Value, View,
    reason_name,
};

use super::text::Mac;
use super::{Line, name};

/// What stands before the fields of `if_counters`, which end a row.
pub(super) const COLUMNS: [&str; 35] = [
    "time",
    "source",
    "agent_address",
    "sub_agent_id",
    "datagram_sequence_number",
    "uptime",
    "sample",
    "sequence_number",
    "source_id_type",
    "source_id_index",
    "sampling_rate",
    "sample_pool",
    "drops",
    "input_format",
    "input",
    "output_format",
    "output",
    "reason",
    "reason_name",
    "frame_length",
    "stripped",
    "src_mac",
    "dst_mac",
    "ethernet_type",
    "vlan",
    "src_ip",
    "dst_ip",
    "ip_protocol",
    "tos",
    "ttl",
    "src_port",
    "dst_port",
    "tcp_flags",
    "src_vlan",
    "dst_vlan",
];

/// Appends the names of all columns.
pub(super) fn write_header(lines: &mut Vec<u8>) {
    let counters = if_counters().into_iter().flat_map(|structure| structure.fields).map(|field| field.name);
    let names: Vec<&str> = COLUMNS.into_iter().chain(counters).collect();
    lines.extend_from_slice(names.join(",").as_bytes());
    lines.push(b'\n');
}

fn if_counters() -> Option<&'static Structure> {
    Structure::named(Space::Counter, "if_counters")
}

/// Appends a row.
pub(super) fn write(lines: &mut Vec<u8>, line: &Line<'_>, sample: &Sample<'_>) {
    let mut row = Row { lines };
    row.put(line.time);
    row.put(line.arrived.source);
    row.put(line.datagram.agent);
    row.put(line.datagram.sub_agent);
    row.put(line.datagram.sequence);
    row.put(line.datagram.uptime);
    row.put(name(sample));
    match sample {
        Sample::Flow(flow) => {
            row.source(flow.sequence, flow.source);
            row.put(flow.sampling_rate);
            row.put(flow.sample_pool);
            row.put(flow.drops);
            row.way(flow.input, flow.output);
            let reason = match flow.output {
                Interface::Discarded(reason) => Some(reason),
                _ => None,
            };
            row.reason(reason);
        }
        Sample::Counters(counters) => {
            row.source(counters.sequence, counters.source);
            row.skip(9);
        }
        Sample::Discarded(packet) => {
            row.source(packet.sequence, packet.source);
            row.skip(2);
            row.put(packet.drops);
            row.way(packet.input, packet.output);
            row.reason(Some(packet.reason));
        }
        Sample::Unknown { .. } => row.skip(12),
    }
    Packet::read(sample.records()).write(&mut row);
    row.counters(sample);
    row.lines.pop();
    row.lines.push(b'\n');
}

struct Row<'a> {
    lines: &'a mut Vec<u8>,
}

impl Row<'_> {
    fn put(&mut self, value: impl Display) {
        // A vector takes whatever is written.
        let _ = write!(self.lines, "{value},");
    }

    fn put_some(&mut self, value: Option<impl Display>) {
        match value {
            Some(value) => self.put(value),
            None => self.skip(1),
        }
    }

    fn skip(&mut self, columns: usize) {
        self.lines.resize(self.lines.len() + columns, b',');
    }

    fn source(&mut self, sequence: u32, source: DataSource) {
        self.put(sequence);
        self.put(source.class);
        self.put(source.index);
    }

    fn way(&mut self, input: Interface, output: Interface) {
        for interface in [input, output] {
            let (format, value) = interface.parts();
            self.put(format);
            self.put(value);
        }
    }

    fn reason(&mut self, reason: Option<u32>) {
        self.put_some(reason);
        self.put_some(reason.and_then(reason_name));
    }

    /// The fields of `if_counters`.
    fn counters(&mut self, sample: &Sample<'_>) {
        let wanted = if_counters();
        let records = match sample {
            Sample::Counters(counters) => Some(counters.records()),
            _ => None,
        };
        let mut records = records.into_iter().flatten().filter_map(Result::ok);
        let mut columns = wanted.map_or(0, |structure| structure.fields.len());
        if let Some(record) = records.find(|record| record.structure == wanted) {
            for value in record.values() {
                match value {
                    Ok((_, Value::U32(value))) => self.put(value),
                    Ok((_, Value::U64(value))) => self.put(value),
                    _ => self.skip(1),
                }
                columns = columns.saturating_sub(1);
            }
        }
        self.skip(columns);
    }
}

/// What is known of a sampled packet: from its header, else from what the agent had decoded.
#[derive(Default)]
struct Packet<'a> {
    header: Option<SampledHeader<'a>>,
    ethernet: Option<SampledEthernet>,
    ip: Option<SampledIp>,
    vlans: Option<(u32, u32)>,
}

impl<'a> Packet<'a> {
    fn read(records: Records<'a>) -> Self {
        let mut packet = Self::default();
        for record in records.filter_map(Result::ok) {
            match record.view() {
                Ok(View::Header(header)) => packet.header = packet.header.or(Some(header)),
                Ok(View::Ethernet(ethernet)) => packet.ethernet = packet.ethernet.or(Some(ethernet)),
                Ok(View::Ip(ip)) => packet.ip = packet.ip.or(Some(ip)),
                Ok(View::Switch(switch)) => packet.vlans = Some((switch.src_vlan, switch.dst_vlan)),
                _ => {}
            }
        }
        packet
    }

    fn write(&self, row: &mut Row<'_>) {
        let start = self.header.and_then(|header| Start::from_header_protocol(header.protocol.0));
        let frame = self.header.zip(start).map(|(header, start)| Frame::parse(start, header.header));
        let frame = frame.as_ref();
        let length = self.header.map(|header| header.frame_length);
        row.put_some(length.or(self.ethernet.map(|ethernet| ethernet.length)).or(self.ip.map(|ip| ip.length)));
        row.put_some(self.header.map(|header| header.stripped));
        let ethernet = frame.and_then(|frame| frame.ethernet(0));
        let decoded = self.ethernet;
        for mac in [
            ethernet.map(|header| header.source()).or(decoded.map(|header| header.src_mac)),
            ethernet.map(|header| header.destination()).or(decoded.map(|header| header.dst_mac)),
        ] {
            row.put_some(mac.map(|mac| Mac(mac).text(&mut [0; 17]).to_owned()));
        }
        let ethertype = ethernet.map(|header| u32::from(header.ethertype()));
        row.put_some(ethertype.or(decoded.map(|header| header.ethertype)));
        row.put_some(frame.and_then(|frame| frame.vlan(0)).map(|tag| tag.id()));
        self.write_ip(frame, row);
        row.put_some(self.vlans.map(|(source, _)| source));
        row.put_some(self.vlans.map(|(_, destination)| destination));
    }

    /// The outermost IP header and what is in it.
    fn write_ip(&self, frame: Option<&Frame<'_>>, row: &mut Row<'_>) {
        let (v4, v6) = (frame.and_then(|frame| frame.ipv4(0)), frame.and_then(|frame| frame.ipv6(0)));
        if let Some(ip) = v4 {
            row.put(ip.source());
            row.put(ip.destination());
            [ip.protocol(), ip.tos(), ip.ttl()].into_iter().for_each(|value| row.put(value));
        } else if let Some(ip) = v6 {
            row.put(ip.source());
            row.put(ip.destination());
            [ip.protocol(), ip.class(), ip.hop_limit()].into_iter().for_each(|value| row.put(value));
        } else if let Some(ip) = self.ip {
            row.put(ip.src_ip);
            row.put(ip.dst_ip);
            row.put(ip.protocol);
            row.put(ip.traffic_class);
            row.skip(1);
            [ip.src_port, ip.dst_port, ip.tcp_flags].into_iter().for_each(|value| row.put(value));
            return;
        } else {
            row.skip(5);
        }
        let transports = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        let ports = frame.and_then(|frame| transports.into_iter().find_map(|protocol| frame.ports(protocol, 0)));
        row.put_some(ports.map(|ports| ports.source));
        row.put_some(ports.map(|ports| ports.destination));
        row.put_some(frame.and_then(|frame| frame.tcp(0)).and_then(|tcp| tcp.flags()));
    }
}
