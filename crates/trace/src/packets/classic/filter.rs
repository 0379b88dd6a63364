//! Classic BPF programs (Documentation/networking/filter.rst) over frames of an interface.

use libc::sock_filter;

use crate::packets::HEADER;

/// A chance of 2^32 that is none.
pub(super) const ALWAYS: u64 = 1 << 32;

/// Bytes of a frame that is no super-packet: 1,500, an Ethernet header, two tags. What is longer is looked at, and may be a
/// single one all the same (jumbo frames); a super-packet of few small segments that is shorter is taken for one packet.
pub(super) const LONGEST: u32 = 1522;

/// Lets the first bytes of a frame pass at a chance, of a longer one at another.
pub(super) fn choose(frame: u64, longer: u64) -> Vec<sock_filter> {
    let single = by_chance(frame);
    let over = single.len() as u8;
    let mut program = vec![step(LOAD_LENGTH, 0), sock_filter { code: JUMP_IF_GREATER, jt: over, jf: 0, k: LONGEST }];
    program.extend(single);
    program.extend(by_chance(longer));
    program
}

/// Lets all pass, of which a byte would be kept.
pub(super) fn count() -> Vec<sock_filter> {
    vec![step(RETURN, 1)]
}

/// Lets nothing pass.
pub(super) fn refuse() -> Vec<sock_filter> {
    vec![step(RETURN, 0)]
}

fn by_chance(chance: u64) -> Vec<sock_filter> {
    let pass = step(RETURN, HEADER as u32);
    match u32::try_from(chance) {
        Ok(chance) => vec![
            step(LOAD, (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32),
            sock_filter { code: JUMP_IF_NOT_LESS, jt: 1, jf: 0, k: chance },
            pass,
            step(RETURN, 0),
        ],
        Err(_) => vec![pass],
    }
}

fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const LOAD_LENGTH: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_LEN) as u16;
const JUMP_IF_GREATER: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
const JUMP_IF_NOT_LESS: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
