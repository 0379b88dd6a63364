//! Sending in batches: sendmmsg(2), runs cut by the kernel or by us, and what of a failed send is to be believed.

use std::io::{self, IoSlice};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, BorrowedFd};

use crate::control::Hops;
use crate::offload::Segmentation;
use crate::sys::send::{Batch, MAX_BATCH, MAX_VECTORS, send_alone};
use crate::{Address, Socket};

/// Most datagrams that the kernel cuts a message into (UDP_MAX_SEGMENTS of include/linux/udp.h; 128 since Linux 6.10).
/// Messages of more are cut by us.
pub const MAX_SEGMENTS: usize = 64;

/// Most bytes that the kernel cuts, the longest payload of UDP over IPv4. Longer messages are cut by us.
pub const MAX_RUN_BYTES: usize = 65_507;

/// Most pieces of a message; one of more is refused (EMSGSIZE).
pub const MAX_PIECES: usize = MAX_VECTORS;

/// One message of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The payload, one behind the other; at most [`MAX_PIECES`].
    pub pieces: &'a [IoSlice<'a>],
    /// Cut it into datagrams of so many bytes, the last may be shorter; `None`: one datagram.
    pub segment: Option<NonZeroU16>,
    /// Where it goes; `None`: where the socket is connected to.
    pub to: Option<&'a Address>,
}

/// What the kernel took of a batch.
#[derive(Debug, Default)]
pub struct SendProgress {
    /// Whole messages.
    pub messages: usize,
    /// Datagrams of the next message: only if that was cut by us.
    pub segments: usize,
    /// System calls.
    pub calls: u32,
    /// Errors that the network had reported about earlier datagrams (ICMP), met and passed over. Some of them are
    /// inferred: the kernel does not tell why it stopped within a batch, only that it then went on.
    pub icmp: u32,
    /// The last of them that the kernel told, an error number; `None`: none was told.
    pub reported: Option<i32>,
    /// Datagrams that left in messages cut by the kernel.
    pub joined: u64,
    /// Why the next datagram was not taken; `None`: all were. WouldBlock: the send buffer is full.
    pub error: Option<io::Error>,
}

