//! Totals over counters that wrap around or begin again.

/// How wide a counter is in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Wraps at 2^32: a socket's drops, softnet, a qdisc's drops, interrupts by line, softirqs.
    Bits32,
    /// Never wraps.
    Bits64,
}

/// What a counter has counted since it was first read.
///
/// A counter of 32 bits that goes from near its top to near 0 has wrapped. One that goes back otherwise has begun again:
/// its interface was made anew, its module was loaded again. Then what it counted between the last reading and its end
/// is not known, and the total is a lower bound: [`Running::resets`] says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Running {
    last: Option<u64>,
    total: u64,
    resets: u32,
}

impl Running {
    /// A total of 0, before the first reading.
    pub fn new() -> Running {
        Running::default()
    }

    /// A total that counts from a value known already: 0 for what came into being after the start.
    pub fn from(value: u64) -> Running {
        Running { last: Some(value), ..Running::default() }
    }

    /// Takes a reading and returns the total since the first one, which itself counts nothing.
    pub fn add(&mut self, value: u64, width: Width) -> u64 {
        let last = self.last.replace(value).unwrap_or(value);
        self.total += if value >= last {
            value - last
        } else if width == Width::Bits32 && last >= NEAR_TOP && value < NEAR_BOTTOM {
            (value + (1 << 32)).saturating_sub(last)
        } else {
            self.resets += 1;
            value
        };
        self.total
    }

    /// The total.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How often the counter began again; unless 0, the total is a lower bound.
    pub fn resets(&self) -> u32 {
        self.resets
    }
}

/// A counter that moves by more than a quarter of its range between two readings cannot be followed.
const NEAR_TOP: u64 = 3 << 30;
const NEAR_BOTTOM: u64 = 1 << 30;
