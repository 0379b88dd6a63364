//! Sockets of tests: sinks that keep all they receive, sources that send no faster than sinks receive.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use weir_testbed::PATIENCE;

use super::network::Host;

/// A socket that keeps all it receives, in order.
pub(super) struct Sink {
    pub(super) address: SocketAddr,
    arrivals: Arc<Arrivals>,
    thread: Option<JoinHandle<()>>,
}

/// A datagram and where it seems to come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    pub(super) source: SocketAddr,
    pub(super) payload: Vec<u8>,
}

#[derive(Default)]
struct Arrivals {
    datagrams: Mutex<Vec<Datagram>>,
    more: Condvar,
    ends: AtomicBool,
}

impl Sink {
    pub(super) fn bind(host: &Host, address: SocketAddr) -> Sink {
        Sink::adopt(host.run(|| UdpSocket::bind(address)).unwrap())
    }

    /// Receives from a socket with options of its own.
    pub(super) fn adopt(socket: UdpSocket) -> Sink {
        // As much as the kernel gives; forced where it lets us.
        let _ = setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER);
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER);
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let arrivals = Arc::new(Arrivals::default());
        let thread = thread::spawn({
            let arrivals = Arc::clone(&arrivals);
            move || arrivals.collect(&socket)
        });
        Sink { address, arrivals, thread: Some(thread) }
    }

    /// Waits until this many have arrived.
    #[track_caller]
    pub(super) fn await_count(&self, count: usize) {
        let datagrams = self.arrivals.datagrams.lock().unwrap();
        let enough = |datagrams: &mut Vec<Datagram>| datagrams.len() < count;
        let (datagrams, timeout) = self.arrivals.more.wait_timeout_while(datagrams, PATIENCE, enough).unwrap();
        assert!(!timeout.timed_out(), "{} of {count} datagrams have come to {}", datagrams.len(), self.address);
    }

    /// Waits until a datagram with this payload has arrived.
    #[track_caller]
    pub(super) fn await_payload(&self, payload: &[u8]) {
        let datagrams = self.arrivals.datagrams.lock().unwrap();
        let missing = |datagrams: &mut Vec<Datagram>| datagrams.iter().all(|datagram| datagram.payload != payload);
        let (_held, timeout) = self.arrivals.more.wait_timeout_while(datagrams, PATIENCE, missing).unwrap();
        assert!(!timeout.timed_out(), "{payload:?} has not come to {}", self.address);
    }

    /// How many have arrived.
    pub(super) fn count(&self) -> usize {
        self.arrivals.datagrams.lock().unwrap().len()
    }

    /// Waits until `count` have arrived and returns all that have.
    #[track_caller]
    pub(super) fn take(&self, count: usize) -> Vec<Datagram> {
        self.await_count(count);
        std::mem::take(&mut self.arrivals.datagrams.lock().unwrap())
    }

    /// As [`Sink::take`], without the sources.
    #[track_caller]
    pub(super) fn payloads(&self, count: usize) -> Vec<Vec<u8>> {
        self.take(count).into_iter().map(|datagram| datagram.payload).collect()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.arrivals.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

impl Arrivals {
    fn collect(&self, socket: &UdpSocket) {
        let mut buffer = vec![0; 1 << 16];
        while !self.ends.load(Ordering::Relaxed) {
            // An error is the timeout, or an ICMP answer to nothing of ours.
            if let Ok((length, source)) = socket.recv_from(&mut buffer) {
                self.datagrams.lock().unwrap().push(Datagram { source, payload: buffer[..length].to_vec() });
                self.more.notify_all();
            }
        }
    }
}

/// Asserts that the same datagrams came in the same order; says where they begin to differ, not all that they hold.
#[track_caller]
pub(super) fn assert_same<T: PartialEq + std::fmt::Debug>(received: &[T], sent: &[T]) {
    let differs = received.iter().zip(sent).position(|(received, sent)| received != sent);
    if let Some(at) = differs {
        let show = |item: &T| format!("{item:?}").chars().take(200).collect::<String>();
        let elsewhere = received.iter().position(|item| *item == sent[at]);
        let (got, expected) = (show(&received[at]), show(&sent[at]));
        panic!("datagram {at} is {got}, not {expected}, which is number {elsewhere:?}");
    }
    assert_eq!(received.len(), sent.len());
}

/// A socket of a host to send from.
pub(super) fn source(host: &Host, address: SocketAddr) -> UdpSocket {
    let socket = host.run(|| UdpSocket::bind(address)).unwrap();
    setsockopt(&socket, sockopt::SndBuf, &(1 << 20)).unwrap();
    socket
}

/// Keeps sources from sending further ahead of `sinks` than their and the tee's default buffers hold.
pub(super) struct Window<'a> {
    sinks: Vec<(&'a Sink, usize)>,
    sent: usize,
    ahead: usize,
}

impl<'a> Window<'a> {
    /// Every sink is to receive everything that is sent from now on.
    pub(super) fn new(sinks: &[&'a Sink]) -> Window<'a> {
        Window { sinks: sinks.iter().map(|&sink| (sink, sink.count())).collect(), sent: 0, ahead: 0 }
    }

    /// Sends a datagram when there is room for it.
    #[track_caller]
    pub(super) fn send(&mut self, socket: &UdpSocket, to: SocketAddr, payload: &[u8]) {
        let charge = 1000 + 2 * payload.len();
        if self.ahead + charge > WINDOW {
            self.finish();
        }
        self.ahead += charge;
        self.sent += 1;
        assert_eq!(socket.send_to(payload, to).unwrap(), payload.len());
    }

    /// Waits until every sink has received all.
    #[track_caller]
    pub(super) fn finish(&mut self) {
        for (sink, before) in &self.sinks {
            sink.await_count(before + self.sent);
        }
        self.ahead = 0;
    }
}

/// Sends each payload to `to`, no further ahead than a [`Window`] lets it, and waits until all have come to each sink.
#[track_caller]
pub(super) fn send_all(socket: &UdpSocket, to: SocketAddr, payloads: &[Vec<u8>], sinks: &[&Sink]) {
    let mut window = Window::new(sinks);
    for payload in payloads {
        window.send(socket, to, payload);
    }
    window.finish();
}

/// Sends payload after payload at a steady rate, by the clock: late ones at once.
pub(super) fn send_paced(socket: &UdpSocket, to: SocketAddr, payloads: &[Vec<u8>], per_second: u32) {
    let start = Instant::now();
    for (number, payload) in (0u32..).zip(payloads) {
        let due = start + Duration::from_secs(1) / per_second * number;
        let early = due.saturating_duration_since(Instant::now());
        if early > Duration::from_micros(100) {
            thread::sleep(early);
        }
        assert_eq!(socket.send_to(payload, to).unwrap(), payload.len());
    }
}

/// Half of the kernel's usual receive buffer (net.core.rmem_default), bytes.
const WINDOW: usize = 100_000;

const RECEIVE_BUFFER: usize = 32 << 20;
