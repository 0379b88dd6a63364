//! Datagrams that keep the address of their sender: finished IP packets, in fragments where the way is narrow.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::ops::Range;

use weir_dgram::RawSender;
use weir_wire::ip::{Header, UdpPacket, Unsendable, cut};

use super::push::{Fate, Pushed, emptied, reason};
use crate::tee::counters::Reason;

/// A datagram and who sent it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept<'a> {
    /// Its sender.
    pub(super) source: SocketAddr,
    /// Its payload, one behind the other.
    pub(super) parts: [&'a [u8]; 2],
}

/// The way out for kept addresses.
#[derive(Debug)]
pub(super) struct Forge {
    /// Where to.
    to: SocketAddr,
    ttl: u8,
    tos: u8,
    /// Counts datagrams, so that their fragments are told apart.
    identification: u32,
}

/// Lists that every push fills anew, kept for their memory. One a worker.
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

impl Forge {
    /// To this address, with the options of the destination.
    pub(super) fn new(to: SocketAddr, ttl: Option<u8>, dscp: Option<u8>) -> Self {
        // A raw packet gets no default from the kernel. 64: RFC 1700, and what Linux uses; 1 for multicast: RFC 1112.
        let usual = if to.ip().is_multicast() { 1 } else { 64 };
        // Where a process starts to count must not repeat what the one before it sent within a reassembly's time.
        let start = std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.subsec_nanos() ^ now.as_secs() as u32);
        Self { to, ttl: ttl.unwrap_or(usual), tos: dscp.map_or(0, |dscp| dscp << 2), identification: start }
    }

    /// Sends datagrams in order. Afterwards `fates` tells of all that are done with. A datagram of which only some
    /// fragments went before the buffer was full is to be sent again as a whole.
    pub(super) fn push(
        &mut self,
        sender: &RawSender,
        datagrams: &[Kept<'_>],
        packing: &mut Packing,
        fates: &mut Vec<Fate>,
    ) -> Pushed {
        fates.clear();
        let mut pushed = Pushed::default();
        let mut done = 0;
        // The datagram that was last too long, if the route's MTU has changed since it was cut.
        let mut recut = None;
        while done < datagrams.len() && !pushed.blocked {
            let mtu = sender.mtu();
            if let Err(problem) = self.pack(&datagrams[done..], mtu, packing) {
                fates.push(Fate::Dropped(1, problem));
                done += 1;
                continue;
            }
            let taken = packing.send(sender, &datagrams[done..]);
            pushed.calls += u64::from(taken.calls);
            pushed.icmp += u64::from(taken.icmp);
            let whole = packing.ends.partition_point(|&end| end <= taken.messages);
            fates.push(Fate::Sent(whole));
            done += whole;
            let Some(error) = taken.error else { continue };
            match reason(&error) {
                None => pushed.blocked = true,
                Some(Reason::TooLong) if sender.mtu() != mtu && recut != Some(done) => recut = Some(done),
                Some(reason) => {
                    fates.push(Fate::Dropped(1, reason));
                    done += 1;
                }
            }
        }
        pushed
    }

    /// Makes packets of the first few datagrams, at least one.
    fn pack(&mut self, datagrams: &[Kept<'_>], mtu: usize, packing: &mut Packing) -> Result<(), Reason> {
        packing.headers.clear();
        packing.carried.clear();
        packing.ends.clear();
        for (index, datagram) in datagrams.iter().enumerate() {
            self.identification = self.identification.wrapping_add(1);
            let packet = UdpPacket {
                source: datagram.source,
                destination: self.to,
                ttl: self.ttl,
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
    fn send(&mut self, sender: &RawSender, datagrams: &[Kept<'_>]) -> weir_dgram::Taken {
        let mut pieces = emptied(std::mem::take(&mut self.pieces));
        self.spans.clear();
        for (header, (index, carried)) in self.headers.iter().zip(&self.carried) {
            let start = pieces.len();
            pieces.push(IoSlice::new(header));
            pieces.extend(cut(&datagrams[*index].parts, carried.clone()).map(IoSlice::new));
            self.spans.push(start..pieces.len());
        }
        let mut packets = emptied_packets(std::mem::take(&mut self.packets));
        packets.extend(self.spans.iter().map(|span| &pieces[span.clone()]));
        let taken = sender.send(&packets);
        self.packets = emptied_packets(packets);
        self.pieces = emptied(pieces);
        taken
    }
}

fn emptied_packets<'b>(mut list: Vec<&[IoSlice<'_>]>) -> Vec<&'b [IoSlice<'b>]> {
    list.clear();
    list.into_iter().map(|_| &[][..]).collect()
}

/// Packets that are made before some are sent.
const PACKETS: usize = 64;
