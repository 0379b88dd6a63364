//! Datagrams as they come.

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};
use weir_dgram::{Inbox, Options, Socket};
use weir_program::stop::Stop;
use weir_wire::sflow::PORT;

use super::{Arrived, Decoder, WRITE, wait};

/// What the socket is asked for.
pub fn options() -> Options {
    Options { timestamps: true, gro: true, receive_buffer: Some(8 << 20), ..Options::default() }
}

/// Decodes what comes until it shall stop, or until nobody reads what is printed. Datagrams that the socket dropped.
///
/// # Errors
/// The socket receives no more; what is decoded cannot be written.
pub fn listen(socket: &Socket, decoder: &mut Decoder<impl Write>, stop: &Stop) -> Result<u64> {
    let mut inbox = Inbox::new(BATCH, LONGEST);
    let drops = || socket.memory().map_or(0, |memory| memory.drops.into());
    while !stop.is_set() {
        match inbox.receive(socket) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = wait(socket, stop).context("read")?;
                continue;
            }
            Err(error) => return Err(error).context("read"),
        }
        for message in inbox.messages() {
            for payload in message.segments() {
                // Whoever sends here means sFlow, whatever the port.
                let arrived = Arrived { time: message.arrival, source: message.source, port: PORT, payload };
                if decoder.take(&arrived).context(WRITE)?.is_break() {
                    return Ok(drops());
                }
            }
        }
        if decoder.flush().context(WRITE)?.is_break() {
            break;
        }
    }
    Ok(drops())
}

/// Messages that are received at once.
const BATCH: usize = 32;

/// Bytes of the longest datagram or run of them.
const LONGEST: usize = 65_535;
