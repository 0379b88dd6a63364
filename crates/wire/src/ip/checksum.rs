//! The Internet checksum (RFC 1071) of bytes that come in pieces.

/// A one's complement sum of 16-bit words. Pieces of any length may be added one after another: the sum is that of their
/// concatenation, padded with a zero byte if its length is odd.
///
/// Words are added as this machine reads them, 64 bits at a time, and put into network order at the end: the sum does
/// not depend on byte order (RFC 1071 section 2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum {
    /// Below 2^16, whatever was added.
    sum: u64,
    /// Whether an odd number of bytes was added.
    odd: bool,
}

impl Checksum {
    /// The sum of no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next piece.
    pub fn add(&mut self, piece: &[u8]) {
        let sum = fold(sum_words(piece));
        // What begins in the middle of a word has its bytes in the other halves (RFC 1071 section 2 (B)).
        let sum = if self.odd { u64::from((sum as u16).swap_bytes()) } else { sum };
        self.sum = fold(self.sum + sum);
        self.odd ^= piece.len() % 2 == 1;
    }

    /// Replaces a word, as it is read in network order, that lay at an even place (RFC 1624).
    pub fn replace(&mut self, old: u16, new: u16) {
        self.sum = fold(self.sum + u64::from((!old).to_be()) + u64::from(new.to_be()));
    }

    /// The checksum: the complement of the sum, as a number to be written in network order.
    pub fn finish(self) -> u16 {
        !u16::from_be(self.sum as u16)
    }

    /// As [`Checksum::finish`], for the field of a UDP header: there 0 says that there is no checksum, and its other form, all
    /// ones, is sent instead (RFC 768, RFC 8200 section 8.1).
    pub fn finish_udp(self) -> u16 {
        match self.finish() {
            0 => 0xffff,
            checksum => checksum,
        }
    }
}

/// Sums native words of 64 bits in 128, which takes two instructions a word (add, add with carry), and folds that once.
fn sum_words(piece: &[u8]) -> u64 {
    let (blocks, rest) = piece.as_chunks::<BLOCK>();
    // Two sums, so that one addition need not wait for the other's carry.
    let (mut left, mut right) = (0, 0);
    for block in blocks {
        let [a, b, c, d] = words(block);
        left += a + b;
        right += c + d;
    }
    let mut last = [0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    let sum: u128 = left + right + words(&last).iter().sum::<u128>();
    let (carries, low) = ((sum >> 64) as u64, sum as u64);
    carries + (low >> 32) + (low & 0xffff_ffff)
}

fn words(block: &[u8; BLOCK]) -> [u128; 4] {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&block[at..at + 8]);
        u128::from(u64::from_ne_bytes(word))
    };
    [word(0), word(8), word(16), word(24)]
}

/// The same sum in 16 bits, carries added in. Of a sum that is not 0 it is never 0.
fn fold(mut sum: u64) -> u64 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// Bytes that are summed at once.
const BLOCK: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// As RFC 1071 section 4.1 writes it, one word at a time.
    fn slow(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) * 256 + pair.get(1).map_or(0, |&low| u32::from(low));
            if sum > 0xffff {
                sum -= 0xffff;
            }
        }
        0xffff - sum as u16
    }

    fn quick(pieces: &[&[u8]]) -> u16 {
        let mut checksum = Checksum::new();
        for piece in pieces {
            checksum.add(piece);
        }
        checksum.finish()
    }

    #[test]
    fn the_example_of_rfc_1071() {
        // Section 3: the words 0001 f203 f4f5 f6f7 sum to ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(quick(&[&bytes]), !0xddf2);
        // The same bytes cut between and within words.
        assert_eq!(quick(&[&bytes[..3], &[], &bytes[3..4], &bytes[4..7], &bytes[7..]]), !0xddf2);
        assert_eq!(quick(&[]), 0xffff);
    }

    #[test]
    fn a_word_is_replaced() {
        let sum = |bytes: &[u8]| {
            let mut sum = Checksum::new();
            sum.add(bytes);
            sum
        };
        for (old, new) in [(0x1234, 0x0034), (0, 0xffff), (0xffff, 0x0001), (0x8000, 0x8000)] {
            let bytes = |word: u16| [&[0xab, 0xcd][..], &word.to_be_bytes(), &[0x55]].concat();
            let mut replaced = sum(&bytes(old));
            replaced.replace(old, new);
            assert_eq!(replaced.finish(), slow(&bytes(new)), "{old:#x} by {new:#x}");
        }
    }

    #[test]
    fn the_greatest_sums_fold() {
        assert_eq!(quick(&[&[0xff; 65_535]]), slow(&[0xff; 65_535]));
        assert_eq!(quick(&[&[0xff; 3], &[0xff; 65_533], &[0xff; 1]]), slow(&[0xff; 65_537]));
        assert_eq!(quick(&[&[0; 100]]), 0xffff);
    }

    proptest! {
        #[test]
        fn pieces_sum_as_their_concatenation(pieces in vec(vec(any::<u8>(), 0..200), 0..8)) {
            let slices: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(quick(&slices), slow(&pieces.concat()));
        }
    }
}
