//! The crate's unsafe code: descriptors that other processes gave us, signal handlers, and two old-fashioned calls.
#![allow(unsafe_code)]

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Whether a child that is started now gets the descriptor.
pub(crate) fn set_inherited(descriptor: BorrowedFd<'_>, inherited: bool) -> Result<(), Errno> {
    let flags = if inherited { FdFlag::empty() } else { FdFlag::FD_CLOEXEC };
    fcntl(descriptor, FcntlArg::F_SETFD(flags)).map(|_| ())
}

/// Takes over a descriptor that was open when this process was executed, and keeps it from its children. To be called
/// before the process opens anything itself.
pub(crate) fn inherited_descriptor(number: RawFd) -> Result<OwnedFd, Errno> {
    if number <= libc::STDERR_FILENO {
        return Err(Errno::EBADF);
    }
    // SAFETY: `number` is only borrowed for a call that fails with EBADF if it is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    set_inherited(borrowed, false)?;
    // SAFETY: `number` is open, as the call above has shown, is no standard stream, and nobody in this process owns it:
    // it came with the exec, and nothing has been opened since.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The cookie of a socket's network namespace (SO_NETNS_COOKIE).
pub(crate) fn namespace_cookie(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes behind the pointer, which are all those of `cookie`.
    let result = unsafe {
        let option = libc::SO_NETNS_COOKIE;
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw mut cookie).cast(), &raw mut length)
    };
    Errno::result(result).map(|_| cookie)
}

/// Lets the command start with no signal blocked, where its parent has blocked them.
pub(crate) fn unblock_signals_in(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; pthread_sigmask is one (signal-safety(7)),
    // and the closure makes no other, allocates nothing and touches nothing of its surroundings.
    unsafe { command.pre_exec(|| SigSet::empty().thread_set_mask().map_err(io::Error::from)) }
}

/// A signal that does nothing while this lives; a program executed meanwhile has its default action.
pub(crate) struct Caught {
    signal: Signal,
    before: SigAction,
}

impl Caught {
    pub(crate) fn new(signal: Signal) -> Result<Caught, Errno> {
        let action = SigAction::new(SigHandler::Handler(do_nothing), SaFlags::SA_RESTART, SigSet::empty());
        // SAFETY: the handler calls nothing, so it is safe at any point of any thread.
        let before = unsafe { sigaction(signal, &action) }?;
        Ok(Caught { signal, before })
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        // SAFETY: puts back what was in force before, which whoever installed it has vouched for.
        let _ = unsafe { sigaction(self.signal, &self.before) };
    }
}

extern "C" fn do_nothing(_: libc::c_int) {}

/// Takes over a descriptor that recvmsg has just made for us.
pub(crate) fn received_descriptor(number: RawFd) -> OwnedFd {
    // SAFETY: the callers pass numbers straight from an SCM_RIGHTS message, each of which the kernel has opened for
    // this process alone and nobody else knows.
    unsafe { OwnedFd::from_raw_fd(number) }
}

// Commands of include/uapi/linux/ethtool.h.
pub(crate) const ETHTOOL_GSET: u32 = 0x01;
pub(crate) const ETHTOOL_GDRVINFO: u32 = 0x03;
pub(crate) const ETHTOOL_GCOALESCE: u32 = 0x0e;
pub(crate) const ETHTOOL_SCOALESCE: u32 = 0x0f;
pub(crate) const ETHTOOL_GRINGPARAM: u32 = 0x10;
pub(crate) const ETHTOOL_SRINGPARAM: u32 = 0x11;
pub(crate) const ETHTOOL_GPAUSEPARAM: u32 = 0x12;
pub(crate) const ETHTOOL_GSTRINGS: u32 = 0x1b;
pub(crate) const ETHTOOL_GFEATURES: u32 = 0x3a;
pub(crate) const ETHTOOL_SFEATURES: u32 = 0x3b;
pub(crate) const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// 32-bit words of `struct ethtool_cmd`, `ethtool_drvinfo` and `ethtool_coalesce`.
pub(crate) const GSET_WORDS: usize = 11;
pub(crate) const GDRVINFO_WORDS: usize = 49;
pub(crate) const COALESCE_WORDS: usize = 23;

/// The set of strings that names features.
pub(crate) const ETH_SS_FEATURES: u32 = 4;

/// Room for this many names of features must be given; kernels have up to 64.
pub(crate) const MOST_FEATURES: usize = 256;

/// 32-bit words of a name (ETH_GSTRING_LEN is 32 bytes).
pub(crate) const STRING_WORDS: usize = 8;

