//! Networks of a test's own, and waiting for what travels through them.

use std::io::IoSlice;
use std::num::NonZeroU16;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_dgram::{Inbox, Outgoing, Received, SendProgress, Socket};
pub(crate) use weir_testbed::network::{Host, Switch, cable, end, namespace, on_loopback};

/// Three hosts on a switch, which lives as long as the second value.
pub(crate) fn switched() -> Option<([Host; 3], Switch)> {
    let switch = Switch::create()?;
    let hosts = [1, 2, 3].map(|number| (number, switch.plug(number, &format!("port{number}"))));
    for (number, host) in &hosts {
        (1..=3).filter(|other| other != number).for_each(|other| host.knows(other));
    }
    Some((hosts.map(|(_, host)| host), switch))
}

/// Sends one message, cut into datagrams of `segment` bytes (0: not).
pub(crate) fn send(socket: &Socket, payload: &[u8], segment: u16) -> SendProgress {
    let pieces = [IoSlice::new(payload)];
    socket.send(&[Outgoing { pieces: &pieces, segment: NonZeroU16::new(segment), to: None }])
}

/// Waits for something to receive, 5 s at most.
pub(crate) fn wait_readable(socket: &Socket) {
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut fds, PollTimeout::from(5000u16)), Ok(1), "nothing came");
}

/// Waits for an entry in the error queue, 5 s at most.
pub(crate) fn wait_error(socket: &Socket) {
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    assert_eq!(poll(&mut fds, PollTimeout::from(5000u16)), Ok(1), "no error came");
}

/// Receives until `count` datagrams have come, and shows each message to `look`.
pub(crate) fn receive(socket: &Socket, count: usize, mut look: impl FnMut(Received<'_>)) {
    let mut inbox = Inbox::new(16, 65_535);
    let mut datagrams = 0;
    while datagrams < count {
        wait_readable(socket);
        inbox.receive(socket).unwrap();
        for message in inbox.messages() {
            datagrams += message.datagrams();
            look(message);
        }
    }
    assert_eq!(datagrams, count);
    assert_eq!(inbox.receive(socket).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "more came");
}

/// The payloads of `count` datagrams.
pub(crate) fn payloads(socket: &Socket, count: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    receive(socket, count, |message| all.extend(message.segments().map(<[u8]>::to_vec)));
    all
}

/// `length` bytes, no two neighbouring datagrams alike.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}
