//! The other half of a check: a station to listen to, whose datagrams fill a frame.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use weir_dgram::{Options, Socket};
use weir_program::clock::nanos;
use weir_program::stop::Stop;
use weir_wire::signal::{Cause, Channel, Element, Form, Packer, Rate};

use super::Settings;
use weir_signal::seal::Sealer;
use weir_signal::send::{Lane, Outlets, Patient, Sender, Stream};

/// Sends the signal `counter` of a station `check`, ten datagrams a second, each with a heartbeat after it, whose number tells that it was
/// lost; returns how many datagrams the kernel took.
///
/// # Errors
/// No route leads to the group; the kernel took none.
pub fn send(settings: &Settings, ttl: u8, stop: &Stop) -> Result<u64> {
    let options =
        Options { multicast_interface: settings.interface.clone(), multicast_ttl: Some(ttl), ..Options::default() };
    let socket = Socket::connect(None, settings.group, &options)?;
    let most_bytes = Outlets::most_bytes([settings.group]);
    let (sealer, fault) = (Sealer::default(), Cause::Station);
    let stream = Stream { station: "check".into(), name: "check".into(), sealer, most_bytes, fault };
    let mut sender = Sender::new(stream, Patient::new(&socket, stop));
    let each = Packer::new(most_bytes).room(Element::F32, Form::Samples) as u64;
    let rate = Rate { per_second: each as u32 * 10, per_sample: 1 };
    let channel = Channel { name: "counter".into(), rate, ..Channel::default() };
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    sender.add(Lane::new(channel, 0, i64::try_from(time)?, 1));
    let began = Instant::now();
    let now = || nanos(began.elapsed());
    sender.step(now(), 0);
    for first in (0..).step_by(each as usize) {
        let samples: Vec<f64> = (first..first + each).map(|index| index as f64).collect();
        sender.push(0, first, &samples, now());
        sender.step(now(), 0);
        // The heartbeat is due.
        let is_last = stop.wait(Instant::now() + APART / 2) || began.elapsed() >= settings.duration;
        sender.step(now(), 0);
        if is_last || stop.wait(Instant::now() + APART / 2) {
            break;
        }
    }
    sender.end(now(), |apart| {
        stop.wait(Instant::now() + apart);
    });
    let counts = sender.counts;
    let sent = counts.data + counts.heartbeats + counts.metadata + counts.ends;
    match sender.outlet.failed {
        Some(error) if sent == 0 => {
            Err(anyhow!("send {most_bytes} bytes to {}: {error} (an MTU below 1500? ip link shows it)", settings.group))
        }
        _ => Ok(sent),
    }
}

const APART: Duration = Duration::from_millis(100);
