//! A control connection: lines of JSON in both directions.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::{SockRef, TcpKeepalive};
use weir_program::clock::{Nanos, now};
use weir_program::stop::Stop;

/// Has the kernel end a connection over which the other end takes nothing for [`DEAD`].
pub(crate) fn end_when_dead(socket: &TcpStream) -> io::Result<()> {
    SockRef::from(socket).set_tcp_user_timeout(Some(DEAD))
}

/// One end of it.
#[derive(Debug)]
pub(crate) struct Call {
    socket: BufReader<TcpStream>,
    /// What has come of the next line.
    line: Vec<u8>,
}

impl Call {
    /// Over a connection that is up.
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

    /// The next line, for which it waits [`LOOK`] at most; `None`: it has not come.
    ///
    /// # Errors
    /// The connection has ended, or what came is not such a line.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let room = (LONGEST_LINE + 1).saturating_sub(self.line.len());
        match self.socket.by_ref().take(room as u64).read_until(b'\n', &mut self.line) {
            Ok(_) if self.line.ends_with(b"\n") => Ok(Some(serde_json::from_slice(&std::mem::take(&mut self.line))?)),
            Ok(_) if self.line.len() > LONGEST_LINE => Err(io::Error::other("received something other than a control line")),
            Ok(_) => Err(io::Error::other("the other end closed the connection")),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The next line; `None`: the time `deadline` or the stop came before.
    pub(crate) fn hear_until<T: DeserializeOwned>(&mut self, deadline: Nanos, stop: &Stop) -> io::Result<Option<T>> {
        while now() < deadline && !stop.is_set() {
            if let Some(line) = self.hear()? {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }
}

/// How often a thread looks at what others do.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Bytes of a line, at most: an account has less than 1,000.
pub(crate) const LONGEST_LINE: usize = 4096;

/// From one keepalive probe to the next.
const PROBE: Duration = Duration::from_secs(1);

/// Silence after which the other end is gone: nine probes in a row have no answer, which a path that loses 30 % of the
/// packets in each direction does once in 400 times.
const DEAD: Duration = Duration::from_secs(10);
