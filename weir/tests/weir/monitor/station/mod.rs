//! `weir monitor station` in networks of the tests' own: what it sends, read by a reader of the tests' own.

mod feeds;
mod losses;
mod mistakes;
mod reader;
mod samples;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;
use weir_testbed::network::{Host, cable};
use weir_testbed::{Ended, PATIENCE, Started, program};

use crate::weir;
use reader::{Block, Datagram};

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

/// Starts a station with these flags, named `test`, through the interface of a host.
#[track_caller]
fn start(host: &Host, flags: &[&str]) -> Started {
    let flags = [&["monitor", "station", "--json", "--name", "test", "--interface", "eth0"], flags].concat();
    host.run(|| Started::ready(weir(&flags)))
}

/// Ends a station; its final ledger, in which nothing waits.
#[track_caller]
fn stop(station: Started) -> Value {
    let ledger = station.stop();
    for stream in ledger["streams"].as_array().unwrap() {
        assert_eq!(stream["samples"]["waiting"], 0, "{ledger:#}");
    }
    ledger
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

/// So often a station says that nothing more comes.
const ENDS: usize = 6;

const GROUP: [u8; 4] = [239, 192, 77, 1];
const OTHER: [u8; 4] = [239, 192, 77, 9];
