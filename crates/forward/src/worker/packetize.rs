//! Datagrams with the source address of their sender: finished IP packets, in fragments where the way is narrow.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::ops::Range;

use weir_dgram::RawSender;
use weir_wire::ip::{Header, MIN_MTU_V6, UdpPacket, Unsendable, cut};

use super::recycle::recycle;
use super::send::{Outcome, SendStatistics, reason};
use super::sender::most_hops;
use crate::drops::Reason;
use crate::settings::Destination;

/// A datagram that leaves with the address of its sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preserved<'a> {
    /// Its sender.
    pub(super) source: SocketAddr,
    /// Hops with which it may leave; 0: nobody knows.
    pub(super) hops: u8,
    /// Its payload, one behind the other.
    pub(super) parts: [&'a [u8]; 2],
}

/// Makes raw packets for one destination.
#[derive(Debug)]
pub(super) struct Packetizer {
    /// Where to.
    to: SocketAddr,
    ttl: u8,
    /// As in `send`.
    most_hops: Option<u8>,
    /// Bytes of a packet.
    most_bytes: usize,
    tos: u8,
    /// Counts datagrams, so that their fragments are told apart.
    identification: u32,
}

/// Lists that every send fills anew, kept for their memory. One a worker.
#[derive(Default)]
pub(super) struct Packing {
    headers: Vec<Header>,
    /// Of each packet, its datagram and what it carries of it.
    carried: Vec<(usize, Range<usize>)>,
    /// Of each datagram, the number of packets up to its end.
    ends: Vec<usize>,
    pieces: Vec<IoSlice<'static>>,
    spans: Vec<Range<usize>>,
    packets: Vec<&'static [IoSlice<'static>]>,
}

impl Packetizer {
    /// To this address, with the options of the destination.
    pub(super) fn new(to: SocketAddr, destination: &Destination) -> Self {
        let Destination { ttl, dscp, mtu, .. } = *destination;
        // A raw packet gets no default from the kernel. 64: RFC 1700, and what Linux uses; 1 for multicast: RFC 1112.
        let usual = if to.ip().is_multicast() { 1 } else { 64 };
        // Where a process starts to count must not repeat what the one before it sent within a reassembly's time.
        let start = std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.subsec_nanos() ^ now.as_secs() as u32);
        // That a packet is too long for the way (ICMPv6) is reported to the sender whose address it has, so that nobody
        // here learns of it.
        let narrowest = if to.ip().to_canonical().is_ipv4() { usize::MAX } else { MIN_MTU_V6 };
        let most_hops = most_hops(destination);
        Self {
            to,
            ttl: ttl.unwrap_or(usual),
            most_hops,
            most_bytes: mtu.map_or(narrowest, usize::from),
            tos: dscp.map_or(0, |dscp| dscp << 2),
            identification: start,
        }
    }

    /// Sends datagrams in order. Afterwards `outcomes` tells of all that are done with. A datagram of which only some
    /// fragments went before the buffer was full is to be sent again as a whole.
    pub(super) fn send(
        &mut self,
        sender: &RawSender,
        datagrams: &[Preserved<'_>],
        packing: &mut Packing,
        outcomes: &mut Vec<Outcome>,
    ) -> SendStatistics {
        outcomes.clear();
        let mut statistics = SendStatistics::default();
        let mut done = 0;
        // The datagram that was last too long, if the route's MTU has changed since it was cut.
        let mut recut = None;
        while done < datagrams.len() && !statistics.blocked {
            let mtu = sender.mtu();
            if let Err(problem) = self.pack(&datagrams[done..], mtu.min(self.most_bytes), packing) {
                outcomes.push(Outcome::Dropped(1, problem));
                done += 1;
                continue;
            }
            let first = done;
            packing.packets(&datagrams[first..], |packets, ends| {
                // What is refused costs those behind it no second packing: whoever forbids a destination would have us
                // work the more for it.
                let mut at_once = ends.len();
                while done - first < ends.len() {
                    let before = ends[..done - first].last().copied().unwrap_or(0);
                    let after = ends[ends.len().min(done - first + at_once) - 1];
                    let progress = sender.send(&packets[before..after]);
                    statistics.calls += u64::from(progress.calls);
                    statistics.icmp += u64::from(progress.icmp);
                    let whole = ends[done - first..].partition_point(|&end| end <= before + progress.messages);
                    outcomes.push(Outcome::Sent(whole));
                    done += whole;
                    let Some(error) = progress.error else {
                        at_once *= 2;
                        continue;
                    };
                    match reason(&error) {
                        None => {
                            statistics.blocked = true;
                            break;
                        }
                        Some(Reason::TooLong) if sender.mtu() != mtu && recut != Some(done) => {
                            recut = Some(done);
                            break;
                        }
                        Some(reason) => {
                            outcomes.push(Outcome::Dropped(1, reason));
                            done += 1;
                            // The next is likely to be refused, too.
                            at_once = 1;
                        }
                    }
                }
            });
        }
        statistics
    }

    /// Makes packets of the first few datagrams, at least one.
    fn pack(&mut self, datagrams: &[Preserved<'_>], mtu: usize, packing: &mut Packing) -> Result<(), Reason> {
        packing.headers.clear();
        packing.carried.clear();
        packing.ends.clear();
        for (index, datagram) in datagrams.iter().enumerate() {
            self.identification = self.identification.wrapping_add(1);
            let packet = UdpPacket {
                source: datagram.source,
                destination: self.to,
                ttl: match self.most_hops {
                    Some(most) if datagram.hops > 0 => datagram.hops.min(most),
                    _ => self.ttl,
                },
                tos: self.tos,
                identification: self.identification,
            };
            let packets = match packet.packets(&datagram.parts, mtu) {
                Ok(packets) => packets,
                // The next round begins with it.
                Err(_) if index > 0 => break,
                Err(Unsendable::Family { .. }) => return Err(Reason::Family),
                Err(Unsendable::TooLong { .. }) => return Err(Reason::TooLong),
            };
            for packet in packets {
                packing.headers.push(packet.header);
                packing.carried.push((index, packet.payload));
            }
            packing.ends.push(packing.headers.len());
            if packing.headers.len() >= PACKETS {
                break;
            }
        }
        Ok(())
    }
}

impl Packing {
    /// Gives the packets that were made of these datagrams, and of each the number of packets up to its end.
    fn packets(&mut self, datagrams: &[Preserved<'_>], send: impl FnOnce(&[&[IoSlice<'_>]], &[usize])) {
        let mut pieces = recycle(std::mem::take(&mut self.pieces));
        self.spans.clear();
        for (header, (index, carried)) in self.headers.iter().zip(&self.carried) {
            let start = pieces.len();
            pieces.push(IoSlice::new(header));
            pieces.extend(cut(&datagrams[*index].parts, carried.clone()).map(IoSlice::new));
            self.spans.push(start..pieces.len());
        }
        let mut packets = recycle(std::mem::take(&mut self.packets));
        packets.extend(self.spans.iter().map(|span| &pieces[span.clone()]));
        send(&packets, &self.ends);
        self.packets = recycle(packets);
        self.pieces = recycle(pieces);
    }
}

