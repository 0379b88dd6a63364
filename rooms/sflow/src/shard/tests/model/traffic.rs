//! The packets of an interface, of which only those that are sampled are drawn one by one.

use rand_distr::{Binomial, Distribution, Gamma};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use super::Selection;

/// Packets of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Class {
    /// Share of the packets.
    pub(crate) share: f64,
    /// Bytes of a frame, its check sequence included, as `frame_length` and `ifInOctets` count them.
    pub(crate) frame_length: u32,
    /// The UDP port that they go to, by which they are told apart.
    pub(crate) port: u16,
}

/// The kinds of packets of each interface: most are small, most bytes are in large ones.
pub(crate) const CLASSES: [Class; 5] = [
    Class { share: 0.3, frame_length: 68, port: 53 },
    Class { share: 0.3, frame_length: 262, port: 5004 },
    Class { share: 0.2, frame_length: 594, port: 443 },
    Class { share: 0.1, frame_length: 1470, port: 8801 },
    Class { share: 0.1, frame_length: 1518, port: 4789 },
];

/// What has passed an interface since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// By class.
    pub(crate) frames: [u64; CLASSES.len()],
}

impl Totals {
    /// Frames of all classes.
    pub(crate) fn packets(&self) -> u64 {
        self.frames.iter().sum()
    }

    /// Bytes of all classes.
    pub(crate) fn bytes(&self) -> u64 {
        self.frames.iter().zip(CLASSES).map(|(frames, class)| frames * u64::from(class.frame_length)).sum()
    }

    /// What came since `earlier`.
    pub(crate) fn since(&self, earlier: &Totals) -> Totals {
        Totals { frames: std::array::from_fn(|class| self.frames[class] - earlier.frames[class]) }
    }
}

/// A packet that was sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampled {
    /// When, in seconds since the start.
    pub(crate) at: f64,
    /// Index of its class.
    pub(crate) class: usize,
    /// All packets up to this one, itself included.
    pub(crate) totals: Totals,
}

/// A Poisson process of packets, each of a class at random, with a load that changes every second between a half and one
/// and a half.
///
/// What lies between two samples is drawn at once: their time is a gamma variate, their classes are a multinomial one.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    random: Pcg64,
    sampling_rate: u32,
    selection: Selection,
    /// Packets a second at a load of 1.
    rate: f64,
    /// The load of this second.
    load: f64,
    /// When it ends.
    second: f64,
    /// The last sample that was taken; before the first one the start.
    last: Sampled,
    next: Sampled,
}

impl Traffic {
    /// So many packets a second on average, of which one in `sampling_rate` is sampled. Streams of one seed are independent.
    pub(crate) fn new(
        packets_per_second: f64,
        sampling_rate: u32,
        selection: Selection,
        seed: u64,
        stream: u64,
    ) -> Self {
        let start = Sampled { at: 0.0, class: 0, totals: Totals::default() };
        let mut traffic = Self {
            random: Pcg64::new(u128::from(seed), u128::from(stream)),
            sampling_rate: sampling_rate.max(1),
            selection,
            rate: packets_per_second.max(f64::MIN_POSITIVE),
            load: 1.0,
            second: 0.0,
            last: start,
            next: start,
        };
        traffic.next = traffic.draw();
        traffic
    }

    /// The next sample.
    pub(crate) fn next(&self) -> &Sampled {
        &self.next
    }

    /// Takes it, and draws the one behind it.
    pub(crate) fn take(&mut self) -> Sampled {
        self.last = self.next;
        self.next = self.draw();
        self.last
    }

    /// What has passed up to a time between the last sample and the next one. The packets between them lie evenly.
    pub(crate) fn totals_at(&self, at: f64) -> Totals {
        if at >= self.next.at {
            return self.next.totals;
        }
        let part = ((at - self.last.at) / (self.next.at - self.last.at)).max(0.0);
        let mut between = self.next.totals.since(&self.last.totals);
        between.frames[self.next.class] -= 1;
        let frames = |class: usize| self.last.totals.frames[class] + (between.frames[class] as f64 * part) as u64;
        Totals { frames: std::array::from_fn(frames) }
    }

    fn draw(&mut self) -> Sampled {
        let skip = self.skip();
        let work = gamma(skip, &mut self.random) / self.rate;
        let at = self.elapse(self.next.at, work);
        let mut totals = self.next.totals;
        let mut left = skip as u64 - 1;
        let mut share_left = 1.0;
        for (class, of_class) in CLASSES.iter().zip(&mut totals.frames) {
            let share = if share_left > class.share { class.share / share_left } else { 1.0 };
            let frames = binomial(left, share, &mut self.random);
            *of_class += frames;
            left -= frames;
            share_left -= class.share;
        }
        let class = self.class();
        totals.frames[class] += 1;
        Sampled { at, class, totals }
    }

    /// Packets up to the next sample, itself included.
    fn skip(&mut self) -> f64 {
        let rate = f64::from(self.sampling_rate);
        match self.selection {
            Selection::Skip => 1.0 + (self.uniform() * (2.0 * rate - 1.0)).floor(),
            // By the inverse of a geometric distribution.
            Selection::Chance if rate > 1.0 => 1.0 + ((-self.uniform()).ln_1p() / (-1.0 / rate).ln_1p()).floor(),
            Selection::Chance | Selection::EveryNth => rate,
        }
    }

    /// When what takes so many seconds at a load of 1 is over.
    fn elapse(&mut self, mut at: f64, mut work: f64) -> f64 {
        loop {
            let room = (self.second - at) * self.load;
            if work <= room {
                return at + work / self.load;
            }
            work -= room.max(0.0);
            at = self.second;
            self.second += 1.0;
            self.load = 0.5 + self.uniform();
        }
    }

    fn class(&mut self) -> usize {
        let mut point = self.uniform();
        let passed = |class: &Class| {
            point -= class.share;
            point < 0.0
        };
        CLASSES.iter().position(passed).unwrap_or(CLASSES.len() - 1)
    }

    /// From 0 to below 1.
    fn uniform(&mut self) -> f64 {
        part(self.random.next_u64())
    }
}

/// From 0 to below 1, by a seed and two numbers alone.
pub(super) fn share(seed: u64, [a, b]: [u64; 2]) -> f64 {
    let mut random = Pcg64::new(u128::from(seed) << 64 | u128::from(b), u128::from(a));
    // The first numbers of neighbouring seeds are alike.
    let _ = random.next_u64();
    part(random.next_u64())
}

/// Of 64 random bits as many as fit into a number from 0 to below 1.
fn part(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// The time of so many events of a Poisson process of rate 1.
fn gamma(events: f64, random: &mut Pcg64) -> f64 {
    Gamma::new(events, 1.0).map_or(events, |gamma| gamma.sample(random))
}

/// How many of so many are of a kind that has this share.
fn binomial(of: u64, share: f64, random: &mut Pcg64) -> u64 {
    Binomial::new(of, share).map_or(of, |binomial| binomial.sample(random))
}
