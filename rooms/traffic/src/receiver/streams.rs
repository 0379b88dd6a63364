//! Messages over TCP.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use weir_program::clock::{self, Nanos, now};
use weir_wire::control::Says;

use super::ending::Ending;
use super::frames::{Frame, Frames};
use super::sessions::{PROVEN, Sessions};
use super::talk::Due;
use crate::reverse::stream_flow::StreamFlow;
use crate::reverse::{LOOK, Limits};
use crate::{Ended, ErrorLog, Parted, ReceiveReport, Requests, ReverseReport};

/// Receives until the ending says so.
pub(super) fn receive(
    listener: &TcpListener,
    sessions: Sessions<'_>,
    mut ending: Ending<'_>,
    limits: Option<Limits>,
) -> ReceiveReport {
    let mut errors = ErrorLog::default();
    let streams = Streams::new(listener, &ending, sessions, limits).map_err(|error| errors.count("epoll", &error));
    let Ok(mut streams) = streams else {
        return ReceiveReport { ended: Ended::Failed, errors: errors.into_counts(), ..ReceiveReport::default() };
    };
    streams.errors = errors;
    let ended = streams.run(&mut ending);
    streams.part();
    let left: usize = streams.open.iter().flatten().map(|stream| stream.frames.partial()).sum();
    ReceiveReport {
        ended,
        connections: streams.accepted,
        evicted_connections: streams.evicted,
        partial_bytes: streams.partial_bytes + left as u64,
        reverse: streams.done,
        requests: streams.requests,
        errors: streams.errors.into_counts(),
        ..streams.sessions.into_report()
    }
}

struct Streams<'a> {
    listener: &'a TcpListener,
    epoll: Epoll,
    sessions: Sessions<'a>,
    /// By token; closed ones leave a gap.
    open: Vec<Option<Stream>>,
    accepted: u64,
    /// Those of senders that were closed since another one came.
    evicted: u64,
    partial_bytes: u64,
    buffer: Vec<u8>,
    errors: ErrorLog,
    watches_exchange: bool,
    watches_stop: bool,
    /// Whether the listener is waited for.
    listens: bool,
    /// What is sent to those that ask; `None`: nothing.
    limits: Option<Limits>,
    /// Flows of connections that are gone.
    orphans: Vec<StreamFlow>,
    done: Vec<ReverseReport>,
    requests: Requests,
    /// Messages of flows that have ended.
    sent: u64,
}

struct Stream {
    socket: TcpStream,
    peer: SocketAddr,
    frames: Frames,
    /// When it was accepted; of one that has brought a message, never mind.
    silent_since: Option<Nanos>,
    /// When it last brought anything.
    last_heard: Nanos,
    /// Messages that it has brought.
    messages: u64,
    /// What the other end has asked for.
    flow: Option<StreamFlow>,
    /// Whether it has asked for more than the limits.
    refused: bool,
}