/// Packets that are made before some are sent.
const PACKETS: usize = 64;

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::process::Command;

    use weir_dgram::Options;
    use weir_kernel::links::Netlink;
    use weir_kernel::namespaces::NetNs;

    use super::super::tests::destination;
    use super::*;

    /// A router whose link is narrower reports that to the sender whose address the packet has.
    #[test]
    fn over_ipv6_packets_fit_every_link_unless_a_mtu_is_set() {
        let (to, source) = ("[2001:db8::5]:514".parse().unwrap(), "[2001:db8::9]:9".parse().unwrap());
        for (mtu, lengths) in [(None, &[1280, 224][..]), (Some(1400), &[1400, 104]), (Some(9000), &[1448])] {
            let mut packetizer = Packetizer::new(to, &Destination { mtu, ..destination(to) });
            let mut packing = Packing::default();
            let preserved = Preserved { source, hops: 0, parts: [&[7; 1400], &[]] };
            let most = packetizer.most_bytes.min(1500);
            packetizer.pack(&[preserved], most, &mut packing).unwrap();
            let packets = packing.headers.iter().zip(&packing.carried);
            let found: Vec<_> = packets.map(|(header, (_, carried))| header.len() + carried.len()).collect();
            assert_eq!(found, lengths, "{mtu:?}");
        }
    }

    #[test]
    fn what_a_firewall_forbids_is_packed_once() {
        let Some(nft) = weir_testbed::program("nft") else { return };
        let ns = NetNs::create().unwrap();
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        let forbid = "table ip t { chain out { type filter hook output priority 0; ip saddr 127.0.0.7 drop; }; }";
        assert!(ns.run(|| Command::new(nft).arg(forbid).status()).unwrap().unwrap().success());
        ns.run(|| {
            let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
            let to = sink.local_addr().unwrap();
            let sender = RawSender::open(to, &Options::default()).unwrap();
            // Of the second, all but a few.
            for (count, is_forbidden) in [(300, (|_| true) as fn(u8) -> bool), (150, |number| number % 32 != 5)] {
                let mut packetizer = Packetizer::new(to, &destination(to));
                let (before, mut outcomes) = (packetizer.identification, Vec::new());
                let payloads: Vec<_> = (0..count).map(|number| [number as u8]).collect();
                let preserved = payloads.iter().map(|payload| {
                    let source = Ipv4Addr::new(127, 0, 0, if is_forbidden(payload[0]) { 7 } else { 8 });
                    Preserved { source: (source, 9).into(), hops: 0, parts: [payload, &[]] }
                });
                let statistics =
                    packetizer.send(&sender, &preserved.collect::<Vec<_>>(), &mut Packing::default(), &mut outcomes);
                assert!(!statistics.blocked);
                let told = outcomes.iter().flat_map(|fate| match *fate {
                    Outcome::Sent(sent) => vec![None; sent],
                    Outcome::Dropped(dropped, reason) => vec![Some(reason); dropped],
                });
                let refused = payloads.iter().map(|payload| is_forbidden(payload[0]).then_some(Reason::Refused));
                assert!(told.eq(refused), "{outcomes:?}");
                assert_eq!(packetizer.identification.wrapping_sub(before), count, "one packing for each");
                for payload in payloads.iter().filter(|payload| !is_forbidden(payload[0])) {
                    let mut received = [0; 2];
                    assert_eq!(sink.recv(&mut received).unwrap(), 1);
                    assert_eq!(received[0], payload[0]);
                }
            }
        })
        .unwrap();
    }
}
