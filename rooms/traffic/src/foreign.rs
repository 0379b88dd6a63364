//! What reads text and bytes that others write, as far as it is not public anyway, for the targets in fuzz/ and nobody
//! else.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use weir_wire::probe::Probe;

use crate::receiver::frames::{Frame, Frames};
use crate::receiver::sessions::Sessions;
use crate::{Exchange, ReceiveReport, ReceiverSettings};

/// The session, number and length of each message of a stream that comes in these pieces; `None`: it is not ours.
pub fn stream<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<(u16, u32, usize)>> {
    let (mut frames, mut messages) = (Frames::default(), Vec::new());
    for piece in pieces {
        let taken = frames.feed(piece, |frame| {
            if let Frame::Message(probe, length) = frame {
                messages.push((probe.session, probe.sequence, length));
            }
        });
        taken.ok()?;
    }
    Some(messages)
}

/// The account of datagrams that came at these times after one another, in nanoseconds.
pub fn sessions<'a>(datagrams: impl IntoIterator<Item = (u64, &'a [u8])>) -> Option<ReceiveReport> {
    let exchange = Exchange::new(Duration::ZERO).ok()?;
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 7));
    let mut sessions = Sessions::new(&ReceiverSettings::new(peer), &exchange);
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
