//! Packets of this network namespace: one of so many of those that pass its interfaces, and those that the kernel drops.
//!
//! Two eBPF programs, where they may be loaded (`programs`): a filter at a packet socket that receives nothing, which chooses
//! and counts, and one at `kfree_skb`. Where they may not (no CAP_BPF, a container), packet sockets with classic filters
//! sample all the same (`classic`). The packets themselves come through rings, which are looked at when the owner has the
//! time. All privilege is needed at the start: interfaces that come later are sampled without any.

mod classic;
mod event;
mod programs;
mod sys;

use std::borrow::Cow;
use std::fmt;

use nix::errno::Errno;

use classic::Classic;
use programs::Programs;
use weir_kernel::Error;
use weir_kernel::capture;
use weir_kernel::links::Index;

pub use event::{Fate, HEADER, Packet};

/// What is to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Packets that pass: needs CAP_NET_RAW; CAP_BPF, too, for the better of two means.
    pub samples: bool,
    /// Packets that are dropped: needs CAP_BPF and CAP_PERFMON, and CAP_SYSLOG for the names of functions.
    pub drops: bool,
}

/// By what packets are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// An eBPF filter, which counts what it chooses from.
    Program,
    /// Classic filters at two packet sockets an interface.
    Classic,
}

/// Sampling and tracing that go on until this is dropped.
pub struct Packets {
    programs: Option<Programs>,
    classic: Option<Classic>,
}

/// What was counted of an interface since its sampling began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Packets that could have been sampled. A super-packet is as many as its segments.
    pub pool: u64,
    /// Samples due at the configured chance.
    pub chosen: u64,
    /// Of those, left out, for less was to be kept. [`Means::Classic`]: as many as those that were kept stand for.
    pub shed: u64,
    /// Of those, that found the ring full. [`Means::Classic`]: the share of samples in what found it full.
    pub lost: u64,
}

/// Packets dropped for one reason since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// Name of the reason without `SKB_DROP_REASON_`; empty before Linux 5.17, which has none.
    pub reason: String,
    /// Packets. A super-packet is as many as its segments.
    pub packets: u64,
    /// Buffers of which an event tells.
    pub told: u64,
}

impl Packets {
    /// Begins what the kernel permits of what is wanted, in this process's network namespace. What it does not permit comes
    /// second, a line each with the reason; `None`: it permits nothing.
    pub fn start(mut wanted: Wanted) -> (Option<Packets>, Vec<String>) {
        let mut refused = Vec::new();
        if wanted.samples
            && let Err(errno) = capture::sys::create()
        {
            let detail =
                if errno == Errno::EPERM { "operation not permitted (needs CAP_NET_RAW)" } else { errno.desc() };
            refused.push(Error::answer("open a packet socket", detail).to_string());
            wanted.samples = false;
        }
        let mut programs = None;
        if wanted.samples || wanted.drops {
            programs = Programs::load(wanted, &mut refused).map_err(|error| refused.push(error.to_string())).ok();
        }
        programs = programs.filter(|programs| programs.samples() || programs.drops());
        let mut classic = None;
        if wanted.samples && !programs.as_ref().is_some_and(Programs::samples) {
            classic = Classic::open().map_err(|error| refused.push(error.to_string())).ok();
        }
        let packets = Packets { programs, classic };
        let any = packets.programs.is_some() || packets.classic.is_some();
        (any.then_some(packets), refused)
    }

    /// By what packets are sampled; `None`: they are not.
    pub fn means(&self) -> Option<Means> {
        match &self.programs {
            Some(programs) if programs.samples() => Some(Means::Program),
            _ => self.classic.as_ref().map(|_| Means::Classic),
        }
    }

    /// Whether packets are sampled.
    pub fn samples(&self) -> bool {
        self.means().is_some()
    }

    /// Whether drops are told.
    pub fn drops(&self) -> bool {
        self.programs.as_ref().is_some_and(Programs::drops)
    }

