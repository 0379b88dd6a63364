//! UDP datagrams of a capture: a file, or what a program writes while it captures.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use weir_program::stop::Stop;
use weir_wire::ip::{Headers, UDP};
use weir_wire::pcap::{self, NotIp, Packet, Step};

use super::totals::Packets;
use super::{Arrived, Decoder, WRITE, wait};

/// Decodes a capture to its end, until nobody reads what is printed, or until it shall stop.
///
/// # Errors
/// It is no capture, or damaged; it cannot be read; what is decoded cannot be written.
pub fn read(mut capture: impl Read + AsFd, decoder: &mut Decoder<impl Write>, stop: &Stop) -> Result<()> {
    let (mut reader, mut buffer, mut from, mut to) = (pcap::Reader::new(), vec![0; CHUNK], 0, 0);
    loop {
        let needed = match reader.step(&buffer[from..to]) {
            Ok(Step::Need(bytes)) => bytes,
            Ok(Step::Used(bytes, packet)) => {
                if let Some(packet) = packet
                    && let Some(arrived) = datagram(&packet, &mut decoder.totals.packets)
                    && decoder.take(&arrived).context(WRITE)?.is_break()
                {
                    return Ok(());
                }
                from += bytes;
                continue;
            }
            Err(malformed) => {
                let _ = decoder.flush().context(WRITE)?;
                return Err(malformed.into());
            }
        };
        buffer.copy_within(from..to, 0);
        (from, to) = (0, to - from);
        buffer.resize(needed.max(CHUNK), 0);
        // Whoever captures may pause: what there is can be seen meanwhile.
        if decoder.flush().context(WRITE)?.is_break() || !wait(&capture, stop).context("read")? {
            return Ok(());
        }
        match capture.read(&mut buffer[to..]) {
            Ok(0) => {
                decoder.totals.packets.ends_early = to > 0;
                return Ok(());
            }
            Ok(bytes) => to += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("read"),
        }
    }
}

/// Bytes that are read at once, unless a packet is longer.
const CHUNK: usize = 1 << 20;

/// The UDP datagram in a packet; what is none is counted.
pub(crate) fn datagram<'a>(packet: &Packet<'a>, packets: &mut Packets) -> Option<Arrived<'a>> {
    let ip = match packet.link.ip(packet.bytes) {
        Ok(ip) => ip,
        Err(NotIp::Link(_)) => {
            packets.unknown_link += 1;
            return None;
        }
        Err(NotIp::Other) => {
            packets.other += 1;
            return None;
        }
    };
    // The header says how long the packet is: longer than what is left of it, if it was cut off.
    let Ok(headers) = Headers::parse(ip) else {
        let cut_off = packet.original_length as usize > packet.bytes.len();
        *(if cut_off { &mut packets.cut_off } else { &mut packets.other }) += 1;
        return None;
    };
    if headers.fragment && headers.protocol == UDP {
        packets.fragments += 1;
        return None;
    }
    let body = headers.body(ip);
    let udp = body.first_chunk::<8>().filter(|_| headers.protocol == UDP).and_then(|&[a, b, c, d, ..]| {
        // The packet says how long it is: what UDP says of that is wrong in some captures.
        Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]), body.get(8..)?))
    });
    let Some((source, port, payload)) = udp else {
        packets.other += 1;
        return None;
    };
    Some(Arrived { time: packet.stamp, source: SocketAddr::new(headers.source, source), port, payload })
}
