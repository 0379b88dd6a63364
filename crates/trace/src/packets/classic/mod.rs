//! Packets sampled without eBPF: by classic filters, which CAP_NET_RAW alone permits, in a container, too.
//!
//! A classic filter can choose by chance, but neither count nor see of how many segments a super-packet is. So each interface has
//! two packet sockets:
//!
//! - The *chooser*: its filter lets so many by chance into a ring; super-packets all, which are told by their length. Their
//!   segments are counted and they are chosen among here, by the number of their segments, as the eBPF filter does.
//! - The *counter*: its filter lets everything pass and its queue is always full, so that the kernel counts what it would have
//!   given it, and does nothing else (PACKET_STATISTICS).
//!
//! Together they are the pool: buffers, exactly, and the segments that super-packets have beyond the first.

mod filter;
mod ring;
mod sys;

use std::cell::Cell;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use super::{Fate, Packet, Sampled};
use filter::{ALWAYS, LONGEST, choose, count, refuse};
use ring::{FRAMES, Ring};
use weir_kernel::Error;
use weir_kernel::capture;
use weir_kernel::error::During;
use weir_kernel::links::Index;

/// Interfaces that can be sampled at once: their sockets are opened while that is permitted.
pub(super) const MOST_INTERFACES: usize = 64;

/// Interfaces that are sampled, and sockets for more.
pub(super) struct Classic {
    free: Vec<Sockets>,
    sources: HashMap<Index, Source>,
    stopped: bool,
}

struct Sockets {
    chooser: OwnedFd,
    counter: OwnedFd,
    /// The chooser's; `None` before its first use.
    ring: Option<Ring>,
}

/// A sampled interface.
struct Source {
    sockets: Sockets,
    chances: Chances,
    /// Buffers that the counter was given. Reading it has the kernel begin again.
    buffers: Cell<u64>,
    tally: Tally,
}

/// Chances, of 2^32.
#[derive(Clone, Copy, Debug)]
struct Chances {
    /// Of a packet to be sampled.
    chosen: u64,
    /// Of a packet to be sampled, and kept.
    kept: u64,
    /// Of a super-packet to come into the ring.
    seen: u64,
}

/// What is known from the ring.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Segments of super-packets beyond the first.
    segments: f64,
    /// Samples kept.
    kept: u64,
    shed: f64,
    lost: f64,
}

/// What one look at a ring found.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    frames: u32,
    supers: u32,
    segments: f64,
    samples: f64,
}

impl Classic {
    /// Opens all sockets, in this process's network namespace.
    pub(super) fn open() -> Result<Self, Error> {
        let operation = || "sample packets by classic filters";
        let open = || -> Result<Sockets, Errno> {
            // In this order: where an interface comes up, the kernel hands packets to the last one first, and whoever is the
            // last to have one frees it. What the counter does not take would otherwise pass for a dropped packet.
            let [chooser, counter] = [capture::sys::create()?, capture::sys::create()?];
            Ok(Sockets { chooser, counter, ring: None })
        };
        let mut free = vec![open().during(operation)?];
        while free.len() < MOST_INTERFACES
            && let Ok(sockets) = open()
        {
            free.push(sockets);
        }
        free.reverse();
        Ok(Self { free, sources: HashMap::new(), stopped: false })
    }

    /// As [`super::Programs::sample`].
    pub(super) fn sample(&mut self, interface: Index, chance: u64, kept: u64) -> Result<bool, Error> {
        let operation = || format!("sample interface {interface}");
        if let Some(source) = self.sources.get_mut(&interface) {
            (source.chances.chosen, source.chances.kept) = (chance, kept.max(1));
            source.sockets.choose(source.chances).during(operation)?;
            return Ok(true);
        }
        let Some(mut sockets) = self.free.pop() else { return Ok(false) };
        let chances = Chances { chosen: chance, kept: kept.max(1), seen: ALWAYS };
        match sockets.begin(interface, chances) {
            Ok(()) => {
                let source = Source { sockets, chances, buffers: Cell::default(), tally: Tally::default() };
                self.sources.insert(interface, source);
                Ok(true)
            }
            Err(errno) => {
                self.free.push(sockets);
                // It has gone, and whoever asked is about to hear of it.
                if errno == Errno::ENODEV { Ok(true) } else { Err(errno).during(operation) }
            }
        }
    }

