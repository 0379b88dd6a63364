//! Which of the sockets that share an address gets a datagram, by what its payload says: as a classic BPF program that
//! the kernel runs over the payload (SO_ATTACH_REUSEPORT_CBPF, socket(7)), and the same in user space.

use libc::sock_filter;

/// A choice by words of the payload, 32 bits in network byte order: one tells its layout, others are the key. Datagrams of
/// one key go to one socket, whoever sent them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// Offset of the word that tells the layout, bytes.
    pub selector: u32,
    /// For each layout its word, and the offsets of its key, at least one. Payloads of another layout go to the first
    /// socket, and so do those that are too short.
    pub layouts: &'static [(u32, &'static [u32])],
}

impl Steering {
    /// Which of `sockets` (at least one) gets this payload, by the order in which they were bound.
    #[inline]
    pub fn choose(&self, payload: &[u8], sockets: u32) -> u32 {
        self.hash(payload).map_or(0, |hash| hash % sockets.max(1))
    }

    fn hash(&self, payload: &[u8]) -> Option<u32> {
        let word = |offset: u32| Some(u32::from_be_bytes(*payload.get(offset as usize..)?.first_chunk()?));
        let selector = word(self.selector)?;
        let (_, key) = self.layouts.iter().find(|(value, _)| *value == selector)?;
        key.iter().try_fold(0_u32, |hash, &offset| {
            let mixed = (hash ^ word(offset)?).wrapping_mul(FACTOR);
            Some(mixed ^ mixed >> SHIFT)
        })
    }

    /// The same for the kernel. A load beyond the payload ends a program with 0, and a result that no socket has makes the
    /// kernel fall back to its own hash (run_bpf_filter in net/core/sock_reuseport.c).
    pub(crate) fn program(&self, sockets: u32) -> Vec<sock_filter> {
        let mut program = vec![load(self.selector)];
        for (value, key) in self.layouts {
            let block = block(key, sockets.max(1));
            // Blocks are short: 8 instructions a word.
            let over = u8::try_from(block.len()).unwrap_or(u8::MAX);
            program.push(sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: over, k: *value });
            program.extend(block);
        }
        program.push(step(RETURN, 0));
        program
    }
}

/// The hash over the key, and its end.
fn block(key: &[u32], sockets: u32) -> Vec<sock_filter> {
    let mut block = Vec::new();
    for (index, &offset) in key.iter().enumerate() {
        if index > 0 {
            block.extend([step(STORE, 0), load(offset), step(LOAD_STORED, 0), step(XOR_X, 0)]);
        } else {
            block.push(load(offset));
        }
        block.extend([step(MULTIPLY, FACTOR), step(COPY_TO_X, 0), step(SHIFT_RIGHT, SHIFT), step(XOR_X, 0)]);
    }
    block.extend([step(MODULO, sockets), step(RETURN_A, 0)]);
    block
}

fn load(offset: u32) -> sock_filter {
    step(LOAD, offset)
}

fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// 2^32 over the golden ratio, odd: neighbouring keys come far apart.
const FACTOR: u32 = 0x9e37_79b1;

/// Brings high bits, which depend on all of the key, down to where the remainder looks.
const SHIFT: u32 = 15;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const STORE: u16 = libc::BPF_ST as u16;
const LOAD_STORED: u16 = (libc::BPF_LDX | libc::BPF_MEM) as u16;
const COPY_TO_X: u16 = (libc::BPF_MISC | libc::BPF_TAX) as u16;
const MULTIPLY: u16 = (libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K) as u16;
const SHIFT_RIGHT: u16 = (libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K) as u16;
const XOR_X: u16 = (libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X) as u16;
const MODULO: u16 = (libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const RETURN_A: u16 = (libc::BPF_RET | libc::BPF_A) as u16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Word 0: 1, key at 4; 2, key at 4 and 8.
    const STEERING: Steering = Steering { selector: 0, layouts: &[(1, &[4]), (2, &[4, 8])] };

    fn payload(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn neighbouring_keys_are_spread_evenly() {
        for sockets in [2, 3, 4, 7, 16] {
            for key in [0x0a00_0000_u32, 0xc0a8_0000, 0] {
                let mut counts = vec![0_u32; sockets as usize];
                (0..4096).for_each(|host| {
                    counts[STEERING.choose(&payload(&[1, key + host]), sockets) as usize] += 1;
                });
                let fair = 4096 / sockets;
                let uneven = counts.iter().any(|&count| count < fair * 3 / 4 || count > fair * 5 / 4);
                assert!(!uneven, "{sockets} sockets: {counts:?}");
            }
        }
    }

    #[test]
    fn what_has_no_key_goes_to_the_first() {
        for odd in [payload(&[]), payload(&[1]), payload(&[2, 7]), payload(&[3, 7, 7]), vec![0, 0, 0]] {
            assert_eq!(STEERING.choose(&odd, 5), 0);
        }
        // Each word of a key counts.
        let chosen = |last| STEERING.choose(&payload(&[2, 7, last]), 1 << 31);
        assert_ne!(chosen(1), chosen(2));
    }
}
