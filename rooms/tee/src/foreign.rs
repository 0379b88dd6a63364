//! What reads text and bytes that others write, as far as it is not public anyway, for the targets in fuzz/ and nobody
//! else.

use crate::probe::ping;

/// Whether a message of ICMP answers this echo request.
pub fn echo(message: &[u8], token: u64, sequence: u16) -> [bool; 2] {
    [ping::Version::V4, ping::Version::V6].map(|version| ping::answers(message, version, token, sequence))
}