impl<'a> Streams<'a> {
    fn new(
        listener: &'a TcpListener,
        ending: &Ending<'_>,
        sessions: Sessions<'a>,
        limits: Option<Limits>,
    ) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let readable = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
        epoll.add(listener, readable(LISTENER))?;
        epoll.add(ending.stop_fd(), readable(STOP))?;
        epoll.add(ending.exchange_fd(), readable(EXCHANGE))?;
        Ok(Self {
            listener,
            epoll,
            sessions,
            open: Vec::new(),
            accepted: 0,
            evicted: 0,
            partial_bytes: 0,
            buffer: vec![0; READ],
            errors: ErrorLog::default(),
            watches_exchange: true,
            watches_stop: true,
            listens: true,
            limits,
            orphans: Vec::new(),
            done: Vec::new(),
            requests: Requests::default(),
            sent: 0,
        })
    }

    fn run(&mut self, ending: &mut Ending<'_>) -> Ended {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let at = now();
            let due = self.talk(at);
            let next = match due.with(ending.check(&mut self.sessions, at)) {
                Ok(next) => next,
                Err(ended) => return ended,
            };
            if self.accepted > 0
                && self.open.iter().all(Option::is_none)
                && let Some(ended) = ending.without_connections()
            {
                return ended;
            }
            self.unwatch(ending);
            let ready = self.epoll.wait(&mut events, clock::epoll_timeout(next)).unwrap_or(0);
            for event in &events[..ready] {
                match event.data() {
                    LISTENER => self.accept(),
                    STOP | EXCHANGE => {}
                    token => self.read((token - FIRST_STREAM) as usize),
                }
            }
        }
    }

    /// Looks after the flows that were asked for.
    fn talk(&mut self, at: Nanos) -> Due {
        let Some(limits) = &mut self.limits else { return Due::Free };
        let (mut open, mut going, mut ended) = (0, 0, false);
        for stream in self.open.iter_mut().flatten() {
            let Some(flow) = &mut stream.flow else { continue };
            going += flow.sent();
            open += 1;
            if let Some(parted) = flow.tick(Some(&stream.socket), &self.sessions, limits, at)
                && let Some(flow) = stream.flow.take()
            {
                (going, ended) = (going - flow.sent(), true);
                self.sent += flow.sent();
                list(&mut self.done, &mut self.requests, flow.into_report(parted, limits));
            }
        }
        let mut place = 0;
        while place < self.orphans.len() {
            let flow = &mut self.orphans[place];
            open += 1;
            if let Some(parted) = flow.tick(None, &self.sessions, limits, at) {
                let flow = self.orphans.swap_remove(place);
                ended = true;
                self.sent += flow.sent();
                list(&mut self.done, &mut self.requests, flow.into_report(parted, limits));
            } else {
                going += flow.sent();
                place += 1;
            }
        }
        if open == 0 {
            return Due::Free;
        }
        self.sessions.set_sent(self.sent + going);
        if ended {
            self.sessions.reverse_ended(at);
        }
        Due::At(at + LOOK)
    }

    /// Ends all flows.
    fn part(&mut self) {
        let Some(limits) = &mut self.limits else { return };
        let open = self.open.iter_mut().flatten().filter_map(|stream| stream.flow.take());
        for flow in open.chain(self.orphans.drain(..)) {
            list(&mut self.done, &mut self.requests, flow.into_report(Parted::Stopped, limits));
        }
    }

    /// The exchange stays readable once closed, and so does a stop: forget them then.
    fn unwatch(&mut self, ending: &Ending<'_>) {
        if self.watches_stop && !ending.awaits_stop() {
            let _ = self.epoll.delete(ending.stop_fd());
            self.watches_stop = false;
        }
        if self.watches_exchange && !ending.awaits_exchange() {
            let _ = self.epoll.delete(ending.exchange_fd());
            self.watches_exchange = false;
        }
    }

    fn accept(&mut self) {
        match self.listener.accept() {
            Ok((socket, peer)) => {
                if let Err(error) = self.admit(socket, peer) {
                    self.errors.count("accept", &error);
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => {
                self.errors.count("accept", &error);
                if error.kind() != io::ErrorKind::ConnectionAborted && self.listens {
                    // No descriptors left: to ask again before one is closed would be a busy loop.
                    self.listens = self.epoll.delete(self.listener).is_err();
                }
            }
        }
    }

    fn admit(&mut self, socket: TcpStream, peer: SocketAddr) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        if self.open.len() == MAX_STREAMS && self.open.iter().all(Option::is_some) {
            self.hang_up()?;
        }
        let free = self.open.iter().position(Option::is_none);
        let place = free.unwrap_or(self.open.len());
        self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, FIRST_STREAM + place as u64))?;
        let at = now();
        let stream = Some(Stream {
            socket,
            peer,
            frames: Frames::default(),
            silent_since: Some(at),
            last_heard: at,
            messages: 0,
            flow: None,
            refused: false,
        });
        match free {
            Some(place) => self.open[place] = stream,
            None => self.open.push(stream),
        }
        self.accepted += 1;
        Ok(())
    }

    /// Closes the oldest connection that has brought no message, so that another can be had; or else the sender that has
    /// been silent longest.
    fn hang_up(&mut self) -> io::Result<()> {
        let silent =
            self.open.iter().enumerate().filter_map(|(place, stream)| Some((stream.as_ref()?.silent_since?, place)));
        if let Some((_, place)) = silent.min() {
            self.sessions.count_foreign();
            self.close(place);
            return Ok(());
        }
        for _ in 0..LOOKED_AT {
            let heard = self.open.iter().enumerate().filter_map(|(place, stream)| {
                // What asked for messages listens: its flow has an end of its own.
                let stream = stream.as_ref().filter(|stream| stream.flow.is_none())?;
                Some(Heard { place, last: stream.last_heard, messages: stream.messages })
            });
            let Some(Heard { place, last, .. }) = longest_silent(heard, now()) else { break };
            // What waits to be read speaks for it: then it was this program that stood still.
            self.read(place);
            match self.open[place].as_ref().map(|stream| stream.last_heard) {
                None => return Ok(()),
                Some(since) if since > last => {}
                Some(_) => {
                    self.evicted += 1;
                    self.close(place);
                    return Ok(());
                }
            }
        }
        Err(io::Error::other("too many connections at once"))
    }

    /// Reads what a stream has, a few buffers at most so that others get their turn.
    fn read(&mut self, place: usize) {
        let Some(Some(stream)) = self.open.get_mut(place) else {
            return;
        };
        for _ in 0..READS {
            match stream.socket.read(&mut self.buffer) {
                Ok(0) => {
                    self.close(place);
                    return;
                }
                Ok(length) => {
                    let (at, peer, sessions) = (now(), stream.peer, &mut self.sessions);
                    stream.last_heard = at;
                    let (silent_since, messages, flow, refused) =
                        (&mut stream.silent_since, &mut stream.messages, &mut stream.flow, &mut stream.refused);
                    let (limits, requests, socket) = (&mut self.limits, &mut self.requests, &stream.socket);
                    let (mut ours, mut asked) = (true, false);
                    let fed = stream.frames.feed(&self.buffer[..length], |frame| match frame {
                        Frame::Message(probe, length) => {
                            *silent_since = None;
                            *messages += 1;
                            sessions.count(probe, length, peer, at);
                        }
                        Frame::Control(control) => match (control.says, limits.as_mut()) {
                            (Says::Ask(terms), Some(limits))
                                if flow.is_none() && !sessions.are_foreign(control.session) =>
                            {
                                *silent_since = None;
                                match StreamFlow::answer(socket, *control, terms, peer, limits) {
                                    Ok(Some(granted)) => {
                                        *flow = Some(granted);
                                        sessions.expect_reverse();
                                    }
                                    Ok(None) => {
                                        requests.refused += u64::from(!std::mem::replace(refused, true));
                                        sessions.refuse_reverse(at);
                                    }
                                    Err(_) => ours = false,
                                }
                            }
                            (Says::Ask(_), None) if !sessions.are_foreign(control.session) => {
                                (ours, asked) = (false, true);
                            }
                            (Says::Account(account), _) if let Some(flow) = flow => flow.told(account),
                            _ => ours = false,
                        },
                    });
                    if fed.is_err() || !ours {
                        match asked {
                            true => self.sessions.count_not_allowed(peer),
                            false => self.sessions.count_foreign(),
                        }
                        self.forget(place);
                        return;
                    }
                    if length < self.buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.errors.count("receive", &error);
                    self.close(place);
                    return;
                }
            }
        }
    }

    fn close(&mut self, place: usize) {
        if let Some(stream) = self.forget(place) {
            self.partial_bytes += stream.frames.partial() as u64;
        }
    }

    /// Dropping the socket takes it out of the epoll set, too. Its descriptor can be had by another connection.
    fn forget(&mut self, place: usize) -> Option<Stream> {
        let mut stream = self.open[place].take();
        if let Some(mut flow) = stream.as_mut().and_then(|stream| stream.flow.take()) {
            flow.close();
            self.orphans.push(flow);
        }
        if !self.listens {
            self.listens = self.epoll.add(self.listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER)).is_ok();
        }
        stream
    }
}

