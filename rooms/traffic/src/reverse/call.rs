//! A control connection: lines of JSON in both directions.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::{SockRef, TcpKeepalive};
use weir_program::clock::{Nanos, now};
use weir_program::stop::Stop;

/// Makes the kernel end a connection whose peer acknowledges nothing for [`DEAD`].
pub(crate) fn end_when_dead(socket: &TcpStream) -> io::Result<()> {
    SockRef::from(socket).set_tcp_user_timeout(Some(DEAD))
}

/// One end of a control connection.
#[derive(Debug)]
pub(crate) struct Call {
    socket: BufReader<TcpStream>,
    /// The received part of the next line.
    line: Vec<u8>,
}

impl Call {
    /// A call over an established connection.
    pub(crate) fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(LOOK))?;
        socket.set_write_timeout(Some(DEAD))?;
        end_when_dead(&socket)?;
        SockRef::from(&socket).set_tcp_keepalive(&TcpKeepalive::new().with_time(PROBE).with_interval(PROBE))?;
        Ok(Self { socket: BufReader::new(socket), line: Vec::new() })
    }

    pub(crate) fn say(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.socket.get_mut().write_all(&text)
    }

    /// The next line; waits at most [`LOOK`]. `None`: it has not arrived.
    ///
    /// # Errors
    /// The connection has ended, or sent something else.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let room = (LONGEST_LINE + 1).saturating_sub(self.line.len());
        match self.socket.by_ref().take(room as u64).read_until(b'\n', &mut self.line) {
            Ok(_) if self.line.ends_with(b"\n") => Ok(Some(serde_json::from_slice(&std::mem::take(&mut self.line))?)),
            Ok(_) if self.line.len() > LONGEST_LINE => {
                Err(io::Error::other("received something other than a control line"))
            }
            Ok(_) => Err(io::Error::other("the other end closed the connection")),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The next line. `None`: the time `deadline` or the stop came first.
    pub(crate) fn hear_until<T: DeserializeOwned>(&mut self, deadline: Nanos, stop: &Stop) -> io::Result<Option<T>> {
        while now() < deadline && !stop.is_set() {
            if let Some(line) = self.hear()? {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }
}

/// Time between two checks of a thread for events of others.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Max bytes of a line: a ledger has less than 1,000.
pub(crate) const LONGEST_LINE: usize = 4096;

/// Time between two keepalive probes.
const PROBE: Duration = Duration::from_secs(1);

/// Silence after which the other end counts as gone: nine probes in a row without an answer, which happens once in 400
/// times on a path that loses 30 % of the packets in each direction.
const DEAD: Duration = Duration::from_secs(10);