    /// Whether eBPF programs run, whose maps are read by privilege before Linux 5.19.
    pub fn runs_programs(&self) -> bool {
        self.programs.is_some()
    }

    /// How many interfaces can be sampled at once.
    pub fn most_interfaces(&self) -> usize {
        self.classic.as_ref().map_or(programs::MOST_INTERFACES, |_| classic::MOST_INTERFACES)
    }

    /// Samples one of `rate` packets of an interface (at least 1), and keeps of these the share `kept`, from 0 to 1.
    /// `false`: so many interfaces are sampled already.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn sample(&mut self, interface: Index, rate: u32, kept: f64) -> Result<bool, Error> {
        let chance = (1_u64 << 32) / u64::from(rate.max(1));
        let kept = ((chance as f64 * kept) as u64).min(chance);
        match (&mut self.classic, &mut self.programs) {
            (Some(classic), _) => classic.sample(interface, chance, kept),
            (None, Some(programs)) => programs.sample(interface, chance, kept),
            (None, None) => Ok(true),
        }
    }

    /// Samples an interface no more; returns what was counted.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn leave(&mut self, interface: Index) -> Result<Sampled, Error> {
        match (&mut self.classic, &mut self.programs) {
            (Some(classic), _) => classic.leave(interface),
            (None, Some(programs)) => programs.leave(interface),
            (None, None) => Ok(Sampled::default()),
        }
    }

    /// What was counted of an interface since its sampling began; nothing where it is not sampled.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn sampled(&self, interface: Index) -> Result<Sampled, Error> {
        match (&self.classic, &self.programs) {
            (Some(classic), _) => classic.sampled(interface),
            (None, Some(programs)) => programs.sampled(interface),
            (None, None) => Ok(Sampled::default()),
        }
    }

    /// Has so many of the drops that come told by an event each, all others counted.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn tell_drops(&mut self, events: u32) -> Result<(), Error> {
        self.programs.as_mut().map_or(Ok(()), |programs| programs.tell_drops(events))
    }

    /// Packets dropped, by reason, and those that had no room to be counted by theirs.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn discarded(&self) -> Result<(Vec<Discarded>, u64), Error> {
        self.programs.as_ref().map_or(Ok(Default::default()), Programs::discarded)
    }

    /// The name of a reason, as in [`Discarded`]; those of subsystems, which the kernel does not name here, as a number.
    pub fn reason(&self, reason: u32) -> Cow<'_, str> {
        self.programs.as_ref().map_or(Cow::Borrowed(""), |programs| programs.reason(reason))
    }

    /// Looks up the functions at these addresses, all that are new at once, for the kernel's whole table is read for them, some
    /// 100 ms.
    pub fn learn_functions(&mut self, locations: impl IntoIterator<Item = u64>) {
        if let Some(programs) = &mut self.programs {
            programs.learn_functions(locations);
        }
    }

    /// The function that dropped a packet; empty: it is not known, or was not looked up.
    pub fn function(&self, location: u64) -> &str {
        self.programs.as_ref().map_or("", |programs| programs.function(location))
    }

    /// Takes the packets that have come, in order: no more than fit into the rings, for in a flood there is no end to them.
    ///
    /// # Errors
    /// If the kernel does not tell what found a ring full; what is in it was taken.
    pub fn take(&mut self, mut each: impl FnMut(Packet<'_>)) -> Result<(), Error> {
        if let Some(programs) = &mut self.programs {
            programs.take(&mut each);
        }
        self.classic.as_mut().map_or(Ok(()), |classic| classic.take(&mut each))
    }

    /// Samples no more and tells of no more drops; what has come can still be taken, what was counted be read.
    pub fn stop(&mut self) {
        if let Some(programs) = &mut self.programs {
            programs.stop();
        }
        if let Some(classic) = &mut self.classic {
            classic.stop();
        }
    }
}

impl fmt::Debug for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packets").field("means", &self.means()).field("drops", &self.drops()).finish_non_exhaustive()
    }
}
