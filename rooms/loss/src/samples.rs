//! Samples of what was dropped as a capture file (pcapng), the reason as each packet's comment.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use weir_trace::{Sample, Samples};
use weir_wire::pcapng::{self, Direction, Interface, LinkType, Packet};

use weir_units::format::shown;

use crate::places::Place;

/// What packets of a capture are named by.
pub(crate) trait Names {
    /// Of an interface of a namespace, and of the namespace; `None`: not known.
    fn interface(&self, namespace: u32, index: u32) -> Option<String>;

    /// Of a namespace.
    fn namespace(&self, inode: u32) -> String;

    /// Of the socket of a cookie: its address and process.
    fn socket(&self, cookie: u64) -> Option<String>;
}

/// A capture of packets that were dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The file.
    pub file: Vec<u8>,
    /// Packets in it.
    pub samples: u64,
    /// Packets that were dropped where they were taken.
    pub of: u64,
}

/// Writes a capture: IP packets, as far as they were kept.
pub(crate) fn capture(samples: &Samples, names: &dyn Names) -> Capture {
    let mut file = Vec::new();
    pcapng::section_header(&mut file, concat!("weir ", env!("CARGO_PKG_VERSION")));
    let mut interfaces: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for sample in &samples.samples {
        let next = interfaces.len() as u32;
        interfaces.entry((sample.namespace, sample.interface)).or_insert_with(|| {
            let name = match sample.interface {
                0 => "none".to_owned(),
                index => names.interface(sample.namespace, index).unwrap_or_else(|| format!("interface {index}")),
            };
            let description = match sample.namespace {
                0 => "out of a receive queue".to_owned(),
                inode => names.namespace(inode),
            };
            let interface = Interface {
                name: &shown(&name),
                description: &shown(&description),
                snap_length: 0,
                link_type: LinkType::Raw,
            };
            pcapng::interface(&mut file, &interface);
            next
        });
    }
    for sample in &samples.samples {
        let since = sample.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let packet = Packet {
            interface: interfaces.get(&(sample.namespace, sample.interface)).copied().unwrap_or(0),
            stamp: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
            direction: Some(if sample.outgoing { Direction::Outbound } else { Direction::Inbound }),
            original_length: sample.length.max(sample.bytes.len() as u32),
            bytes: &sample.bytes,
            comment: &comment(sample, names),
        };
        pcapng::packet(&mut file, &packet);
    }
    Capture { file, samples: samples.samples.len() as u64, of: samples.met }
}

/// Place and reason, socket, how the kernel came there, what to change; a line each.
fn comment(sample: &Sample, names: &dyn Names) -> String {
    let Sample { reason, function, .. } = sample;
    let place = Place::of_drop(reason, function, sample.outgoing);
    let mut comment = place.title(function).to_owned();
    match (reason.as_str(), function.as_str()) {
        ("", "") => {}
        (reason, "") => comment.push_str(&format!(": {reason}")),
        ("", function) => comment.push_str(&format!(": in {function}")),
        (reason, function) => comment.push_str(&format!(": {reason} in {function}")),
    }
    if let Some(socket) = names.socket(sample.cookie) {
        comment.push_str(&format!("\nsocket: {}", shown(&socket)));
    }
    if !sample.stack.is_empty() {
        comment.push_str(&format!("\nstack: {}", sample.stack.join(" < ")));
    }
    let remedy = place.remedy(reason, function);
    if !remedy.is_empty() {
        comment.push_str(&format!("\nwhat to change: {remedy}"));
    }
    comment
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct Two;

    impl Names for Two {
        fn interface(&self, _: u32, index: u32) -> Option<String> {
            (index == 2).then(|| "eth0".into())
        }

        fn namespace(&self, inode: u32) -> String {
            format!("namespace {inode}")
        }

        fn socket(&self, cookie: u64) -> Option<String> {
            (cookie == 7).then(|| "10.0.0.2:5000 weir (1)".into())
        }
    }

    #[test]
    fn a_packet_says_why_it_was_dropped() {
        let sample = Sample {
            time: UNIX_EPOCH + Duration::from_nanos(0x1_0000_0002),
            reason: "SOCKET_RCVBUFF".into(),
            function: "udp_queue_rcv_one_skb".into(),
            namespace: 5,
            interface: 2,
            cookie: 7,
            port: 5000,
            from_port: 4000,
            outgoing: false,
            length: 1400,
            bytes: vec![0x45; 28],
            stack: vec!["udp_queue_rcv_one_skb".into(), "udp_unicast_rcv_skb".into()],
        };
        let elsewhere = Sample { interface: 3, ..sample.clone() };
        let capture = capture(&Samples { samples: vec![sample, elsewhere], met: 9 }, &Two);
        assert_eq!((capture.samples, capture.of), (2, 9));
        let text = String::from_utf8_lossy(&capture.file);
        for words in [
            "eth0",
            "interface 3",
            "namespace 5",
            "receive buffer full: SOCKET_RCVBUFF in udp_queue_rcv_one_skb\nsocket: 10.0.0.2:5000 weir (1)\n\
             stack: udp_queue_rcv_one_skb < udp_unicast_rcv_skb\nwhat to change: ",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        // Raw IP, twice.
        let descriptions = capture.file.windows(4).filter(|bytes| *bytes == [101, 0, 0, 0]).count();
        assert_eq!(descriptions, 2);
    }
}
