//! Private parsers of untrusted input, public only for the targets in fuzz/.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use weir_wire::probe::Probe;

use crate::receiver::frames::Frames;
use crate::receiver::sessions::Sessions;
use crate::reverse::lines::{First, Line};
use crate::{Exchange, ReceiveReport, ReceiverSettings};

/// The session, number and length of each message of a stream in these pieces. `None`: it is not ours.
pub fn stream<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<(u16, u32, usize)>> {
    let (mut frames, mut messages) = (Frames::default(), Vec::new());
    for piece in pieces {
        let taken = frames.feed(piece, |probe, length| messages.push((probe.session, probe.sequence, length)));
        taken.ok()?;
    }
    Some(messages)
}

/// The ledger of datagrams with these times between them, in nanoseconds.
pub fn sessions<'a>(datagrams: impl IntoIterator<Item = (u64, &'a [u8])>) -> Option<ReceiveReport> {
    let exchange = Exchange::new(Duration::ZERO).ok()?;
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 7));
    let settings = ReceiverSettings::new(peer);
    let mut sessions = Sessions::new(&settings, &exchange);
    let mut at = 0_u64;
    for (after, datagram) in datagrams {
        at = at.saturating_add(after);
        match Probe::parse_datagram(datagram) {
            Ok(probe) => sessions.count(&probe, datagram.len(), peer, at),
            Err(_) => sessions.count_foreign(),
        }
    }
    Some(sessions.into_report())
}

/// Reads a line of a control connection, and writes it again.
pub fn line(text: &[u8]) {
    if let Ok(first) = serde_json::from_slice::<First>(text) {
        let again = serde_json::to_vec(&first).ok().and_then(|text| serde_json::from_slice(&text).ok());
        assert_eq!(again, Some(first));
    }
    if let Ok(line) = serde_json::from_slice::<Line>(text) {
        let again = serde_json::to_vec(&line).ok().and_then(|text| serde_json::from_slice(&text).ok());
        assert_eq!(again, Some(line));
    }
}
