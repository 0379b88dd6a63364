//! A sample as a row: what most of them have. Nothing in it needs quotation marks.

use std::fmt::Display;
use std::io::Write;
use std::net::IpAddr;

use weir_wire::frame::{Frame, Ports, Protocol, Start};
use weir_wire::sflow::{
    DataSource, Interface, Sample, SampledEthernet, SampledHeader, SampledIp, Space, Structure, Value, View,
    reason_name,
};

use super::text::Mac;
use super::{Line, name};

/// A column: its name, and what writes its cell.
type Column = (&'static str, fn(&mut Vec<u8>, &Line<'_>, &Seen<'_>));

/// What stands before the fields of `if_counters`, which end a row.
const COLUMNS: [Column; 35] = [
    ("time", |cell, line, _| put(cell, Some(line.time))),
    ("source", |cell, line, _| put(cell, Some(line.arrived.source))),
    ("agent_address", |cell, line, _| put(cell, Some(line.datagram.agent))),
    ("sub_agent_id", |cell, line, _| put(cell, Some(line.datagram.sub_agent))),
    ("datagram_sequence_number", |cell, line, _| put(cell, Some(line.datagram.sequence))),
    ("uptime", |cell, line, _| put(cell, Some(line.datagram.uptime))),
    ("sample", |cell, _, seen| put(cell, Some(seen.name))),
    ("sequence_number", |cell, _, seen| put(cell, seen.sequence)),
    ("source_id_type", |cell, _, seen| put(cell, seen.source.map(|source| source.class))),
    ("source_id_index", |cell, _, seen| put(cell, seen.source.map(|source| source.index))),
    ("sampling_rate", |cell, _, seen| put(cell, seen.pool.map(|(rate, _)| rate))),
    ("sample_pool", |cell, _, seen| put(cell, seen.pool.map(|(_, pool)| pool))),
    ("drops", |cell, _, seen| put(cell, seen.drops)),
    ("input_format", |cell, _, seen| put(cell, seen.way.map(|way| way[0].parts().0))),
    ("input", |cell, _, seen| put(cell, seen.way.map(|way| way[0].parts().1))),
    ("output_format", |cell, _, seen| put(cell, seen.way.map(|way| way[1].parts().0))),
    ("output", |cell, _, seen| put(cell, seen.way.map(|way| way[1].parts().1))),
    ("reason", |cell, _, seen| put(cell, seen.reason)),
    ("reason_name", |cell, _, seen| put(cell, seen.reason.and_then(reason_name))),
    ("frame_length", |cell, _, seen| put(cell, seen.length())),
    ("stripped", |cell, _, seen| put(cell, seen.header.map(|header| header.stripped))),
    ("src_mac", |cell, _, seen| put(cell, seen.ethernet().map(|header| Mac(header.src_mac)))),
    ("dst_mac", |cell, _, seen| put(cell, seen.ethernet().map(|header| Mac(header.dst_mac)))),
    ("ethernet_type", |cell, _, seen| put(cell, seen.ethernet().map(|header| header.ethertype))),
    ("vlan", |cell, _, seen| put(cell, seen.frame.as_ref().and_then(|frame| frame.vlan(0)).map(|tag| tag.id()))),
    ("src_ip", |cell, _, seen| put(cell, seen.ip.map(|ip| ip.source))),
    ("dst_ip", |cell, _, seen| put(cell, seen.ip.map(|ip| ip.destination))),
    ("ip_protocol", |cell, _, seen| put(cell, seen.ip.map(|ip| ip.protocol))),
    ("tos", |cell, _, seen| put(cell, seen.ip.map(|ip| ip.class))),
    ("ttl", |cell, _, seen| put(cell, seen.ip.and_then(|ip| ip.ttl))),
    ("src_port", |cell, _, seen| put(cell, seen.ports.map(|(source, _)| source))),
    ("dst_port", |cell, _, seen| put(cell, seen.ports.map(|(_, destination)| destination))),
    ("tcp_flags", |cell, _, seen| put(cell, seen.flags)),
    ("src_vlan", |cell, _, seen| put(cell, seen.vlans.map(|(source, _)| source))),
    ("dst_vlan", |cell, _, seen| put(cell, seen.vlans.map(|(_, destination)| destination))),
];

fn put(cell: &mut Vec<u8>, value: Option<impl Display>) {
    // A vector takes whatever is written.
    let _ = value.map(|value| write!(cell, "{value}"));
}

fn if_counters() -> Option<&'static Structure> {
    Structure::named(Space::Counter, "if_counters")
}

/// Appends the names of all columns.
pub(super) fn write_header(lines: &mut Vec<u8>) {
    let counters = if_counters().into_iter().flat_map(|structure| structure.fields).map(|field| field.name);
    let names: Vec<&str> = COLUMNS.into_iter().map(|(name, _)| name).chain(counters).collect();
    lines.extend_from_slice(names.join(",").as_bytes());
    lines.push(b'\n');
}

/// Appends a row.
pub(super) fn write(lines: &mut Vec<u8>, line: &Line<'_>, sample: &Sample<'_>) {
    let seen = Seen::of(sample);
    for (_, write) in COLUMNS {
        write(lines, line, &seen);
        lines.push(b',');
    }
    let wanted = if_counters();
    let mut records = sample.records().filter_map(Result::ok).filter(|record| record.structure == wanted);
    let record = if matches!(sample, Sample::Counters(_)) { records.next() } else { None };
    let mut values = record.into_iter().flat_map(|record| record.values());
    for _ in wanted.map_or(&[][..], |structure| structure.fields) {
        match values.next() {
            Some(Ok((_, Value::U32(value)))) => put(lines, Some(value)),
            Some(Ok((_, Value::U64(value)))) => put(lines, Some(value)),
            _ => {}
        }
        lines.push(b',');
    }
    lines.pop();
    lines.push(b'\n');
}

