//! The other half of a check: a station to listen to, whose datagrams fill a frame.

use std::hash::{BuildHasher, Hasher};
use std::io::IoSlice;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use weir_dgram::{Options, Outgoing, Socket};
use weir_program::stop::Stop;
use weir_wire::signal::{
    Channel, Clock, Element, Flags, Form, Header, Kind, MOST_BYTES_V4, MOST_BYTES_V6, Metadata, Packer, Position, Rate,
    encode,
};

use super::Settings;

/// Sends the signal `counter` of a station `check`, ten datagrams a second, each with a heartbeat after it, whose number tells that it was
/// lost; returns how many datagrams the kernel took.
///
/// # Errors
/// No route leads to the group; the kernel took none.
pub fn send(settings: &Settings, ttl: u8, stop: &Stop) -> Result<u64> {
    let options =
        Options { multicast_interface: settings.interface.clone(), multicast_ttl: Some(ttl), ..Options::default() };
    let socket = Socket::connect(None, settings.group, &options)?;
    let most = if settings.group.is_ipv4() { MOST_BYTES_V4 } else { MOST_BYTES_V6 };
    let session = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let (flags, clock) = (Flags::default(), Clock::default());
    let mut header = Header { kind: Kind::Data, flags, clock, count: 0, session, sequence: 0 };
    let mut packer = Packer::new(most);
    let each = packer.room(Element::F32, Form::Samples) as u16;
    let rate = Rate { per_second: u32::from(each) * 10, per_sample: 1 };
    let channel = Channel { name: "counter".into(), rate, ..Channel::default() };
    let (station, stream, software) = ("check".into(), "check".into(), "weir monitor check".into());
    let metadata = Metadata { station, stream, software, channels: vec![channel] };
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let (mut bytes, mut sent, mut failed, mut next) = (Vec::new(), 0, None, 0);
    let mut give = |bytes: &[u8]| {
        let pieces = [IoSlice::new(bytes)];
        let error = socket.send(&[Outgoing { pieces: &pieces, segment: None, to: None }]).error;
        sent += u64::from(error.is_none());
        failed = error.or(failed.take());
    };
    let until = Instant::now() + settings.duration;
    let mut is_last = false;
    while !is_last {
        if header.sequence.is_multiple_of(10) {
            encode::metadata(Header { kind: Kind::Metadata, ..header }, &metadata, most, &mut bytes, &mut give);
        }
        let time = i128::try_from(begun).unwrap_or(i128::MAX).saturating_add(rate.nanos(next));
        let position = (0, next, i64::try_from(time).unwrap_or(i64::MAX));
        let samples = packer.block(position, rate, (Element::F32, Form::Samples), each);
        samples.extend((next..next + u64::from(each)).flat_map(|index| (index as f32).to_le_bytes()));
        give(packer.finish(header));
        packer.clear();
        next += u64::from(each);
        header.sequence += 1;
        is_last = stop.wait(Instant::now() + APART) || Instant::now() >= until;
        let kind = if is_last { Kind::End } else { Kind::Heartbeat };
        let positions = [Position { channel: 0, next }];
        encode::positions(Header { kind, ..header }, &positions, most, &mut bytes, &mut give);
    }
    match failed {
        Some(error) if sent == 0 => {
            Err(anyhow!("send {most} bytes to {}: {error} (an MTU below 1500? ip link shows it)", settings.group))
        }
        _ => Ok(sent),
    }
}

const APART: Duration = Duration::from_millis(100);
