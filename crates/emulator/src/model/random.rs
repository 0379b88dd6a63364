//! Counter-based random numbers: a draw is a function of a key and an index, never of earlier draws.
//!
//! A key selects one SplitMix64 sequence (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
//! generators"), and the index a place in it. Any change to this file changes all drop lists; a test pins the values.

use super::{Alteration, Key, Probability, Way};

/// Selects a family of random sequences: a direction's, or one flow's in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamKey(u64);

/// The purpose of a draw. Each purpose has its own sequence, so that enabling one impairment does not change the
/// others' choices.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Loss,
    ChainStart,
    ChainStep,
    Duplicate,
    /// Whether a packet has this alteration.
    Alteration(Alteration),
    /// The choice of what to alter.
    Choice(Alteration),
    Variation,
    VariationAngle,
    Reorder,
    CopyVariation,
    CopyVariationAngle,
    CopyReorder,
}

/// An event of fixed probability.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chance {
    /// A draw below this is a hit: the probability times 2^64, rounded up.
    below: u64,
    /// Probability 1, which `below` cannot express.
    always: bool,
}

impl StreamKey {
    /// The key of a direction.
    pub(super) fn of(key: Key) -> Self {
        let way = match key.direction {
            Way::Forward => 1,
            Way::Backward => 2,
        };
        StreamKey(0).with(key.seed).with(u64::from(key.link)).with(way)
    }

    /// The key of this family's member `word`; different words give different keys.
    pub(super) fn with(self, word: u64) -> Self {
        StreamKey(mix(self.0.wrapping_add(GAMMA) ^ word))
    }

    /// 64 uniform bits for `purpose` at place `index`.
    #[inline]
    pub(super) fn draw(self, purpose: Purpose, index: u64) -> u64 {
        let stream = self.with(purpose.sequence());
        mix(stream.0.wrapping_add(index.wrapping_mul(GAMMA)))
    }

    /// The key as a number, for hash tables.
    pub(super) fn bits(self) -> u64 {
        self.0
    }
}

impl Purpose {
    /// Its unique number; those from 13 on are free.
    fn sequence(self) -> u64 {
        match self {
            Purpose::Loss => 1,
            Purpose::ChainStart => 2,
            Purpose::ChainStep => 3,
            Purpose::Duplicate => 4,
            Purpose::Alteration(kind) => kind.sequence(),
            Purpose::Choice(kind) => kind.sequence() + 1,
            Purpose::Variation => 7,
            Purpose::VariationAngle => 8,
            Purpose::Reorder => 9,
            Purpose::CopyVariation => 10,
            Purpose::CopyVariationAngle => 11,
            Purpose::CopyReorder => 12,
        }
    }
}

impl Chance {
    /// Hits with `probability`; below 0 or NaN never, above 1 always.
    pub(super) fn new(probability: Probability) -> Self {
        Chance { below: (probability * TWO_TO_64).ceil() as u64, always: probability >= 1.0 }
    }

    /// Whether it can never hit.
    #[inline]
    pub(super) fn is_never(self) -> bool {
        self.below == 0
    }

    /// Whether it hits at place `index`.
    #[inline]
    pub(super) fn hits(self, key: StreamKey, purpose: Purpose, index: u64) -> bool {
        !self.is_never() && (self.always || key.draw(purpose, index) < self.below)
    }
}

/// A draw as a number in (0, 1], in steps of 2^-53.
pub(super) fn unit(draw: u64) -> f64 {
    ((draw >> 11) + 1) as f64 / (1u64 << 53) as f64
}

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

/// SplitMix64's finaliser (Stafford's variant 13); a bijection.
#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64 seeded with 0, as published.
    #[test]
    fn mix_is_splitmix64() {
        let outputs: Vec<u64> = (1..=3).map(|index: u64| mix(index.wrapping_mul(GAMMA))).collect();
        assert_eq!(outputs, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }

    /// If this fails, every seed means something else than before.
    #[test]
    fn draws_stay_the_same_for_ever() {
        let key = |seed, link, direction| StreamKey::of(Key { seed, link, direction });
        let draws = [
            key(0, 0, Way::Forward).draw(Purpose::Loss, 0),
            key(0, 0, Way::Backward).draw(Purpose::Loss, 0),
            key(0, 1, Way::Forward).draw(Purpose::Loss, 0),
            key(1, 0, Way::Forward).draw(Purpose::Loss, 0),
            key(1, 0, Way::Forward).draw(Purpose::Duplicate, 0),
            key(1, 0, Way::Forward).draw(Purpose::Loss, u64::MAX),
            key(1, 0, Way::Forward).with(7).draw(Purpose::Loss, 0),
        ];
        insta::assert_snapshot!(draws.map(|draw| format!("{draw:016x}")).join("\n"));
    }

    /// Otherwise two impairments would choose the same packets.
    #[test]
    fn no_two_purposes_share_a_sequence() {
        let others = [
            Purpose::Loss,
            Purpose::ChainStart,
            Purpose::ChainStep,
            Purpose::Duplicate,
            Purpose::Variation,
            Purpose::VariationAngle,
            Purpose::Reorder,
            Purpose::CopyVariation,
            Purpose::CopyVariationAngle,
            Purpose::CopyReorder,
        ];
        let alterations = Alteration::ALL.map(|kind| [Purpose::Alteration(kind), Purpose::Choice(kind)]);
        let mut sequences: Vec<u64> =
            others.into_iter().chain(alterations.into_iter().flatten()).map(Purpose::sequence).collect();
        sequences.sort_unstable();
        assert!(sequences.is_sorted_by(|one, next| one < next), "{sequences:?}");
    }

    #[test]
    fn chance_is_exact_at_its_ends() {
        let key = StreamKey(1);
        let hits =
            |probability| (0..1000).filter(|&index| Chance::new(probability).hits(key, Purpose::Loss, index)).count();
        assert_eq!(hits(0.0), 0);
        assert_eq!(hits(1.0), 1000);
        assert_eq!(Chance::new(0.5).below, 1 << 63);
        assert_eq!(Chance::new(f64::MIN_POSITIVE).below, 1);
        assert!(!Chance::new(1.0 - f64::EPSILON).always);
    }

    #[test]
    fn chance_of_nonsense_is_the_nearest_sense() {
        assert!(Chance::new(f64::NAN).is_never());
        assert!(Chance::new(-0.5).is_never());
        assert!(Chance::new(1.5).always);
    }

    #[test]
    fn unit_is_never_0_and_at_most_1() {
        assert_eq!(unit(0), 1.0 / 9_007_199_254_740_992.0);
        assert_eq!(unit(u64::MAX), 1.0);
    }
}