/// What is known of a sample, and of its packet: from its header, else from what the agent had decoded.
#[derive(Default)]
struct Seen<'a> {
    name: &'static str,
    sequence: Option<u32>,
    source: Option<DataSource>,
    /// Sampling rate and pool.
    pool: Option<(u32, u32)>,
    drops: Option<u32>,
    /// Where the packet came in and went out.
    way: Option<[Interface; 2]>,
    reason: Option<u32>,
    header: Option<SampledHeader<'a>>,
    frame: Option<Frame<'a>>,
    decoded: (Option<SampledEthernet>, Option<SampledIp>),
    /// Of the outermost IP header.
    ip: Option<Ip>,
    ports: Option<(u32, u32)>,
    flags: Option<u32>,
    vlans: Option<(u32, u32)>,
}

#[derive(Clone, Copy)]
struct Ip {
    source: IpAddr,
    destination: IpAddr,
    protocol: u32,
    class: u32,
    ttl: Option<u8>,
}

impl<'a> Seen<'a> {
    fn of(sample: &Sample<'a>) -> Self {
        let mut seen = Self { name: name(sample), ..Self::default() };
        match sample {
            Sample::Flow(flow) => {
                (seen.sequence, seen.source) = (Some(flow.sequence), Some(flow.source));
                (seen.pool, seen.drops) = (Some((flow.sampling_rate, flow.sample_pool)), Some(flow.drops));
                seen.way = Some([flow.input, flow.output]);
                if let Interface::Discarded(reason) = flow.output {
                    seen.reason = Some(reason);
                }
            }
            Sample::Counters(counters) => {
                (seen.sequence, seen.source) = (Some(counters.sequence), Some(counters.source));
            }
            Sample::Discarded(packet) => {
                (seen.sequence, seen.source) = (Some(packet.sequence), Some(packet.source));
                (seen.drops, seen.way) = (Some(packet.drops), Some([packet.input, packet.output]));
                seen.reason = Some(packet.reason);
            }
            Sample::Unknown { .. } => {}
        }
        for record in sample.records().filter_map(Result::ok) {
            match record.view() {
                Ok(View::Header(header)) => seen.header = seen.header.or(Some(header)),
                Ok(View::Ethernet(ethernet)) => seen.decoded.0 = seen.decoded.0.or(Some(ethernet)),
                Ok(View::Ip(ip)) => seen.decoded.1 = seen.decoded.1.or(Some(ip)),
                Ok(View::Switch(switch)) => seen.vlans = Some((switch.src_vlan, switch.dst_vlan)),
                _ => {}
            }
        }
        let start = seen.header.and_then(|header| Start::from_header_protocol(header.protocol.0));
        seen.frame = seen.header.zip(start).map(|(header, start)| Frame::parse(start, header.header));
        seen.read_ip();
        seen
    }

    /// The outermost IP header and what is in it.
    fn read_ip(&mut self) {
        let headers = |frame: &Frame<'_>| {
            let v4 = frame.ipv4(0).map(|ip| Ip {
                source: ip.source().into(),
                destination: ip.destination().into(),
                protocol: ip.protocol().into(),
                class: ip.tos().into(),
                ttl: Some(ip.ttl()),
            });
            v4.or_else(|| {
                frame.ipv6(0).map(|ip| Ip {
                    source: ip.source().into(),
                    destination: ip.destination().into(),
                    protocol: ip.protocol().into(),
                    class: ip.class().into(),
                    ttl: Some(ip.hop_limit()),
                })
            })
        };
        self.ip = self.frame.as_ref().and_then(headers);
        if let (None, Some(ip)) = (self.ip, self.decoded.1) {
            let (source, destination, protocol, class) = (ip.src_ip, ip.dst_ip, ip.protocol, ip.traffic_class);
            self.ip = Some(Ip { source, destination, protocol, class, ttl: None });
            (self.ports, self.flags) = (Some((ip.src_port, ip.dst_port)), Some(ip.tcp_flags));
        } else if let Some(frame) = &self.frame {
            let transports = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
            let ports = transports.into_iter().find_map(|protocol| frame.ports(protocol, 0));
            self.ports = ports.map(|Ports { source, destination }| (source.into(), destination.into()));
            self.flags = frame.tcp(0).and_then(|tcp| tcp.flags()).map(u32::from);
        }
    }

    fn length(&self) -> Option<u32> {
        let (ethernet, ip) = self.decoded;
        let header = self.header.map(|header| header.frame_length);
        header.or(ethernet.map(|ethernet| ethernet.length)).or(ip.map(|ip| ip.length))
    }

    fn ethernet(&self) -> Option<SampledEthernet> {
        let header = self.frame.as_ref().and_then(|frame| frame.ethernet(0));
        let header = header.map(|header| SampledEthernet {
            length: 0,
            src_mac: header.source(),
            dst_mac: header.destination(),
            ethertype: header.ethertype().into(),
        });
        header.or(self.decoded.0)
    }
}
