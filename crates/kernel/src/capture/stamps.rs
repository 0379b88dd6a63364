//! When the kernel begins to stamp.

use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, TimestampingFlag, recvmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;

use crate::Error;
use crate::error::During;
use crate::links::Netlink;
use crate::namespaces::NetNs;

/// Waits until the kernel stamps what arrives. The first socket of the machine that asks for stamps has it begin a little
/// later, on a thread of the kernel's own; frames that come before are stamped when they are read, behind later ones.
pub(super) fn await_stamps() -> Result<(), Error> {
    let operation = || "wait for stamps of arrivals".to_owned();
    let ns = NetNs::create()?;
    Netlink::open(&ns)?.set_loopback_up()?;
    ns.run(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(errno).during(operation)?;
        socket.connect(socket.local_addr().map_err(errno).during(operation)?).map_err(errno).during(operation)?;
        // Unlike SO_TIMESTAMPNS, this tells no time where there is no stamp.
        let flags = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
        setsockopt(&socket, sockopt::Timestamping, &flags).during(operation)?;
        let begin = Instant::now();
        // There is no event for it, and without it a capture is better than none.
        while !is_stamped(&socket).map_err(errno).during(operation)? && begin.elapsed() < PATIENCE {
            thread::yield_now();
        }
        Ok(())
    })?
}

/// Sends a datagram to the socket itself; whether it was stamped on the way.
fn is_stamped(socket: &UdpSocket) -> io::Result<bool> {
    socket.send(&[0])?;
    let (mut byte, mut control) = ([0], cmsg_space!([TimeSpec; 3]));
    let mut pieces = [IoSliceMut::new(&mut byte)];
    let received = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut pieces, Some(&mut control), MsgFlags::empty())?;
    Ok(received.cmsgs()?.any(|message| matches!(message, ControlMessageOwned::ScmTimestampsns(_))))
}

fn errno(error: io::Error) -> nix::errno::Errno {
    nix::errno::Errno::try_from(error).unwrap_or(nix::errno::Errno::EIO)
}

const PATIENCE: Duration = Duration::from_secs(1);
