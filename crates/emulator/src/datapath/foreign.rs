//! Private parsers of untrusted frames, public only for the targets in fuzz/.

use super::cut::{self, Run};
use super::frame::{self, IP, MAX_HEADERS, VNET};
use crate::model::Alterations;

/// Parses a buffer (virtio header, then the frame), and cuts every packet and every run of two out of it: returns the
/// lengths of the packets from the IP header on, and the frame's total on the wire. `None`: malformed.
pub fn packets(buffer: &[u8]) -> Option<(Vec<usize>, u32)> {
    let layout = frame::parse(buffer).ok()?.layout;
    let mut out = vec![0; buffer.len().max(VNET)];
    let cut = |index| {
        let length = cut::packet(buffer, &layout, index, &mut out);
        length.map(|length| {
            cut::alter(&mut out[..length], &layout, &Alterations::each(|_| Some(u64::from(index))));
            length - IP
        })
    };
    let lengths = (0..layout.packets()).map(cut).collect::<Option<Vec<usize>>>();
    if layout.segment > 0 {
        for first in 0..layout.packets().saturating_sub(1) {
            cut::headers(buffer, &layout, Run { first, count: 2 }, &mut [0; MAX_HEADERS]);
        }
    }
    Some((lengths.unwrap_or_default(), layout.bytes()))
}
