//! What reads text and bytes that others write, as far as it is not public anyway, for the targets in fuzz/ and nobody
//! else.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use weir_wire::probe::Probe;

use crate::cli;
use crate::lab::iperf3::json::Output;
use crate::lab::iperf3::{self, connections, report};
use crate::loss::account::join;
use crate::loss::statement;
use crate::report::record::{Manifest, Record};
use crate::report::store::{self, StoreError};
use crate::service::signals;
use crate::tee::health::ping;
use crate::traffic::bulk::BulkReport;
use crate::traffic::receiver::frames::Frames;
use crate::traffic::receiver::sessions::Sessions;
use crate::traffic::{Exchange, ReceiveReport, ReceiverSettings, Transport};

/// An error as it is printed.
pub fn told(error: impl Into<anyhow::Error>) -> String {
    cli::in_one_line(&error.into())
}

/// The session, number and length of each message of a stream that comes in these pieces; `None`: it is not ours.
pub fn stream<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<(u16, u32, usize)>> {
    let (mut frames, mut messages) = (Frames::default(), Vec::new());
    for piece in pieces {
        frames.feed(piece, |probe, length| messages.push((probe.session, probe.sequence, length))).ok()?;
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

/// The records of a run, from its manifest and `cells.jsonl`.
///
/// # Errors
/// One line: they are something else.
pub fn result(manifest: &[u8], cells: &[u8]) -> Result<(Manifest, Vec<Record>), StoreError> {
    let manifest = store::parse_manifest(Path::new(store::MANIFEST), manifest)?;
    let mut records = store::parse_records(Path::new(store::CELLS), cells)?;
    store::put_in_order(&manifest, &mut records);
    Ok((manifest, records))
}

/// What the two ends of iperf3 printed, as a report of both; and text as its version, and as a line of /proc/net/tcp.
///
/// # Errors
/// In words: an end printed something else.
pub fn iperf3(client: &[u8], server: &[u8], transport: Transport) -> Result<[BulkReport; 2], String> {
    let text = String::from_utf8_lossy(client);
    let _ = (iperf3::parse_version(&text), connections::parse(&text));
    let settings = iperf3::Settings {
        server: SocketAddr::from((Ipv4Addr::LOCALHOST, 7)),
        transport,
        streams: 2,
        congestion: None,
        duration: Duration::from_secs(3),
        warmup: Duration::from_secs(1),
        payload: 1000,
        rate: None,
        interval: Duration::from_millis(100),
        data_port: None,
        connect_timeout: Duration::from_secs(1),
    };
    let (client, server) = (Output::parse(client)?, Output::parse(server)?);
    Ok([true, false].map(|complete| report::report(&settings, &client, &server, complete)))
}

/// The accounts of two hosts, joined, in words.
///
/// # Errors
/// One line: they are something else.
pub fn account(sender: &str, receiver: &str) -> Result<String> {
    let read = |text| join::parse(Path::new("account.json"), text);
    Ok(statement::of(&join::join(read(sender)?, read(receiver)?)))
}

/// Whether a message of ICMP, behind its IP header if `headed`, answers this echo request.
pub fn echo(message: &[u8], headed: bool, token: u64, sequence: u16) -> [bool; 2] {
    [ping::Version::V4, ping::Version::V6].map(|version| ping::answers(message, version, headed, token, sequence))
}

/// Text of /proc/PID/status.
pub fn status(text: &str) -> bool {
    signals::ignores(text, nix::sys::signal::Signal::SIGHUP)
}
