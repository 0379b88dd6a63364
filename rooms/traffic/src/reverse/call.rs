//! A control connection: lines of JSON in both directions.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::{SockRef, TcpKeepalive};

/// One end of it.
#[derive(Debug)]
pub(crate) struct Call {
    socket: TcpStream,
    /// What has come of the next lines.
    read: Vec<u8>,
}

impl Call {
    /// Over a connection that is up.
    pub(crate) fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(LOOK))?;
        socket.set_write_timeout(Some(DEAD))?;
        let own = SockRef::from(&socket);
        own.set_tcp_user_timeout(Some(DEAD))?;
        own.set_tcp_keepalive(&TcpKeepalive::new().with_time(PROBE).with_interval(PROBE))?;
        Ok(Self { socket, read: Vec::new() })
    }

    pub(crate) fn say(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.socket.write_all(&text)
    }

    /// The next line, for which it waits [`LOOK`] at most; `None`: it has not come.
    ///
    /// # Errors
    /// The connection has ended, or what came is not such a line.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(end) = self.read.iter().position(|&byte| byte == b'\n') {
                let line = serde_json::from_slice(&self.read[..end]);
                self.read.drain(..=end);
                return Ok(Some(line?));
            }
            if self.read.len() > LONGEST_LINE {
                return Err(io::Error::other("what came is not a control line"));
            }
            let mut bytes = [0; 512];
            match self.socket.read(&mut bytes) {
                Ok(0) => return Err(io::Error::other("the other end closed the connection")),
                Ok(length) => self.read.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
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