impl Socket {
    /// Sends messages in order, as far as the kernel takes them.
    ///
    /// Errors that the network had reported about earlier datagrams are not taken for errors of these: the call is
    /// repeated and counts. Where the kernel does not cut, we do, and the socket remembers it.
    pub fn send(&self, messages: &[Outgoing<'_>]) -> SendProgress {
        transmit(self.as_fd(), messages.len(), |index| (messages[index], None), self.segmentation())
    }

    /// The same for a connected socket; `hops` tells the TTL or hop limit of each message by its index, `None`: the socket's.
    pub fn send_with_hops(&self, messages: &[Outgoing<'_>], hops: impl Fn(usize) -> Option<u8>) -> SendProgress {
        let is_v4 = self.peer_addr().is_some_and(|peer| peer.ip().to_canonical().is_ipv4());
        let kind = if is_v4 { Hops::V4 } else { Hops::V6 };
        let message = |index| (messages[index], hops(index).map(kind));
        transmit(self.as_fd(), messages.len(), message, self.segmentation())
    }
}

/// Sends `count` messages.
#[inline]
pub(crate) fn transmit<'a>(
    socket: BorrowedFd<'_>,
    count: usize,
    message: impl Fn(usize) -> (Outgoing<'a>, Option<Hops>),
    offload: &Segmentation,
) -> SendProgress {
    if count == 1
        && let (Outgoing { pieces, segment: None, to }, None) = message(0)
        && pieces.len() <= MAX_PIECES
    {
        // One datagram needs no batch, unless it fails.
        return match send_alone(socket, to, pieces) {
            Ok(()) => SendProgress { messages: 1, calls: 1, ..SendProgress::default() },
            Err(error) => transmit_batch(socket, count, message, offload, Some(error)),
        };
    }
    transmit_batch(socket, count, message, offload, None)
}

/// `failed`: the result of a first try to send the first message.
fn transmit_batch<'a>(
    socket: BorrowedFd<'_>,
    count: usize,
    message: impl Fn(usize) -> (Outgoing<'a>, Option<Hops>),
    offload: &Segmentation,
    mut failed: Option<io::Error>,
) -> SendProgress {
    let mut taken = SendProgress::default();
    let mut batch = Batch::new();
    let mut steps = [Step::Whole { joined: 0 }; MAX_BATCH];
    let mut repeats = Repeats::default();
    while taken.messages < count {
        let result = match failed.take() {
            Some(error) => Err(error),
            None => {
                if let Err(error) = stage(&mut batch, &mut steps, &taken, count, &message, offload) {
                    taken.error = Some(error);
                    break;
                }
                batch.send(socket)
            }
        };
        taken.calls += 1;
        match result {
            Ok(sent) => {
                repeats.succeed(sent < batch.len(), &mut taken);
                steps[..sent].iter().for_each(|step| taken.advance(*step));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or_default();
                if repeats.again(errno, &mut taken) {
                    continue;
                }
                let segment = message(taken.messages).0.segment.map_or(0, NonZeroU16::get);
                if matches!(steps[0], Step::Whole { joined: 1.. }) && offload.refuse(segment, errno) {
                    repeats = Repeats::default();
                    continue;
                }
                taken.error = Some(error);
                break;
            }
        }
    }
    taken
}

/// Whether a call may fail with this because of a datagram sent before: what ICMP messages are turned into by
/// net/ipv4/icmp.c (icmp_err_convert) and net/ipv6/icmp.c (tab_unreach).
pub(crate) fn may_be_reported(errno: i32) -> bool {
    matches!(
        errno,
        libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EMSGSIZE
            | libc::EPROTO
            | libc::ENOPROTOOPT
            | libc::EOPNOTSUPP
            | libc::EACCES
            | libc::EHOSTDOWN
            | libc::ENONET
    )
}

/// What a message of a batch is.
#[derive(Clone, Copy)]
enum Step {
    /// One of the caller's; how many datagrams the kernel makes of it (0: it is told nothing about that).
    Whole { joined: u32 },
    /// One datagram of it.
    Cut { last: bool },
}

impl SendProgress {
    fn pass_over(&mut self, errno: i32, times: u32) {
        self.icmp += times;
        self.reported = Some(errno);
    }

    #[inline]
    fn advance(&mut self, step: Step) {
        match step {
            Step::Whole { joined } => {
                self.messages += 1;
                self.joined += u64::from(joined);
            }
            Step::Cut { last: false } => self.segments += 1,
            Step::Cut { last: true } => {
                self.messages += 1;
                self.segments = 0;
            }
        }
    }
}

/// Tells errors of a send from those that were pending on the socket.
#[derive(Default)]
struct Repeats {
    /// The error of the last call, and how often in a row.
    failed: Option<(i32, u32)>,
    /// Whether the last call stopped within its batch, for a reason that the kernel keeps to itself.
    stopped: bool,
}

impl Repeats {
    /// Whether to try again: the kernel has taken note that a pending error was told.
    fn again(&mut self, errno: i32, taken: &mut SendProgress) -> bool {
        self.stopped = false;
        let times = match self.failed {
            Some((before, times)) if before == errno => times,
            Some((before, times)) => {
                // Another error: the one before is gone, so it did not come from the send.
                taken.pass_over(before, times);
                0
            }
            None => 0,
        };
        // No send fails with ECONNREFUSED of itself; a second report may have come in between.
        let most = if errno == libc::ECONNREFUSED { 8 } else { 1 };
        self.failed = Some((errno, times + 1));
        may_be_reported(errno) && times < most
    }

    /// A call has taken something: what failed before it did not come from the send.
    #[inline]
    fn succeed(&mut self, stopped: bool, taken: &mut SendProgress) {
        if let Some((errno, times)) = self.failed.take() {
            taken.pass_over(errno, times);
        }
        taken.icmp += u32::from(std::mem::replace(&mut self.stopped, stopped));
    }
}

/// Fills the batch with what comes next, at least one datagram.
#[inline]
fn stage<'a>(
    batch: &mut Batch<'a>,
    steps: &mut [Step; MAX_BATCH],
    taken: &SendProgress,
    count: usize,
    message: &impl Fn(usize) -> (Outgoing<'a>, Option<Hops>),
    offload: &Segmentation,
) -> io::Result<()> {
    batch.clear();
    let mut done = taken.segments;
    for index in taken.messages..count {
        let (outgoing, hops) = message(index);
        if batch.len() == MAX_BATCH {
            break;
        }
        if outgoing.pieces.len() > MAX_PIECES {
            return if batch.len() > 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EMSGSIZE)) };
        }
        match run(&outgoing) {
            None => {
                steps[batch.len()] = Step::Whole { joined: 0 };
                batch.push(outgoing.to, outgoing.pieces, None, hops);
            }
            Some(run) if done == 0 && run.fits() && offload.takes(run.segment) => {
                steps[batch.len()] = Step::Whole { joined: run.datagrams as u32 };
                batch.push(outgoing.to, outgoing.pieces, Some(run.segment), hops);
            }
            Some(run) => {
                if !cut(batch, steps, (&outgoing, hops), &run, done) {
                    break;
                }
            }
        }
        done = 0;
    }
    Ok(())
}

