//! The other half of a check: signals to listen to, of the longest kind.

use std::hash::{BuildHasher, Hasher};
use std::io::IoSlice;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use weir_dgram::{Options, Outgoing, Socket};
use weir_program::stop::Stop;
use weir_wire::signal::{Clock, Flags, Header, Kind, MOST_BYTES_V6, Packer, Position, encode};

use super::Settings;

/// Sends heartbeats that fill a frame, ten a second, each behind a datagram of data without samples, whose number tells of either that is
/// lost; returns how many of both the kernel took.
///
/// # Errors
/// No route leads to the group; the kernel took no heartbeat.
pub fn send(settings: &Settings, ttl: u8, stop: &Stop) -> Result<u64> {
    let options =
        Options { multicast_interface: settings.interface.clone(), multicast_ttl: Some(ttl), ..Options::default() };
    let socket = Socket::connect(None, settings.group, &options)?;
    let session = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let mut header = Header {
        kind: Kind::Heartbeat,
        flags: Flags::default(),
        clock: Clock::default(),
        count: 0,
        session,
        sequence: 0,
    };
    let positions: Vec<Position> = (0..POSITIONS).map(|channel| Position { channel, next: 0 }).collect();
    let mut packer = Packer::new(MOST_BYTES_V6);
    let (mut bytes, mut sent, mut failed) = (Vec::new(), 0, None);
    let until = Instant::now() + settings.duration;
    while Instant::now() < until {
        // Receivers, who count numbers of data, too, miss none.
        if socket.send(&[outgoing(&[IoSlice::new(packer.finish(header))])]).error.is_none() {
            header.sequence += 1;
        }
        encode::positions(header, &positions, usize::MAX, &mut bytes, |bytes| {
            match socket.send(&[outgoing(&[IoSlice::new(bytes)])]).error {
                None => sent += 1,
                Some(error) => failed = Some(error),
            }
        });
        if stop.wait(Instant::now() + APART) {
            break;
        }
    }
    match failed {
        Some(error) if sent == 0 => Err(anyhow!(
            "send {} bytes to {}: {error} (an MTU below 1500? ip link shows it)",
            bytes.len(),
            settings.group
        )),
        _ => Ok(sent + header.sequence),
    }
}

fn outgoing<'a>(pieces: &'a [IoSlice<'a>]) -> Outgoing<'a> {
    Outgoing { pieces, segment: None, to: None }
}

/// As many as fill a datagram over IPv6: 1,444 bytes.
const POSITIONS: u16 = 142;

const APART: Duration = Duration::from_millis(100);
