//! Bytes as text.

/// Two digits a byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    bytes.iter().flat_map(digits).map(char::from).collect()
}

/// `98:03:9b:8f:b5:cc`
pub(super) fn mac(octets: [u8; 6]) -> String {
    octets.map(|octet| hex(&[octet])).join(":")
}

/// `2c6a1f8e-...`
pub(super) fn uuid(octets: [u8; 16]) -> String {
    [0..4, 4..6, 6..8, 8..10, 10..16].map(|part| hex(&octets[part])).join("-")
}
