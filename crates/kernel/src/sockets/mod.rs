//! The UDP sockets of a network namespace: addresses, memory, drops, owners, groups.
//!
//! [`Sockets`] asks the kernel by sock_diag(7), which needs no privilege; [`owners()`] finds the processes, as far as
//! we may look at them, [`borrow()`] takes a copy of a descriptor from one, and [`groups()`] lists what the interfaces
//! have joined.

mod borrow;
pub(crate) mod diag;
pub(crate) mod groups;
pub(crate) mod owners;
pub(crate) mod proc;

use std::net::SocketAddr;

pub use borrow::{borrow, receive_buffer, set_receive_buffer};
pub use groups::{Membership, groups, has_joined};
pub use owners::{Owner, Owners, owners};

use crate::Error;
use crate::links::Index;
use crate::namespaces::NetNs;

/// A bound UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpSocket {
    /// Its cookie (SO_COOKIE), never used twice while the machine runs; `None`: read from /proc.
    pub cookie: Option<u64>,
    /// Its inode number, as in /proc/PID/fd; 0: no file refers to it (the kernel's own, or closing).
    pub inode: u32,
    /// The address it is bound to.
    pub local: SocketAddr,
    /// The address it is connected to; `None`: not connected.
    pub peer: Option<SocketAddr>,
    /// The interface it is bound to (SO_BINDTODEVICE); `None`: none, or read from /proc.
    pub interface: Option<Index>,
    /// Its memory and drops.
    pub memory: Memory,
}

/// Memory of a socket, bytes of truesize, and its drops (include/uapi/linux/sock_diag.h, SK_MEMINFO_*). What is `None`
/// /proc does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What the receive queue is accounted for, by which the kernel decides whether another datagram fits. While its
    /// reader drains it, up to a quarter of the buffer more than [`Memory::queued`]: releases are accounted in batches.
    /// Read from /proc: the same as that.
    pub rmem_alloc: u32,
    /// What really waits in the receive queue.
    pub queued: u32,
    /// What may be there: SO_RCVBUF as getsockopt tells it, twice what was set.
    pub receive_buffer: Option<u32>,
    /// Buffers it did not take: its receive queue was full, their checksum was wrong, its filter said no, or UDP's
    /// memory was used up. A joined super-packet (UDP_GRO) counts once. Wraps at 2^32.
    pub drops: u32,
}

/// Where the kernel was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// sock_diag(7).
    SockDiag,
    /// /proc/net/udp and udp6: without cookies, interfaces and buffer sizes.
    Proc,
}

/// Reads the UDP sockets of one namespace, of IPv4 and IPv6, again and again.
#[derive(Debug)]
pub struct Sockets {
    reader: Reader,
}

#[derive(Debug)]
enum Reader {
    SockDiag(diag::Diag),
    Proc(proc::Proc),
}

impl Sockets {
    /// Opens a netlink socket in `ns`; /proc/net/udp, where the kernel has no sock_diag for UDP (CONFIG_INET_UDP_DIAG)
    /// or refuses it.
    ///
    /// # Errors
    /// If the namespace cannot be entered, without /proc as well, or out of file descriptors.
    pub fn open(ns: &NetNs) -> Result<Sockets, Error> {
        let asked = ns.run(diag::Diag::open)?.and_then(|mut diag| diag.read().map(|_| diag));
        let reader = match asked {
            Ok(diag) => Reader::SockDiag(diag),
            Err(_) => Reader::Proc(proc::Proc::open(ns)?),
        };
        Ok(Sockets { reader })
    }

    /// Where it reads.
    pub fn source(&self) -> Source {
        match self.reader {
            Reader::SockDiag(_) => Source::SockDiag,
            Reader::Proc(_) => Source::Proc,
        }
    }

