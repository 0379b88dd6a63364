//! Cuts super-packets into runs of adjacent segments, and into single packets: pure functions of a buffer.
//!
//! Fixed up like the kernel's own segmentation (net/ipv4/af_inet.c inet_gso_segment, tcp_offload.c, udp_offload.c):
//! IPv4 total length, identification (plus the segment's index) and header checksum; IPv6 payload length; UDP length;
//! TCP sequence number, PSH and FIN on the last segment only, CWR on the first only; and the checksum of the
//! pseudo-header, which counts the length.

use weir_wire::ip::Checksum;

use super::frame::{IP, Layout, MAX_HEADERS, TCP_CHECKSUM, UDP_CHECKSUM, VNET, VnetHeader};
use crate::model::Alterations;

/// Adjacent segments of a super-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Index of the first.
    pub(super) first: u32,
    /// Their number, at least 1.
    pub(super) count: u32,
}

/// Writes the headers of `run`, the virtio header included, to `out`; returns their length. The payload that follows
/// them is `layout.payload_of(run.first, run.count)`, unchanged.
pub(super) fn headers(buffer: &[u8], layout: &Layout, run: Run, out: &mut [u8; MAX_HEADERS]) -> usize {
    let length = usize::from(layout.payload);
    let headers = &mut out[..length];
    headers.copy_from_slice(&buffer[..length]);
    let payload = layout.payload_of(run.first, run.count);
    let skipped = payload.start - length;
    let is_first = run.first == 0;
    let is_last = payload.end == layout.end as usize;

    let transport = usize::from(layout.transport);
    let new_length = length - transport + payload.len();
    let old_length = layout.end as usize - transport;
    fix_up_vnet(headers, run, is_first);
    fix_up_ip(&mut headers[IP..], layout.version, run.first, length - IP + payload.len());
    fix_up_checksum(headers, layout, old_length as u16, new_length as u16);
    let transport = &mut headers[transport..];
    if layout.tcp {
        let sequence = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
        transport[4..8].copy_from_slice(&sequence.wrapping_add(skipped as u32).to_be_bytes());
        if !is_last {
            transport[13] &= !(TCP_PSH | TCP_FIN);
        }
        if !is_first {
            transport[13] &= !TCP_CWR;
        }
    } else {
        transport[4..6].copy_from_slice(&(new_length as u16).to_be_bytes());
    }
    length
}

/// Writes one packet of the frame to `out`, complete and with its checksum finished; returns its length. `None`: `out`
/// is too small. `index` is 0 for a frame that is one packet.
pub(super) fn packet(buffer: &[u8], layout: &Layout, index: u32, out: &mut [u8]) -> Option<usize> {
    let length = if layout.segment == 0 {
        let frame = buffer.get(..layout.end as usize)?;
        out.get_mut(..frame.len())?.copy_from_slice(frame);
        frame.len()
    } else {
        let mut scratch = [0; MAX_HEADERS];
        let run = Run { first: index, count: 1 };
        let headers = headers(buffer, layout, run, &mut scratch);
        let payload = &buffer[layout.payload_of(index, 1)];
        let length = headers + payload.len();
        let out = out.get_mut(..length)?;
        out[..headers].copy_from_slice(&scratch[..headers]);
        out[headers..].copy_from_slice(payload);
        length
    };
    finish_checksum(&mut out[..length]);
    Some(length)
}

/// Alters a complete packet, unless it ends before its transport header.
pub(super) fn alter(packet: &mut [u8], layout: &Layout, alterations: &Alterations<Option<u64>>) {
    if let Some((headers, body)) = packet.split_at_mut_checked(usize::from(layout.transport)) {
        alterations.apply(&mut headers[IP..], body);
    }
}

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

fn fix_up_vnet(headers: &mut [u8], run: Run, is_first: bool) {
    let Some(mut vnet) = VnetHeader::read(headers) else {
        return;
    };
    // The kernel's hint may cover payload that this run does not have; it refuses frames shorter than the hint.
    vnet.header_length = (headers.len() - VNET) as u16;
    if run.count == 1 {
        (vnet.gso_type, vnet.gso_size) = (VnetHeader::GSO_NONE, 0);
    } else if !is_first {
        vnet.gso_type &= !VnetHeader::GSO_ECN;
    }
    headers[..VNET].copy_from_slice(&vnet.to_bytes());
}

fn fix_up_ip(ip: &mut [u8], version: u8, index: u32, length: usize) {
    if version == 4 {
        let header = usize::from(ip[0] & 15) * 4;
        let identification = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(index as u16);
        ip[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        ip[4..6].copy_from_slice(&identification.to_be_bytes());
        ip[10..12].fill(0);
        let checksum = sum(&ip[..header]).finish();
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    } else {
        ip[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
    }
}

/// Replaces the length in the sum of the pseudo-header, which is not complemented.
fn fix_up_checksum(headers: &mut [u8], layout: &Layout, old_length: u16, new_length: u16) {
    let at = usize::from(layout.transport) + if layout.tcp { TCP_CHECKSUM } else { UDP_CHECKSUM };
    let field = &mut headers[at..at + 2];
    let mut sum = sum(field);
    sum.replace(old_length, new_length);
    field.copy_from_slice(&(!sum.finish()).to_be_bytes());
}

/// Does the work of hardware for `NEEDS_CHECKSUM`, and clears the flag.
fn finish_checksum(packet: &mut [u8]) {
    let Some(vnet) = VnetHeader::read(packet) else { return };
    packet[..VNET].fill(0);
    if vnet.flags & VnetHeader::NEEDS_CHECKSUM == 0 {
        return;
    }
    let start = VNET + usize::from(vnet.checksum_start);
    let Some(covered) = packet.get_mut(start..) else { return };
    let offset = usize::from(vnet.checksum_offset);
    let sum = sum(covered);
    let checksum = if offset == UDP_CHECKSUM { sum.finish_udp() } else { sum.finish() };
    if let Some(field) = covered.get_mut(offset..offset + 2) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
}

fn sum(bytes: &[u8]) -> Checksum {
    let mut sum = Checksum::new();
    sum.add(bytes);
    sum
}

#[cfg(test)]
pub(super) mod tests;
