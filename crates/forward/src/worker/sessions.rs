//! The sessions of an egress whose destination answers (`replies`): a socket for each client, so that an answer is known to
//! be for that one, and the kernel takes it from the destination's address and port alone.

use std::collections::{HashMap, HashSet};
use std::io;
use std::iter;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use lru::LruCache;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use weir_dgram::{Inbox, Options, Socket};

use super::batch::Origin;
use super::join::Run;
use super::send::{Outcome, SendScratch, SendStatistics, send};
use super::sender::most_hops;
use crate::drops::Reason;
use crate::settings::{Destination, Replies};

/// The sessions of a worker's egress.
pub(super) struct Sessions {
    to: SocketAddr,
    from: Option<SocketAddr>,
    options: Options,
    replies: Replies,
    /// As in [`send`].
    most_hops: Option<u8>,
    /// Tells which sockets have answers; `None`: it could not be made.
    epoll: Option<Epoll>,
    by_client: HashMap<Origin, u64>,
    /// The addresses of their own sockets.
    own: HashSet<SocketAddr>,
    /// By number.
    sessions: LruCache<u64, Session>,
    /// Of the next session.
    number: u64,
    inbox: Option<Inbox>,
    tally: Tally,
}

struct Session {
    client: Origin,
    socket: Socket,
    last: Instant,
}

/// What has happened to sessions since somebody asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) opened: u64,
    /// Silent for longer than they may be.
    pub(super) aged: u64,
    /// Made room for others.
    pub(super) evicted: u64,
    /// Could not be opened.
    pub(super) failed: u64,
    /// Ended with their destination.
    pub(super) closed: u64,
}