    /// The sockets now, in no order. Hundreds take less than a millisecond. One that is bound or closed meanwhile may
    /// miss or be there.
    ///
    /// # Errors
    /// If the kernel's answer cannot be read.
    pub fn read(&mut self) -> Result<Vec<UdpSocket>, Error> {
        match &mut self.reader {
            Reader::SockDiag(diag) => diag.read(),
            Reader::Proc(proc) => proc.read(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket as StdSocket;
    use std::os::fd::AsFd;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use nix::sys::socket::{setsockopt, sockopt};
    use nix::sys::stat::fstat;

    use super::*;
    use crate::links::Netlink;
    use crate::sys::tests::become_user_on_this_thread;

    fn network() -> NetNs {
        let ns = NetNs::create().unwrap();
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        ns
    }

    fn inode(socket: impl AsFd) -> u32 {
        fstat(socket).unwrap().st_ino as u32
    }

    /// A receiver with a small buffer, and a sender that is connected to it.
    fn pair(ns: &NetNs, address: &str) -> (StdSocket, StdSocket) {
        ns.run(|| {
            let receiver = StdSocket::bind(address).unwrap();
            let sender = StdSocket::bind(address).unwrap();
            sender.connect(receiver.local_addr().unwrap()).unwrap();
            (receiver, sender)
        })
        .unwrap()
    }

    #[test]
    fn each_way_of_reading_tells_the_same() {
        let ns = network();
        let (receiver, sender) = pair(&ns, "127.0.0.1:0");
        let (six, _six_sender) = pair(&ns, "[::1]:0");
        set_receive_buffer(&receiver, 8192).unwrap();
        const SENT: u32 = 50;
        for _ in 0..SENT {
            sender.send(&[0; 100]).unwrap();
        }
        let mut sockets = Sockets::open(&ns).unwrap();
        assert_eq!(sockets.source(), Source::SockDiag);
        let mut diag = sockets.read().unwrap();
        let mut proc = Sockets { reader: Reader::Proc(proc::Proc::open(&ns).unwrap()) };
        assert_eq!(proc.source(), Source::Proc);
        let mut proc = proc.read().unwrap();
        let key = |socket: &UdpSocket| socket.local;
        diag.sort_by_key(key);
        proc.sort_by_key(key);
        assert_eq!(diag.len(), 4);

        let of = |sockets: &[UdpSocket], socket: &StdSocket| {
            let local = socket.local_addr().unwrap();
            *sockets.iter().find(|found| found.local == local).unwrap()
        };
        let full = of(&diag, &receiver);
        assert_eq!(full.inode, inode(&receiver));
        assert_eq!((full.peer, full.interface), (None, None));
        assert_eq!(of(&diag, &sender).peer, Some(receiver.local_addr().unwrap()));
        assert_eq!(of(&diag, &six).peer, None);
        assert_eq!(full.memory.receive_buffer, Some(receive_buffer(&receiver).unwrap()));
        assert!(full.memory.queued > 0 && full.memory.rmem_alloc >= full.memory.queued, "{full:?}");

        // What was not dropped is there to be read.
        receiver.set_nonblocking(true).unwrap();
        let mut received = 0;
        while receiver.recv(&mut [0; 100]).is_ok() {
            received += 1;
        }
        assert_eq!(full.memory.drops + received, SENT);
        assert!(full.memory.drops > 0);
        assert_eq!(of(&sockets.read().unwrap(), &receiver).memory.queued, 0);

        // Cookies are all different, and /proc tells the rest.
        let mut cookies: Vec<_> = diag.iter().map(|socket| socket.cookie.unwrap()).collect();
        cookies.sort_unstable();
        cookies.dedup();
        assert_eq!(cookies.len(), 4);
        for (diag, proc) in diag.iter().zip(&proc) {
            let memory = Memory {
                rmem_alloc: diag.memory.queued,
                queued: diag.memory.queued,
                drops: diag.memory.drops,
                ..Memory::default()
            };
            assert_eq!(*proc, UdpSocket { cookie: None, interface: None, memory, ..*diag });
        }
    }

    #[test]
    fn a_socket_may_belong_to_an_interface() {
        let ns = network();
        let (receiver, _sender) = pair(&ns, "127.0.0.1:0");
        setsockopt(&receiver, sockopt::BindToDevice, &"lo".into()).unwrap();
        let local = receiver.local_addr().unwrap();
        let sockets = Sockets::open(&ns).unwrap().read().unwrap();
        let found = sockets.iter().find(|socket| socket.local == local).unwrap();
        assert_eq!(found.interface, Some(1));
    }

    #[test]
    fn ordinary_users_may_read_sockets_and_see_that_processes_are_hidden() {
        let receiver = StdSocket::bind("127.0.0.1:0").unwrap();
        let local = receiver.local_addr().unwrap();
        // Process 1 is somebody else's.
        let (found, hidden) = std::thread::spawn(move || {
            become_user_on_this_thread(65_534);
            let found = Sockets::open(&NetNs::current().unwrap()).unwrap().read().unwrap();
            (found.into_iter().find(|socket| socket.local == local), owners().unwrap().hidden())
        })
        .join()
        .unwrap();
        assert_eq!(found.unwrap().inode, inode(&receiver));
        assert!(hidden > 0);
    }

    #[test]
    fn owners_are_found_and_their_sockets_borrowed() {
        let receiver = StdSocket::bind("127.0.0.1:0").unwrap();
        let me = std::process::id();
        let owners = owners().unwrap();
        // Another test's child may hold it, too, until it executes its program.
        let owner = owners.of(inode(&receiver)).iter().find(|owner| owner.pid == me).unwrap();
        assert_eq!(owner.name, std::fs::read_to_string("/proc/self/comm").unwrap().trim_end());
        assert!(owners.sockets_of(me).contains(&inode(&receiver)));
        assert_eq!(owners.of(0), []);

        let borrowed = borrow(owner.pid, owner.fd).unwrap();
        assert_eq!(inode(&borrowed), inode(&receiver));
        let granted = set_receive_buffer(&borrowed, 400_000).unwrap();
        assert_eq!(granted, 400_000);
        assert_eq!(receive_buffer(&receiver).unwrap(), 400_000);
        // Beyond net.core.rmem_max, with the right to.
        assert_eq!(set_receive_buffer(&borrowed, 64 << 20).unwrap(), 64 << 20);
    }

    #[test]
    fn what_cannot_be_borrowed_says_so() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(borrow(pid, 0).unwrap_err().to_string(), format!("process {pid}: gone"));
        assert_eq!(borrow(0, 0).unwrap_err().to_string(), "process 0: gone");
        let me = std::process::id();
        let error = borrow(me, 1_000_000).unwrap_err().to_string();
        assert_eq!(error, format!("borrow descriptor 1000000 of process {me}: bad file number"));
        let refused = std::thread::spawn(|| {
            become_user_on_this_thread(65_534);
            borrow(1, 0).unwrap_err().to_string()
        });
        assert_eq!(
            refused.join().unwrap(),
            "borrow descriptor 0 of process 1: not permitted \
             (needs CAP_SYS_PTRACE: run as root, or as the program's user)"
        );
    }

    #[test]
    fn memberships_are_found_by_interface_and_by_socket() {
        let ns = network();
        let (member, other) = pair(&ns, "0.0.0.0:0");
        let (six, other_six) = pair(&ns, "[::]:0");
        let group = "239.1.2.3".parse().unwrap();
        let group6 = "ff15::8".parse().unwrap();
        member.join_multicast_v4(&group, &std::net::Ipv4Addr::LOCALHOST).unwrap();
        six.join_multicast_v6(&group6, 1).unwrap();
        let groups = groups(&ns).unwrap();
        for group in [group.into(), group6.into()] {
            let expected = Membership { interface: 1, name: "lo".into(), group, users: 1 };
            assert!(groups.contains(&expected), "{groups:?}");
        }
        assert_eq!(has_joined(&member, group.into(), 1), Ok(true));
        assert_eq!(has_joined(&other, group.into(), 1), Ok(false));
        assert_eq!(has_joined(&member, "239.1.2.4".parse().unwrap(), 1), Ok(false));
        assert_eq!(has_joined(&six, group6.into(), 1), Ok(true));
        assert_eq!(has_joined(&other_six, group6.into(), 1), Ok(false));
    }

    #[test]
    fn hundreds_are_read_in_little_time() {
        let ns = network();
        let kept: Vec<_> = (0..100).map(|_| pair(&ns, "127.0.0.1:0")).collect();
        let mut sockets = Sockets::open(&ns).unwrap();
        let quickest = (0..20).map(|_| {
            let begin = Instant::now();
            assert_eq!(sockets.read().unwrap().len(), 2 * kept.len());
            begin.elapsed()
        });
        let quickest = quickest.min().unwrap();
        println!("200 sockets: {quickest:?}");
        assert!(quickest < Duration::from_millis(20), "{quickest:?}");
    }
}
