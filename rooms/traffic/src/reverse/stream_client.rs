//! The asking end over TCP: one connection carries the request, the messages of either direction, and the accounts.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::thread::Scope;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use weir_program::clock::{self, Nanos, nanos, now};
use weir_wire::control::{Account, Control, Says};

use super::caller::{Own, Phase, tell};
use super::client::{ClientReport, Talking, own};
use super::{LOOK, Parted};
use crate::receiver::frames::{Frame, Frames};
use crate::sender::channel::Channel;
use crate::{Ended, ReceiveReport, Sender, in_words};

/// Talks to the end.
pub(super) fn run<'scope>(
    mut channel: Channel,
    both: bool,
    talking: Talking<'scope>,
    scope: &'scope Scope<'scope, '_>,
) -> io::Result<ClientReport> {
    let deadline = now().saturating_add(nanos(talking.settings.connect_timeout));
    let connected = channel.connect(talking.settings.to, deadline, talking.stop);
    let local = channel.local_addr();
    if !connected {
        let parted = if talking.stop.is_set() { Parted::Stopped } else { Parted::Unreachable };
        let failure = Some(in_words(&channel.into_errors()));
        let received = talking.sessions.into_report();
        return Ok(ClientReport { received, sent: None, told: None, parted, local, failure });
    }
    let shared = || channel.stream().unwrap_or_else(|| Err(io::Error::other("no stream")));
    let own = if both {
        let sender = Sender::over(Channel::of_stream(shared()?), &talking.settings);
        Some(own(sender, talking.stop, scope)?)
    } else {
        None
    };
    let mut call = Call {
        socket: shared()?,
        talking,
        own,
        frames: Frames::default(),
        phase: Phase::Asking,
        deadline,
        heard: now(),
        told: None,
        failure: None,
    };
    let ended = call.run();
    if let Some(own) = &mut call.own {
        own.join();
    }
    if call.phase == Phase::Flowing && ended == Ended::Stopped {
        // The other end need not go on.
        let account = tell(&call.talking.sessions, call.own.as_ref());
        call.say(Says::Account(Some(account)));
    }
    let parted = match call.phase {
        Phase::Over(parted) => parted,
        _ if call.talking.stop.is_set() => Parted::Stopped,
        _ => Parted::Failed,
    };
    let partial_bytes = call.frames.partial() as u64;
    let received = ReceiveReport { ended, connections: 1, partial_bytes, ..call.talking.sessions.into_report() };
    let (told, sent) = (call.told, call.own.and_then(|own| own.report));
    Ok(ClientReport { received, sent, told, parted, local, failure: call.failure })
}

struct Call<'scope> {
    socket: socket2::Socket,
    talking: Talking<'scope>,
    own: Option<Own<'scope>>,
    frames: Frames,
    phase: Phase,
    /// When to give up asking.
    deadline: Nanos,
    heard: Nanos,
    told: Option<Account>,
    failure: Option<String>,
}

impl Call<'_> {
    fn run(&mut self) -> Ended {
        let mut buffer = vec![0; READ];
        if !self.say(self.talking.control.says) {
            return Ended::Failed;
        }
        loop {
            let at = now();
            let next = match self.talking.ending.check(&mut self.talking.sessions, at) {
                Ok(next) => next,
                Err(ended) => return ended,
            };
            self.tick(at);
            if let Phase::Over(_) = self.phase {
                return Ended::Complete;
            }
            let stop = self.talking.ending.stop_fd();
            let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN), PollFd::new(stop, PollFlags::POLLIN)];
            let look = at + LOOK;
            clock::wait(&mut fds, Some(next.map_or(look, |next| next.min(look))));
            self.read(&mut buffer);
        }
    }

    fn tick(&mut self, at: Nanos) {
        let own_ended = Own::collect(&mut self.own);
        let sessions = &mut self.talking.sessions;
        if let Some(own) = &self.own {
            sessions.set_sent(own.exchange.sent());
        }
        match self.phase {
            Phase::Asking if at >= self.deadline => self.phase = Phase::Over(Parted::Unanswered),
            Phase::Flowing => {
                let patience = SILENCE.max(3 * nanos(self.talking.settings.interval));
                if own_ended && sessions.settled(None, self.talking.control.session, at).is_some() {
                    let account = tell(sessions, self.own.as_ref());
                    self.phase = Phase::Telling(at + ANSWER);
                    self.say(Says::Account(Some(account)));
                } else if at.saturating_sub(self.heard) > patience {
                    self.phase = Phase::Over(Parted::Silent);
                }
            }
            Phase::Telling(until) if at >= until => self.phase = Phase::Over(Parted::Untold),
            _ => {}
        }
        if self.own.is_some() {
            // What was sent behind the last message that came is told of, too.
            self.talking.sessions.reverse_ended(at);
        }
    }

    /// Writes a control message whole: nobody else writes now.
    fn say(&mut self, says: Says) -> bool {
        let bytes = Control { says, ..self.talking.control }.bytes();
        let (mut rest, until) = (&bytes[..], now() + ANSWER);
        while !rest.is_empty() {
            match self.socket.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && now() < until => {
                    let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
                    clock::wait(&mut fds, Some(until));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.lost(&error.to_string());
                    return false;
                }
            }
        }
        true
    }

    /// Takes what has come.
    fn read(&mut self, buffer: &mut [u8]) {
        for _ in 0..READS {
            let length = match self.socket.read(buffer) {
                Ok(0) => return self.lost("the other end closed the connection"),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return self.lost(&error.to_string()),
            };
            let at = now();
            self.heard = at;
            let (frames, sessions, to) = (&mut self.frames, &mut self.talking.sessions, self.talking.settings.to);
            let (phase, told, own, request) =
                (&mut self.phase, &mut self.told, &mut self.own, self.talking.control.request);
            let fed = frames.feed(&buffer[..length], |frame| match frame {
                Frame::Message(probe, length) => sessions.count(probe, length, to, at),
                Frame::Control(control) if control.request == request => match control.says {
                    Says::Granted if *phase == Phase::Asking => {
                        *phase = Phase::Flowing;
                        Own::begin(own);
                    }
                    Says::Refused(refusal) => *phase = Phase::Over(Parted::Refused(refusal)),
                    Says::Account(account) => {
                        *told = account;
                        *phase = Phase::Over(Parted::Told);
                    }
                    _ => {}
                },
                Frame::Control(_) => {}
            });
            if fed.is_err() {
                return self.lost("what came is not ours");
            }
        }
    }

    /// The connection is of no more use.
    fn lost(&mut self, why: &str) {
        self.phase = match self.phase {
            // An end that does not know the request, or does not allow it, hangs up.
            Phase::Asking => Phase::Over(Parted::Unanswered),
            Phase::Telling(_) => Phase::Over(Parted::Untold),
            over @ Phase::Over(_) => over,
            Phase::Flowing => Phase::Over(Parted::Silent),
        };
        self.failure.get_or_insert_with(|| why.to_owned());
    }
}

const READ: usize = 256 * 1024;
const READS: usize = 8;

/// Nothing for so long: lost segments can keep a living connection silent for a minute and more.
const SILENCE: Nanos = Duration::from_secs(120).as_nanos() as Nanos;

/// How long the last answer may take.
const ANSWER: Nanos = Duration::from_secs(10).as_nanos() as Nanos;