    pub(super) fn leave(&mut self, interface: Index) -> Result<Sampled, Error> {
        let Some(mut source) = self.sources.remove(&interface) else { return Ok(Sampled::default()) };
        source.sockets.refuse();
        let mut unseen = 0;
        let counted = source.take(interface, &mut |packet| unseen += packet.times()).and_then(|_| source.counts());
        self.free.push(source.sockets);
        // Nobody asks for them any more.
        counted.map(|counted| Sampled { lost: counted.lost + unseen, ..counted }).during(|| "count packets")
    }

    pub(super) fn sampled(&self, interface: Index) -> Result<Sampled, Error> {
        self.sources.get(&interface).map_or(Ok(Sampled::default()), |source| source.counts().during(|| "count packets"))
    }

    pub(super) fn take(&mut self, each: &mut impl FnMut(Packet<'_>)) -> Result<(), Error> {
        let mut outcome = Ok(());
        for (&interface, source) in &mut self.sources {
            let looked = match self.stopped {
                true => source.take(interface, each).map(drop),
                false => source.look(interface, each),
            };
            outcome = outcome.and(looked);
        }
        outcome.during(|| "count packets")
    }

    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.sources.values().for_each(|source| source.sockets.refuse());
    }
}

impl Sockets {
    /// Hears an interface from now on.
    fn begin(&mut self, interface: Index, chances: Chances) -> Result<(), Errno> {
        if self.ring.is_none() {
            self.ring = Some(Ring::open(self.chooser.as_fd())?);
            sys::shrink_receive_buffer(self.counter.as_fd())?;
        }
        // What is left of another interface.
        while self.ring.as_mut().is_some_and(|ring| ring.next().is_some()) {}
        self.choose(chances)?;
        sys::attach(self.counter.as_fd(), &count())?;
        // In this order, as in `Classic::open`.
        capture::sys::bind(self.chooser.as_fd(), interface)?;
        capture::sys::bind(self.counter.as_fd(), interface)?;
        for socket in [&self.chooser, &self.counter] {
            capture::sys::take_statistics(socket.as_fd())?;
        }
        Ok(())
    }

    fn choose(&self, chances: Chances) -> Result<(), Errno> {
        sys::attach(self.chooser.as_fd(), &choose(chances.kept, chances.seen))
    }

    /// Nothing passes any more. Where the kernel does not let us, something does, which harms nobody.
    fn refuse(&self) {
        for socket in [&self.chooser, &self.counter] {
            let _ = sys::attach(socket.as_fd(), &refuse());
        }
    }
}

