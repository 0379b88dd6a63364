//! `weir monitor station` in networks of the tests' own: what it sends, read by a reader of the tests' own.

mod feeds;
mod losses;
mod mistakes;
mod reader;
mod requests;
mod samples;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use serde_json::Value;
use weir_testbed::network::Host;

use crate::service::{PATIENCE, weir};
use reader::{Block, Datagram};

/// A `weir monitor station` on a host; killed when dropped.
struct Station {
    child: Child,
    stdout: BufReader<ChildStdout>,
    log: Receiver<String>,
    said: Vec<String>,
}

/// A member of a group, and what it got.
struct Member {
    socket: UdpSocket,
    datagrams: Vec<Vec<u8>>,
}

/// A channel as a receiver has it: each index once, in order.
#[derive(Debug, Default)]
struct Channel {
    next: u64,
    blocks: Vec<Block>,
}

impl Station {
    /// With these flags, named `test`, through the interface of a host.
    #[track_caller]
    fn start(host: &Host, flags: &[&str]) -> Self {
        let flags = [&["monitor", "station", "--json", "--name", "test", "--interface", "eth0"], flags].concat();
        Self::spawn(host, weir(&flags))
    }

    #[track_caller]
    fn spawn(host: &Host, mut command: Command) -> Self {
        let mut child = host.run(|| command.spawn().unwrap());
        let (said, log) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut station = Self { child, stdout, log, said: Vec::new() };
        station.await_line("ready");
        station
    }

    /// Waits until it says a line with `words` in it.
    #[track_caller]
    fn await_line(&mut self, words: &str) -> String {
        if let Some(line) = self.said.iter().find(|line| line.contains(words)) {
            return line.clone();
        }
        loop {
            let Ok(line) = self.log.recv_timeout(PATIENCE) else {
                panic!("it never said {words:?}, but {:#?}", self.said);
            };
            self.said.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Waits until the ledger is as it should be. It closes at every moment.
    #[track_caller]
    fn await_ledger(&mut self, is_reached: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            self.signal(Signal::SIGUSR1);
            let mut line = String::new();
            self.stdout.read_line(&mut line).unwrap();
            let ledger: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
            assert_eq!(ledger["closed"], true, "{ledger:#}");
            if is_reached(&ledger) {
                return ledger;
            }
            assert!(begin.elapsed() < PATIENCE, "{ledger:#}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it as a service manager does; the final ledger, of which nothing is left over.
    #[track_caller]
    fn stop(mut self) -> Value {
        self.signal(Signal::SIGTERM);
        self.finish()
    }

    /// Waits for its end.
    #[track_caller]
    fn finish(&mut self) -> Value {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        self.said.extend(self.log.iter());
        assert!(status.success(), "{status}: {:#?}", self.said);
        let ledger: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
        assert_eq!((&ledger["closed"], &ledger["unexplained"]), (&true.into(), &0.into()), "{ledger:#}");
        for stream in ledger["streams"].as_array().unwrap() {
            assert_eq!(stream["samples"]["waiting"], 0, "{ledger:#}");
        }
        ledger
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Member {
    #[track_caller]
    fn join(host: &Host, group: [u8; 4], port: u16) -> Self {
        let group = Ipv4Addr::from(group);
        let own =
            if host.v4.to_string() == "10.0.0.1" { Ipv4Addr::new(10, 0, 0, 1) } else { Ipv4Addr::new(10, 0, 0, 2) };
        let socket = host.run(|| {
            let socket = UdpSocket::bind((group, port)).unwrap();
            socket.join_multicast_v4(&group, &own).unwrap();
            socket
        });
        // The bound is not on what is sent, but on what this test takes at once.
        socket2::SockRef::from(&socket).set_recv_buffer_size(8 << 20).unwrap();
        // Past net.core.rmem_max, where that is permitted.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20));
        Self { socket, datagrams: Vec::new() }
    }

    /// Takes the next datagram; `None`: none came for so long.
    fn next(&mut self, patience: Duration) -> Option<Datagram> {
        self.socket.set_read_timeout(Some(patience)).unwrap();
        let mut bytes = [0; 2000];
        let length = self.socket.recv(&mut bytes).ok()?;
        assert!(length <= 1472, "{length} bytes");
        self.datagrams.push(bytes[..length].to_vec());
        Some(Datagram::read(&bytes[..length]))
    }

    /// Takes datagrams until one is as it should be.
    #[track_caller]
    fn await_datagram(&mut self, is_it: impl Fn(&Datagram) -> bool) -> Datagram {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(datagram) = self.next(PATIENCE).filter(&is_it) {
                return datagram;
            }
        }
        panic!("not among {} datagrams", self.datagrams.len());
    }

    /// All that was sent by a station that has ended: every channel of one session, of which the network lost nothing.
    #[track_caller]
    fn channels(&mut self) -> BTreeMap<u16, Channel> {
        // A kernel that is busy hands over what was sent a little later; behind the last of its words nothing comes.
        let mut ends = self.datagrams.iter().filter(|bytes| Datagram::read(bytes).kind == 2).count();
        while ends < ENDS {
            ends += usize::from(self.next(PATIENCE).expect("an end").kind == 2);
        }
        while self.next(Duration::from_millis(1)).is_some() {}
        let mut channels: BTreeMap<u16, Channel> = BTreeMap::new();
        let mut sequence = 0;
        let all: Vec<Datagram> = self.datagrams.iter().map(|bytes| Datagram::read(bytes)).collect();
        for datagram in &all {
            assert_eq!((datagram.session, datagram.sequence), (all[0].session, sequence), "{datagram:?}");
            sequence += u64::from(datagram.kind == 0);
            for block in &datagram.blocks {
                let channel = channels.entry(block.channel).or_default();
                assert_eq!(block.first, channel.next, "{block:?}");
                channel.next += block.samples;
                channel.blocks.push(block.clone());
            }
        }
        let ends: Vec<_> = all.iter().filter(|datagram| datagram.kind == 2).collect();
        assert_eq!(ends.len(), ENDS);
        for (channel, next) in &ends[0].positions {
            assert_eq!(channels.get(channel).map_or(0, |channel| channel.next), *next, "channel {channel}");
        }
        channels
    }
}

impl Channel {
    /// Samples that are missing, by cause.
    fn gaps(&self) -> BTreeMap<u8, u64> {
        let mut gaps = BTreeMap::new();
        for block in &self.blocks {
            if let Some(cause) = block.cause {
                *gaps.entry(cause).or_default() += block.samples;
            }
        }
        gaps
    }

    /// Each sample with its index, where it was sent as it is.
    fn each(&self) -> impl Iterator<Item = (u64, f64)> {
        self.blocks.iter().filter(|block| block.form == 0).flat_map(|block| (block.first..).zip(block.values.clone()))
    }
}

/// Names of channels, by number, as metadata has them.
fn names(datagrams: &[Vec<u8>]) -> BTreeMap<u16, String> {
    let (mut names, mut channel) = (BTreeMap::new(), 0);
    for (key, value) in datagrams.iter().flat_map(|bytes| Datagram::read(bytes).fields) {
        match key {
            16 => channel = u16::from_le_bytes([value[0], value[1]]),
            17 => {
                names.insert(channel, String::from_utf8(value).unwrap());
            }
            _ => {}
        }
    }
    names
}

/// Its standard input is written by the test.
fn piped(mut command: Command) -> Command {
    command.stdin(Stdio::piped());
    command
}

/// So often a station says that nothing more comes.
const ENDS: usize = 9;

const GROUP: [u8; 4] = [239, 192, 77, 1];
const OTHER: [u8; 4] = [239, 192, 77, 9];