/// What is known of a connection that has brought messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heard {
    place: usize,
    /// When it last brought anything.
    last: Nanos,
    messages: u64,
}

/// The one of these that has been silent longest, of few messages before others. `None`: all were heard just now.
fn longest_silent(heard: impl Iterator<Item = Heard>, at: Nanos) -> Option<Heard> {
    let is_proven = |one: &Heard| one.messages >= PROVEN;
    let grace = |one: &Heard| if is_proven(one) { SILENT } else { SILENT_NEWCOMER };
    heard.filter(|one| at.saturating_sub(one.last) >= grace(one)).min_by_key(|one| (is_proven(one), one.last))
}

fn list(done: &mut Vec<ReverseReport>, requests: &mut Requests, report: ReverseReport) {
    if done.len() < MOST_LISTED {
        done.push(report);
    } else {
        requests.unlisted += 1;
    }
}

/// Flows listed in a report; further ones are counted.
const MOST_LISTED: usize = 10_000;

/// Silence after which a connection that has brought few messages may give way to another.
const SILENT_NEWCOMER: Nanos = 1_000_000_000;

/// Silence after which any may.
const SILENT: Nanos = 10_000_000_000;

/// Connections looked at for one that is new.
const LOOKED_AT: usize = 32;

const LISTENER: u64 = 0;
const STOP: u64 = 1;
const EXCHANGE: u64 = 2;
const FIRST_STREAM: u64 = 3;

const MAX_STREAMS: usize = if cfg!(test) { 256 } else { 1024 };
const READ: usize = 256 * 1024;
const READS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_silent_longest_gives_way_but_nobody_who_was_just_heard() {
        const SECOND: Nanos = 1_000_000_000;
        let at = 100 * SECOND;
        let heard = |place, silent, messages| Heard { place, last: at - silent, messages };
        let chosen = |all: &[Heard]| longest_silent(all.iter().copied(), at).map(|one| one.place);
        assert_eq!(chosen(&[heard(0, SECOND - 1, 1), heard(1, 10 * SECOND - 1, PROVEN)]), None);
        assert_eq!(chosen(&[heard(0, SECOND, 1), heard(1, 3 * SECOND, 1), heard(2, 2 * SECOND, 1)]), Some(1));
        assert_eq!(chosen(&[heard(0, 60 * SECOND, PROVEN), heard(1, 2 * SECOND, PROVEN - 1)]), Some(1));
        assert_eq!(chosen(&[heard(0, 10 * SECOND, PROVEN), heard(1, 11 * SECOND, PROVEN)]), Some(1));
    }
}
