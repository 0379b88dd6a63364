//! Datagrams as they come.

use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_dgram::{Inbox, Options, Socket};
use weir_program::stop::Stop;
use weir_wire::sflow::PORT;

use super::{Arrived, Decoder, Reader};

/// Why nothing can be received, or shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket receives no more.
    #[error("receive: {0}")]
    Receive(io::Error),
    /// What was decoded cannot be written.
    #[error("write to standard output: {0}")]
    Write(io::Error),
}

/// What the socket is asked for.
pub fn options() -> Options {
    Options { timestamps: true, gro: true, receive_buffer: Some(8 << 20), ..Options::default() }
}

/// Decodes what comes until it shall stop, or until nobody reads what is printed. Datagrams that the socket dropped.
///
/// # Errors
/// The socket receives no more; what is decoded cannot be written.
pub fn listen(socket: &Socket, decoder: &mut Decoder<impl Write>, stop: &Stop) -> Result<u64, Error> {
    let mut inbox = Inbox::new(BATCH, LONGEST);
    let drops = || socket.memory().map_or(0, |memory| memory.drops.into());
    while !stop.is_set() {
        match inbox.receive(socket) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                wait(socket, stop).map_err(Error::Receive)?;
                continue;
            }
            Err(error) => return Err(Error::Receive(error)),
        }
        for message in inbox.messages() {
            for payload in message.segments() {
                // Whoever sends here means sFlow, whatever the port.
                let arrived = Arrived { time: message.arrival, source: message.source, port: PORT, payload };
                if decoder.take(&arrived).map_err(Error::Write)? == Reader::Left {
                    return Ok(drops());
                }
            }
        }
        if decoder.flush().map_err(Error::Write)? == Reader::Left {
            break;
        }
    }
    Ok(drops())
}

/// Messages that are received at once.
const BATCH: usize = 32;

/// Bytes of the longest datagram or run of them.
const LONGEST: usize = 65_535;

fn wait(socket: &Socket, stop: &Stop) -> io::Result<()> {
    let mut events = [PollFd::new(socket.as_fd(), PollFlags::POLLIN), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
    match poll(&mut events, PollTimeout::NONE) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
