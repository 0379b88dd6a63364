//! NLRI: prefixes (RFC 4271, section 4.3) and FlowSpec rules (RFC 8955, section 4; RFC 8956 for IPv6).

use std::net::IpAddr;

use ipnet::IpNet;

use crate::model::{Ports, Rule, TcpFlags};

/// Its length in bits, then as many bytes as it needs.
pub(super) fn prefix(prefix: IpNet) -> Vec<u8> {
    let mut nlri = vec![prefix.prefix_len()];
    nlri.extend(pattern(prefix));
    nlri
}

/// The prefix that is written so; `None`: none is.
pub(super) fn unicast(is_v6: bool, nlri: &[u8]) -> Option<IpNet> {
    let (&length, pattern) = nlri.split_first()?;
    if pattern.len() != usize::from(length.div_ceil(8)) {
        return None;
    }
    let mut bytes = [0; 16];
    bytes.get_mut(..pattern.len())?.copy_from_slice(pattern);
    let [a, b, c, d, ..] = bytes;
    let address: IpAddr = if is_v6 { bytes.into() } else { [a, b, c, d].into() };
    IpNet::new(address, length).ok()
}

/// A rule: its length in bytes, then its components in the order of their types.
pub(super) fn rule(rule: &Rule) -> Result<Vec<u8>, String> {
    let destination = rule.destination.trunc();
    let mut components = Vec::new();
    put_prefix(&mut components, DESTINATION, destination);
    if let Some(source) = rule.source {
        if source.network().is_ipv6() != destination.network().is_ipv6() {
            return Err(format!("source {source} is of another family than destination {destination}"));
        }
        put_prefix(&mut components, SOURCE, source.trunc());
    }
    let equal = |&value: &u8| (EQUAL, u16::from(value));
    put(&mut components, PROTOCOL, &rule.protocols.iter().map(equal).collect::<Vec<_>>());
    put(&mut components, DESTINATION_PORT, &ranges(&rule.destination_ports)?);
    put(&mut components, SOURCE_PORT, &ranges(&rule.source_ports)?);
    if let Some(icmp) = rule.icmp {
        put(&mut components, ICMP_TYPE, &[equal(&icmp.kind)]);
        put(&mut components, ICMP_CODE, &icmp.code.iter().map(equal).collect::<Vec<_>>());
    }
    if let Some(flags) = rule.tcp_flags {
        put(&mut components, TCP_FLAGS, &bits(flags)?);
    }
    if let Some((first, last)) = rule.lengths {
        put(&mut components, LENGTH, &ranges(&[Ports(first, last)])?);
    }
    if let Some(dscp) = rule.dscp {
        if dscp > 63 {
            return Err(format!("{dscp} is no DSCP (write 0 to 63)"));
        }
        put(&mut components, DSCP, &[equal(&dscp)]);
    }
    if rule.fragment {
        put(&mut components, FRAGMENT, &[(ANY, u16::from(IS_A_FRAGMENT | FIRST_FRAGMENT))]);
    }
    let mut nlri = match u16::try_from(components.len()) {
        Ok(length @ ..0xf0) => vec![length.to_be_bytes()[1]],
        Ok(length @ ..0x1000) => (0xf000 | length).to_be_bytes().to_vec(),
        _ => return Err(format!("{} bytes are more than a rule may have (give fewer ports)", components.len())),
    };
    nlri.append(&mut components);
    Ok(nlri)
}

fn put_prefix(components: &mut Vec<u8>, kind: u8, prefix: IpNet) {
    components.extend([kind, prefix.prefix_len()]);
    if prefix.network().is_ipv6() {
        // The offset: from the first bit on.
        components.push(0);
    }
    components.extend(pattern(prefix));
}

/// The bytes of a prefix that say something.
fn pattern(prefix: IpNet) -> Vec<u8> {
    let length = usize::from(prefix.prefix_len().div_ceil(8));
    match prefix {
        IpNet::V4(prefix) => prefix.network().octets()[..length].to_vec(),
        IpNet::V6(prefix) => prefix.network().octets()[..length].to_vec(),
    }
}

/// Operators and values; nothing without any: what is not asked has no component.
fn put(components: &mut Vec<u8>, kind: u8, items: &[(u8, u16)]) {
    let Some(last) = items.len().checked_sub(1) else { return };
    components.push(kind);
    for (at, &(operator, value)) in items.iter().enumerate() {
        let operator = if at == last { operator | END } else { operator };
        match u8::try_from(value) {
            Ok(value) => components.extend([operator, value]),
            Err(_) => {
                components.push(operator | TWO_BYTES);
                components.extend(value.to_be_bytes());
            }
        }
    }
}

/// One of these ranges.
fn ranges(list: &[Ports]) -> Result<Vec<(u8, u16)>, String> {
    let mut items = Vec::new();
    for &Ports(first, last) in list {
        if first > last {
            return Err(format!("{first}-{last}: the last is less than the first"));
        }
        if first == last {
            items.push((EQUAL, first));
        } else {
            items.extend([(GREATER | EQUAL, first), (AND | LESS | EQUAL, last)]);
        }
    }
    Ok(items)
}

/// Those that must be set, and none of those that must not.
fn bits(flags: TcpFlags) -> Result<Vec<(u8, u16)>, String> {
    let TcpFlags { mask, value } = flags;
    if value & !mask != 0 {
        return Err(format!("TCP flags {value:#04x} of mask {mask:#04x}: no packet has flags that are not looked at"));
    }
    let mut items = Vec::new();
    if value != 0 {
        items.push((MATCH, u16::from(value)));
    }
    if mask & !value != 0 {
        items.push((if items.is_empty() { NOT } else { AND | NOT }, u16::from(mask & !value)));
    }
    Ok(items)
}

// Types of components.
const DESTINATION: u8 = 1;
const SOURCE: u8 = 2;
const PROTOCOL: u8 = 3;
const DESTINATION_PORT: u8 = 5;
const SOURCE_PORT: u8 = 6;
const ICMP_TYPE: u8 = 7;
const ICMP_CODE: u8 = 8;
const TCP_FLAGS: u8 = 9;
const LENGTH: u8 = 10;
const DSCP: u8 = 11;
const FRAGMENT: u8 = 12;

// Operators of all.
const END: u8 = 0x80;
const AND: u8 = 0x40;
const TWO_BYTES: u8 = 0x10;
// Of numbers.
const LESS: u8 = 0x04;
const GREATER: u8 = 0x02;
const EQUAL: u8 = 0x01;
// Of bits: any of these, all of these.
const ANY: u8 = 0x00;
const NOT: u8 = 0x02;
const MATCH: u8 = 0x01;

// What a packet is a fragment of.
const IS_A_FRAGMENT: u8 = 0x02;
const FIRST_FRAGMENT: u8 = 0x04;