/// A message of more than one datagram.
struct Run {
    segment: u16,
    bytes: usize,
    datagrams: usize,
}

impl Run {
    /// Whether the kernel takes it in one.
    fn fits(&self) -> bool {
        self.bytes <= MAX_RUN_BYTES && self.datagrams <= MAX_SEGMENTS
    }
}

#[inline]
fn run(outgoing: &Outgoing<'_>) -> Option<Run> {
    let segment = outgoing.segment?.get();
    let bytes: usize = outgoing.pieces.iter().map(|piece| piece.len()).sum();
    let datagrams = bytes.div_ceil(segment.into());
    (datagrams > 1).then_some(Run { segment, bytes, datagrams })
}

/// Adds the datagrams of a message from number `done` on; `false`: not all had room.
fn cut<'a>(
    batch: &mut Batch<'a>,
    steps: &mut [Step; MAX_BATCH],
    (outgoing, hops): (&Outgoing<'a>, Option<Hops>),
    run: &Run,
    done: usize,
) -> bool {
    let segment = usize::from(run.segment);
    let mut rest = Parts::new(outgoing.pieces);
    rest.by_ref_take(done * segment).for_each(drop);
    for number in done..run.datagrams {
        let at = batch.len();
        if !batch.push_cut(outgoing.to, rest.by_ref_take(segment), hops) {
            return false;
        }
        steps[at] = Step::Cut { last: number + 1 == run.datagrams };
    }
    true
}

/// The bytes of a message that are not dealt with yet.
struct Parts<'a> {
    pieces: &'a [IoSlice<'a>],
    /// Bytes of the first piece that are dealt with.
    offset: usize,
}

impl<'a> Parts<'a> {
    fn new(pieces: &'a [IoSlice<'a>]) -> Self {
        Self { pieces, offset: 0 }
    }

    /// The parts of pieces that make up the next `bytes`, or what is left.
    fn by_ref_take(&mut self, mut bytes: usize) -> impl Iterator<Item = &'a [u8]> {
        std::iter::from_fn(move || {
            loop {
                let (first, others) = self.pieces.split_first().filter(|_| bytes > 0)?;
                // The piece's bytes live as long as what it borrows, not only as long as the piece is looked at.
                let whole: &'a [u8] = first;
                let part = &whole[self.offset..];
                if part.len() > bytes {
                    let part = &part[..bytes];
                    self.offset += bytes;
                    bytes = 0;
                    return Some(part);
                }
                bytes -= part.len();
                (self.pieces, self.offset) = (others, 0);
                if !part.is_empty() {
                    return Some(part);
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_error_that_goes_away_was_pending() {
        let (mut repeats, mut taken) = (Repeats::default(), SendProgress::default());
        assert!(repeats.again(libc::EHOSTUNREACH, &mut taken));
        repeats.succeed(false, &mut taken);
        assert_eq!(taken.icmp, 1);
        // Twice the same in a row is the send's own.
        assert!(repeats.again(libc::EHOSTUNREACH, &mut taken));
        assert!(!repeats.again(libc::EHOSTUNREACH, &mut taken));
        assert_eq!(taken.icmp, 1);
        // What no ICMP message is turned into is believed at once.
        let (mut repeats, mut taken) = (Repeats::default(), SendProgress::default());
        assert!(repeats.again(libc::ECONNREFUSED, &mut taken));
        assert!(!repeats.again(libc::EAGAIN, &mut taken));
        assert_eq!(taken.icmp, 1);
        // A batch that stopped and went on was stopped by a pending error, nobody knows which.
        let (mut repeats, mut taken) = (Repeats::default(), SendProgress::default());
        repeats.succeed(true, &mut taken);
        assert_eq!(taken.icmp, 0);
        repeats.succeed(false, &mut taken);
        assert_eq!(taken.icmp, 1);
    }

    proptest! {
        #[test]
        fn cutting_keeps_every_byte(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..8),
            sizes in prop::collection::vec(0usize..60, 1..20),
        ) {
            let whole = pieces.concat();
            let slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            let mut rest = Parts::new(&slices);
            let mut at = 0;
            for size in sizes {
                let part: Vec<u8> = rest.by_ref_take(size).flatten().copied().collect();
                let end = whole.len().min(at + size);
                prop_assert_eq!(&part, &whole[at..end]);
                at = end;
            }
        }
    }
}