/// An ethtool request about an interface of the socket's namespace. `payload` begins with one of the commands above,
/// followed by its counts, and has room for the answer, which takes its place. A result above 0 is information.
///
/// # Panics
/// If `payload` is too small for its counts.
pub(crate) fn ethtool(socket: BorrowedFd<'_>, interface: &str, payload: &mut [u32]) -> Result<i32, Errno> {
    // As much as the kernel reads and writes at most (net/ethtool/ioctl.c).
    let promised = match *payload {
        [ETHTOOL_GSET, ..] => GSET_WORDS,
        [ETHTOOL_GDRVINFO, ..] => GDRVINFO_WORDS,
        [ETHTOOL_GCOALESCE | ETHTOOL_SCOALESCE, ..] => COALESCE_WORDS,
        [ETHTOOL_GRINGPARAM | ETHTOOL_SRINGPARAM | ETHTOOL_GCHANNELS, ..] => 9,
        [ETHTOOL_GPAUSEPARAM, ..] => 4,
        [ETHTOOL_GSTRINGS, ETH_SS_FEATURES, ..] => 3 + STRING_WORDS * MOST_FEATURES,
        [ETHTOOL_GFEATURES, blocks, ..] => 2 + 4 * blocks as usize,
        [ETHTOOL_SFEATURES, blocks, ..] => 2 + 2 * blocks as usize,
        _ => usize::MAX,
    };
    assert!(promised <= payload.len(), "room for {promised} words, not {}", payload.len());

    // SAFETY: all fields of an ifreq are numbers, arrays of them, or pointers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(Errno::ENODEV);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = payload.as_mut_ptr().cast();
    // SAFETY: the descriptor is open while it is borrowed; SIOCETHTOOL takes an ifreq with a zero-ended name (the length
    // check leaves a zero) and a pointer to a command, here one of those matched above, of which all others panic. Those
    // with a struct of fixed size read and write no more than it. Asked for features the kernel stays within the blocks
    // that `payload` names, and the names it writes are one a bit of netdev_features_t, which is far from MOST_FEATURES
    // bits wide. `payload` is exclusively ours and outlives the call; any bits are valid numbers.
    Errno::result(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut request) })
}

/// include/uapi/linux/sockios.h
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// Gives the calling thread, and the threads it starts from then on, the policy SCHED_RR.
pub(crate) fn set_round_robin(priority: i32) -> Result<(), Errno> {
    // The system call itself: musl's function of this name refuses everything. Its struct sched_param is one number.
    let parameters: libc::c_int = priority;
    // SAFETY: sched_setscheduler takes two numbers, of which 0 names the calling thread, and a pointer to a struct that is
    // one int (include/uapi/linux/sched/types.h); the kernel only reads it, and it outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_RR, &raw const parameters) };
    Errno::result(result).map(drop)
}

/// Asks for a socket's source filter of a group on an interface (MCAST_MSFILTER, RFC 3678): EADDRNOTAVAIL if it has not
/// joined the group there.
pub(crate) fn source_filter(socket: BorrowedFd<'_>, group: IpAddr, interface: u32) -> Result<(), Errno> {
    // struct group_filter without sources: interface, padding, a sockaddr_storage of 128 bytes, mode, number of sources.
    let mut filter = [0u8; 144];
    filter[..4].copy_from_slice(&interface.to_ne_bytes());
    let level = match group {
        IpAddr::V4(group) => {
            filter[8..10].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            filter[12..16].copy_from_slice(&group.octets());
            libc::SOL_IP
        }
        IpAddr::V6(group) => {
            filter[8..10].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            filter[16..32].copy_from_slice(&group.octets());
            libc::SOL_IPV6
        }
    };
    let mut length = filter.len() as libc::socklen_t;
    // SAFETY: `socket` is open while it is borrowed. The kernel reads and writes at most `length` bytes of `filter`, all of
    // which are ours and initialised; it copies them bytewise, so that their alignment does not matter. With room for no
    // source (the last number is 0) it writes none.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, MCAST_MSFILTER, filter.as_mut_ptr().cast(), &raw mut length)
    };
    Errno::result(result).map(drop)
}

/// include/uapi/linux/in.h
const MCAST_MSFILTER: libc::c_int = 48;

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    /// Makes a tun interface in the calling thread's network namespace; it goes with the file.
    pub(crate) fn open_tun(name: &str) -> File {
        let file = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
        // SAFETY: all fields of an ifreq are numbers, arrays of them, or pointers, for which zero is valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        assert!(name.len() < request.ifr_name.len());
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the file is open; TUNSETIFF reads and writes one ifreq, which outlives the call.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as libc::Ioctl, &raw mut request) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        file
    }

    /// The C library's setuid moves all threads; the system call only its own.
    pub(crate) fn become_user_on_this_thread(user: libc::uid_t) {
        // SAFETY: setresuid takes three numbers and touches no memory of ours.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) };
        assert_eq!(result, 0);
    }
}