impl Source {
    /// Takes what has come, and has fewer super-packets come where they fill the ring.
    fn look(&mut self, interface: Index, each: &mut impl FnMut(Packet<'_>)) -> Result<(), Errno> {
        let look = self.take(interface, each)?;
        let seen = self.chances.seen;
        let wanted = match look.supers {
            many if many > FRAMES as u32 / 4 * 3 => (seen / 2).max(RAREST),
            few if few < FRAMES as u32 / 4 => (seen * 2).min(ALWAYS),
            _ => seen,
        };
        if wanted != seen {
            self.sockets.choose(Chances { seen: wanted, ..self.chances })?;
            // Until now they came by the chance before.
            self.take(interface, each)?;
            self.chances.seen = wanted;
        }
        Ok(())
    }

    /// Takes what is in the ring, and counts what found it full.
    fn take(&mut self, interface: Index, each: &mut impl FnMut(Packet<'_>)) -> Result<Look, Errno> {
        let mut look = Look::default();
        for _ in 0..FRAMES {
            let Some(frame) = self.sockets.ring.as_mut().and_then(Ring::next) else { break };
            let times = self.tally.enter(frame.length, frame.segments, self.chances, fastrand::u32(..), &mut look);
            if times > 0 {
                each(frame.packet(Fate::Sampled { interface, times }));
            }
        }
        let (_, full) = capture::sys::take_statistics(self.sockets.chooser.as_fd())?;
        self.tally.miss(full, look);
        Ok(look)
    }

    fn counts(&self) -> Result<Sampled, Errno> {
        let (passed, _) = capture::sys::take_statistics(self.sockets.counter.as_fd())?;
        self.buffers.set(self.buffers.get() + u64::from(passed));
        let Tally { segments, kept, shed, lost } = self.tally;
        let (shed, lost) = (shed as u64, lost as u64);
        Ok(Sampled { pool: self.buffers.get() + segments as u64, chosen: kept + shed + lost, shed, lost })
    }
}

impl Tally {
    /// Counts a frame out of the ring; how many samples it is.
    fn enter(&mut self, length: u32, segments: u32, chances: Chances, random: u32, look: &mut Look) -> u32 {
        look.frames += 1;
        let Chances { chosen, kept, seen } = chances;
        let times = if length > LONGEST {
            let stands_for = ALWAYS as f64 / seen as f64;
            let more = f64::from(segments.max(1) - 1) * stands_for;
            (self.segments, look.segments, look.supers) = (self.segments + more, look.segments + more, look.supers + 1);
            // The same random number: what is kept is chosen.
            let times = |chance: u64| {
                (chance as f64 * f64::from(segments.max(1)) * stands_for + f64::from(random)) as u64 >> 32
            };
            self.shed += (times(chosen) - times(kept)) as f64;
            times(kept)
        } else {
            self.shed += chosen as f64 / kept as f64 - 1.0;
            1
        };
        self.kept += times;
        look.samples += times as f64;
        times as u32
    }

    /// Counts frames that found the ring full, as those that did not.
    fn miss(&mut self, full: u32, look: Look) {
        if full > 0 && look.frames > 0 {
            let each = f64::from(full) / f64::from(look.frames);
            self.segments += each * look.segments;
            self.lost += each * look.samples;
        }
    }
}

/// Least chance of a super-packet to come into the ring.
const RAREST: u64 = ALWAYS >> 10;

#[cfg(test)]
mod tests {
    use super::*;

    const CHANCES: Chances = Chances { chosen: ALWAYS / 100, kept: ALWAYS / 100, seen: ALWAYS };

    #[test]
    fn a_super_packet_is_as_many_chances_as_segments() {
        let (mut tally, mut look) = (Tally::default(), Look::default());
        // Random numbers as even as can be.
        for number in 0..1000_u32 {
            tally.enter(65_000, 45, CHANCES, number * (u32::MAX / 1000), &mut look);
            tally.enter(1_514, 1, CHANCES, 0, &mut look);
        }
        assert_eq!((tally.segments, look.frames, look.supers), (44_000.0, 2000, 1000));
        assert!((1449..=1451).contains(&tally.kept), "{tally:?}");
        assert_eq!((tally.shed, tally.lost), (0.0, 0.0));
        // Half as many again found it full.
        tally.miss(1000, look);
        assert_eq!((tally.segments, tally.lost), (66_000.0, tally.kept as f64 / 2.0));
    }

    #[test]
    fn what_is_seen_stands_for_what_is_not_and_what_is_kept_for_what_is_shed() {
        let chances = Chances { chosen: ALWAYS / 10, kept: ALWAYS / 40, seen: ALWAYS / 4 };
        let (mut tally, mut look) = (Tally::default(), Look::default());
        for number in 0..1000_u32 {
            tally.enter(3_000, 2, chances, number * (u32::MAX / 1000), &mut look);
        }
        // 4,000 of 2 segments, one of 10 chosen, one of 40 kept.
        assert_eq!(tally.segments, 4000.0);
        assert!(tally.kept.abs_diff(200) <= 1 && (tally.shed - 600.0).abs() <= 2.0, "{tally:?}");
        let singles = (0..100).map(|_| tally.enter(60, 1, chances, 7, &mut look)).sum::<u32>();
        assert_eq!(singles, 100);
        assert!((tally.shed - 900.0).abs() <= 2.0, "{tally:?}");
    }
}
