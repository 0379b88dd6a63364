//! Datagrams of what is not data: each of at most `most` bytes, written to `bytes`, which is overwritten each time.

use super::position::POSITION_LEN;
use super::{HEADER_LEN, Header, Kind, Metadata, Position};

/// Heartbeats (or ends) for all positions: one datagram at least.
pub fn positions(
    header: Header,
    positions: &[Position],
    most: usize,
    bytes: &mut Vec<u8>,
    mut send: impl FnMut(&[u8]),
) {
    let each = (most.saturating_sub(HEADER_LEN) / POSITION_LEN).clamp(1, u16::MAX.into());
    let mut write = |positions: &[Position]| {
        bytes.clear();
        bytes.extend(Header { count: positions.len() as u16, ..header }.to_bytes());
        positions.iter().for_each(|position| position.write(bytes));
        send(bytes);
    };
    if positions.is_empty() {
        write(&[]);
    }
    positions.chunks(each).for_each(write);
}

/// Metadata of all channels: one datagram at least, each with who sends it. With the longest texts there are a channel takes
/// 1,246 bytes: `most` is to be more.
pub fn metadata(header: Header, metadata: &Metadata, most: usize, bytes: &mut Vec<u8>, mut send: impl FnMut(&[u8])) {
    let begin = |bytes: &mut Vec<u8>| {
        bytes.clear();
        bytes.extend(Header { kind: Kind::Metadata, count: 0, ..header }.to_bytes());
        metadata.write_sender(bytes);
    };
    begin(bytes);
    let empty = bytes.len();
    let mut one = Vec::new();
    for channel in &metadata.channels {
        one.clear();
        channel.write(&mut one);
        if bytes.len() + one.len() > most && bytes.len() > empty {
            send(bytes);
            begin(bytes);
        }
        bytes.extend_from_slice(&one);
    }
    if bytes.len() > empty || metadata.channels.is_empty() {
        send(bytes);
    }
}
