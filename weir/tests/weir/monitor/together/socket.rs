//! A client of a server's WebSocket (RFC 6455), that shares no code with it.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use weir_kernel::namespaces::NetNs;
use weir_testbed::{PATIENCE, http};

use super::PAGE;

/// A client of a server.
pub(super) struct Client {
    pub(super) body: BufReader<TcpStream>,
    told: VecDeque<Told>,
    /// Whether it answers when it is asked for a sign of life.
    pub(super) answers: bool,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Told {
    Text(Value),
    /// A block of samples or buckets: index of the first, how many it stands for, and when the last one was.
    Samples {
        channel: u16,
        first: u64,
        samples: u64,
        end: i64,
    },
    Gap {
        channel: u16,
        first: u64,
        samples: u64,
    },
    /// The server says good-bye, and why.
    Close(String),
}

impl Client {
    /// On a server's host.
    #[track_caller]
    pub(super) fn connect(host: &NetNs) -> Self {
        let headers = "Connection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let asked = host.run(|| http::ask(PAGE, "GET", "/live", headers, "")).unwrap();
        assert_eq!(asked.status, 101, "{}", asked.head);
        Self { body: asked.body, told: VecDeque::new(), answers: true }
    }

    /// Asks for channels, from now on.
    pub(super) fn ask(&mut self, channels: &[u16], span_ms: f64, columns: u32) {
        let ask = serde_json::json!({"ask": 1, "watch": channels, "columns": columns, "span_ms": span_ms});
        self.say(1, ask.to_string().as_bytes()).unwrap();
    }

    fn say(&mut self, opcode: u8, contents: &[u8]) -> io::Result<()> {
        // Masked with zeros.
        let mut bytes = vec![0x80 | opcode, 0x80 | 126];
        bytes.extend((contents.len() as u16).to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(contents);
        self.body.get_mut().write_all(&bytes)
    }

    /// What it is told next; an error: the server is gone, or said nothing for long.
    pub(super) fn next(&mut self) -> io::Result<Told> {
        loop {
            if let Some(told) = self.told.pop_front() {
                return Ok(told);
            }
            let (opcode, contents) = self.frame()?;
            match opcode {
                1 => self.told.push_back(Told::Text(serde_json::from_slice(&contents)?)),
                2 => self.read(&contents),
                8 => self.told.push_back(Told::Close(String::from_utf8_lossy(contents.get(2..).unwrap_or(&[])).into())),
                9 if self.answers => {
                    // Who has gone is known by the next read.
                    let _ = self.say(10, &contents);
                }
                _ => {}
            }
        }
    }

    #[track_caller]
    pub(super) fn await_told(&mut self, is_it: impl Fn(&Told) -> bool) -> Told {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let told = self.next().unwrap();
            if is_it(&told) {
                return told;
            }
        }
        panic!("it was never told");
    }

    fn frame(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.body.read_exact(&mut head)?;
        let bytes = match head[1] {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mut length = [0; 8];
        self.body.read_exact(&mut length[8 - bytes..])?;
        let length = if bytes == 0 { u64::from(head[1]) } else { u64::from_be_bytes(length) };
        let mut contents = vec![0; length as usize];
        self.body.read_exact(&mut contents)?;
        Ok((head[0] & 15, contents))
    }

    /// A datagram of data, that may be long (docs/signal.md).
    fn read(&mut self, bytes: &[u8]) {
        let number =
            |at: usize, length: usize| (0..length).rev().fold(0, |all, byte| all << 8 | u64::from(bytes[at + byte]));
        let mut at = 24;
        while at < bytes.len() {
            let (channel, first) = (number(at, 2) as u16, number(at + 8, 8));
            let (count, bucket) = (number(at + 4, 2), number(at + 32, 4));
            let size = [4, 8, 2, 4][usize::from(bytes[at + 2])];
            let (samples, length) = match bytes[at + 3] {
                0 => (count, count * size),
                1 => (count * bucket, count * size * 4),
                _ => (number(at + 36, 8), 12),
            };
            let last = i128::from(samples - 1) * 1_000_000_000 * i128::from(number(at + 28, 4));
            let end = number(at + 16, 8) as i64 + (last / i128::from(number(at + 24, 4))) as i64;
            self.told.push_back(match bytes[at + 3] {
                0 | 1 => Told::Samples { channel, first, samples, end },
                _ => Told::Gap { channel, first, samples },
            });
            at += 36 + length as usize;
        }
        assert_eq!(at, bytes.len());
    }
}

/// How old what was at a time (ns since 1970) is now.
pub(super) fn age(time: i64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.saturating_sub(Duration::from_nanos(time.try_into().unwrap()))
}