impl Sessions {
    /// None yet. `most`: how many there may be.
    pub(super) fn new(to: SocketAddr, settings: &Destination, options: Options, replies: Replies) -> Self {
        Self {
            to,
            from: settings.local(),
            options,
            replies,
            most_hops: most_hops(settings),
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).ok(),
            by_client: HashMap::new(),
            own: HashSet::new(),
            sessions: LruCache::unbounded(),
            number: 0,
            inbox: None,
            tally: Tally::default(),
        }
    }

    /// Goes on with other options; sessions stay.
    pub(super) fn adapt(&mut self, settings: &Destination, options: Options, replies: Replies) {
        if self.options != options {
            for (_, session) in &self.sessions {
                // It takes values that were checked, and was made with such.
                let _ = session.socket.set_outgoing(&options);
            }
        }
        self.most_hops = most_hops(settings);
        (self.options, self.replies) = (options, replies);
        while self.open() > self.replies.sessions {
            self.close_oldest();
            self.tally.evicted += 1;
        }
    }

    /// What epoll tells of while an answer is there.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.epoll.as_ref().map(|epoll| epoll.0.as_fd())
    }

    /// How many there are.
    pub(super) fn open(&self) -> usize {
        self.sessions.len()
    }

    /// What has happened since the last call.
    pub(super) fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// When the next one has been silent for too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let (_, session) = self.sessions.peek_lru()?;
        Some(session.last + self.replies.timeout)
    }

    /// Closes all of them.
    pub(super) fn close(&mut self) {
        while self.open() > 0 {
            self.close_oldest();
            self.tally.closed += 1;
        }
    }

    /// Closes those that have been silent for too long.
    pub(super) fn age(&mut self, now: Instant) {
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            self.close_oldest();
            self.tally.aged += 1;
        }
    }

    /// Sends runs in order, each by the session of its client. What a socket does not take at once is dropped: a request that
    /// waits is asked again anyway. Afterwards [`SendScratch::outcomes`] tells of all.
    pub(super) fn send<'a>(
        &mut self,
        runs: impl Iterator<Item = (Run<'a>, Origin)>,
        scratch: &mut SendScratch,
    ) -> SendStatistics {
        scratch.outcomes.clear();
        let now = Instant::now();
        self.age(now);
        let mut runs = runs.peekable();
        let mut all = SendStatistics::default();
        while let Some(client) = runs.peek().map(|(_, client)| *client) {
            let mut count = 0;
            let these = iter::from_fn(|| runs.next_if(|(_, next)| *next == client).map(|(run, _)| run));
            let these = these.inspect(|run| count += run.datagrams());
            let before = scratch.outcomes.len();
            let reason = if self.is_no_client(client.source) {
                these.for_each(drop);
                Reason::Loop
            } else {
                self.send_for(client, these, now, &mut all, scratch)
            };
            let done: usize = scratch.outcomes[before..].iter().map(|outcome| outcome.datagrams()).sum();
            if done < count {
                scratch.outcomes.push(Outcome::Dropped(count - done, reason));
            }
        }
        all
    }

    /// Sends runs by the session of their client; returns why what was not sent is dropped.
    fn send_for<'a>(
        &mut self,
        client: Origin,
        runs: impl Iterator<Item = Run<'a>>,
        now: Instant,
        all: &mut SendStatistics,
        scratch: &mut SendScratch,
    ) -> Reason {
        let most_hops = self.most_hops;
        let Ok(socket) = self.session(client, now) else {
            runs.for_each(drop);
            self.tally.failed += 1;
            return Reason::NoBuffers;
        };
        let sent = send(socket, most_hops, runs, scratch);
        all.calls += sent.calls;
        all.joined += sent.joined;
        all.icmp += sent.icmp;
        Reason::QueueFull
    }

    /// Whether what comes from here is no question: the destination itself, whose answer to what it asked would be led back to
    /// it, and so on for ever; or a session's own socket.
    fn is_no_client(&self, source: SocketAddr) -> bool {
        let source = canonical(source);
        source == canonical(self.to) || self.own.contains(&source)
    }

    /// Shows the answers that are there, with the client that each is for, and the sockets that the network has reported
    /// something about, which must be read; some of many.
    pub(super) fn answers(&mut self, mut show: impl FnMut(Origin, &[u8]), mut reported: impl FnMut(&Socket)) {
        let Some(epoll) = &self.epoll else { return };
        let mut events = [EpollEvent::empty(); SOCKETS];
        let count = epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or_default();
        let now = Instant::now();
        for event in &events[..count] {
            let inbox = self.inbox.get_or_insert_with(|| Inbox::new(ANSWERS, LONGEST));
            let Some(session) = self.sessions.peek_mut(&event.data()) else { continue };
            // It is told as long as there is a report, and whether or not the session sends any more.
            if event.events().contains(EpollFlags::EPOLLERR) {
                reported(&session.socket);
            }
            if inbox.receive(&session.socket).is_err() {
                continue;
            }
            session.last = now;
            let client = session.client;
            inbox.messages().filter(|message| !message.truncated).for_each(|message| show(client, message.bytes));
            self.sessions.promote(&event.data());
        }
    }

    /// The socket of a client's session: the one there is, or a new one, for which the one that has been silent for longest
    /// makes room.
    fn session(&mut self, client: Origin, now: Instant) -> io::Result<&Socket> {
        let number = match self.by_client.get(&client) {
            Some(&number) => number,
            None => {
                if self.open() >= self.replies.sessions {
                    self.close_oldest();
                    self.tally.evicted += 1;
                }
                self.begin(client, now)?
            }
        };
        let session = self.sessions.get_mut(&number).ok_or(io::ErrorKind::NotFound)?;
        session.last = now;
        Ok(&session.socket)
    }

    fn begin(&mut self, client: Origin, now: Instant) -> io::Result<u64> {
        let epoll = self.epoll.as_ref().ok_or(io::ErrorKind::OutOfMemory)?;
        let socket = Socket::connect(self.from, self.to, &self.options).map_err(io::Error::other)?;
        self.number += 1;
        epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, self.number))?;
        self.own.insert(canonical(socket.local_addr()));
        self.sessions.put(self.number, Session { client, socket, last: now });
        self.by_client.insert(client, self.number);
        self.tally.opened += 1;
        Ok(self.number)
    }

    fn close_oldest(&mut self) {
        // Epoll forgets a socket that is closed.
        if let Some((_, session)) = self.sessions.pop_lru() {
            self.by_client.remove(&session.client);
            self.own.remove(&canonical(session.socket.local_addr()));
        }
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Sockets that are looked at before others have their turn, and answers of each.
const SOCKETS: usize = 64;
const ANSWERS: usize = 8;

/// Bytes of the longest datagram.
const LONGEST: usize = 65_535;

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::tests::destination;
    use super::*;

    fn sessions(to: SocketAddr, most: usize, timeout: Duration) -> Sessions {
        let replies = Replies { sessions: most, timeout };
        Sessions::new(to, &destination(to), Options::default(), replies)
    }

    fn client(number: u16) -> Origin {
        Origin { source: ([10, 0, 0, 1], 1_000 + number).into(), local: None, listener: 0 }
    }

    #[test]
    fn the_longest_silent_makes_room_and_the_silent_age() {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sessions = sessions(sink.local_addr().unwrap(), 3, Duration::from_secs(60));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for number in [0, 1, 2, 0, 3] {
            sessions.session(client(number), at(number.into())).unwrap();
        }
        assert!(sessions.by_client.keys().all(|client| client.source.port() != 1_001), "the longest silent");
        assert_eq!(sessions.take_tally(), Tally { opened: 4, evicted: 1, ..Tally::default() });
        assert_eq!(sessions.deadline(), Some(at(62)));
        sessions.age(at(61));
        assert_eq!(sessions.open(), 3);
        sessions.age(at(200));
        assert_eq!((sessions.open(), sessions.deadline()), (0, None));
        assert_eq!(sessions.take_tally(), Tally { aged: 3, ..Tally::default() });
        sessions.session(client(9), at(201)).unwrap();
        assert_eq!(sessions.open(), 1);
        sessions.close();
        assert_eq!(sessions.take_tally(), Tally { opened: 1, closed: 1, ..Tally::default() });
        assert_eq!((sessions.open(), sessions.deadline()), (0, None));
    }

    #[test]
    fn an_answer_is_of_the_destination_and_for_the_client_that_asked() {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sessions = sessions(sink.local_addr().unwrap(), 10, Duration::from_secs(60));
        let mut scratch = SendScratch::default();
        for number in [1, 2] {
            let body = [number as u8];
            let run = Run { body: &body, ..Run::default() };
            sessions.send(iter::once((run, client(number))), &mut scratch);
        }
        let mut ports = HashMap::new();
        for _ in 0..2 {
            let mut bytes = [0; 8];
            let (length, from) = sink.recv_from(&mut bytes).unwrap();
            ports.insert(from, bytes[0]);
            stranger.send_to(b"forged", from).unwrap();
            sink.send_to(&[&bytes[..length], b"!"].concat(), from).unwrap();
        }
        assert_eq!(ports.len(), 2, "a port for each");
        let mut answers = Vec::new();
        while answers.len() < 2 {
            sessions.answers(|client, bytes| answers.push((client.source.port(), bytes.to_vec())), |_| {});
        }
        sessions.answers(|_, bytes| panic!("{bytes:?}"), |_| panic!("nothing was reported"));
        answers.sort();
        assert_eq!(answers, [(1_001, vec![1, b'!']), (1_002, vec![2, b'!'])]);
    }

    #[test]
    fn the_destination_and_its_sessions_are_nobodys_clients() {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = sink.local_addr().unwrap();
        let mut sessions = sessions(to, 2, Duration::from_secs(60));
        let mut scratch = SendScratch::default();
        let mut send = |sessions: &mut Sessions, source: SocketAddr| {
            let run = Run { body: b"question", ..Run::default() };
            sessions.send(iter::once((run, Origin { source, local: None, listener: 0 })), &mut scratch);
            scratch.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Dropped(1, Reason::Loop)))
        };
        assert!(send(&mut sessions, to));
        assert!(!send(&mut sessions, client(1).source));
        let own = *sessions.own.iter().next().unwrap();
        assert!(send(&mut sessions, own));
        // One that is closed is anybody's.
        assert!(!send(&mut sessions, client(2).source) && !send(&mut sessions, client(3).source));
        assert!(!send(&mut sessions, own));
        assert_eq!(sessions.own.len(), sessions.open());
    }

    #[test]
    fn what_is_reported_about_a_session_is_shown_though_it_sends_no_more() {
        // Connected to itself, it refuses everybody else.
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = closed.local_addr().unwrap();
        closed.connect(to).unwrap();
        let replies = Replies { sessions: 100, timeout: Duration::from_secs(60) };
        let options = Options { errors: true, ..Options::default() };
        let mut sessions = Sessions::new(to, &destination(to), options, replies);
        let mut scratch = SendScratch::default();
        for number in 0..10 {
            let run = Run { body: b"question", ..Run::default() };
            let sent = sessions.send(iter::once((run, client(number))), &mut scratch);
            assert_eq!((sent.icmp, &scratch.outcomes[..]), (0, &[Outcome::Sent(1)][..]), "a session of its own");
        }
        let (mut reports, start) = (0, Instant::now());
        let read = |socket: &Socket| iter::from_fn(|| socket.next_error().unwrap()).count();
        // Others here may have used up some of what the kernel reports in a second.
        while reports == 0 {
            assert!(start.elapsed() < Duration::from_secs(20));
            sessions.answers(|_, bytes| panic!("{bytes:?}"), |socket| reports += read(socket));
        }
    }

    proptest! {
        /// Against a plain list.
        #[test]
        fn the_list_is_by_age(uses in prop::collection::vec(0_u16..12, 1..60)) {
            let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut sessions = sessions(sink.local_addr().unwrap(), 5, Duration::from_secs(60));
            let mut model: Vec<u16> = Vec::new();
            for number in uses {
                sessions.session(client(number), Instant::now()).unwrap();
                model.retain(|known| *known != number);
                model.push(number);
                model.drain(..model.len().saturating_sub(5));
                let clients = sessions.sessions.iter().rev().map(|(_, session)| session.client.source.port() - 1_000);
                let found: Vec<u16> = clients.collect();
                prop_assert_eq!(&found, &model);
            }
        }
    }
}
