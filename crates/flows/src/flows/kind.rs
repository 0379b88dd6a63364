//! What values of a key can be: a filter that compares it with anything else would hold for no packet, or for all, in silence.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use weir_program::config::did_you_mean;
use weir_wire::sflow::reason_name;

use super::expression::{Attribute, Expression, Function};
use super::field::Field;
use super::value::mac;

/// One form that values of a key have.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A whole number, no more than this.
    Number(u64),
    Truth,
    /// So many binary digits.
    Bits(u8),
    Mac,
    /// An address of one family, or of either, of which only so many bits are kept.
    Ip(Family, u8),
    /// The number of a class and that of a data source in it: `2.1`.
    ClassIndex,
    /// Half of an Ethernet address: six hexadecimal digits, in capitals.
    Oui,
    /// This one.
    Word(Cow<'static, str>),
    /// A reason's name in the specification; its number, where it has no name.
    Reason,
    /// Any text.
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
    Either,
}

/// Bits of an address of which none is taken off.
const ALL: u8 = 128;

/// Forms of keys, as their table names them.
macro_rules! forms {
    ($($name:ident: $($kind:expr),+;)*) => { $(pub(super) const $name: &[Kind] = &[$($kind),+];)* };
}

forms! {
    TEXT: Kind::Text;
    TRUTH: Kind::Truth;
    REASON: Kind::Reason;
    MAC: Kind::Mac;
    IP: Kind::Ip(Family::Either, ALL);
    IP4: Kind::Ip(Family::V4, ALL);
    IP6: Kind::Ip(Family::V6, ALL);
    BITS2: Kind::Bits(2);
    BITS3: Kind::Bits(3);
    BITS9: Kind::Bits(9);
    ONE: Kind::Number(1);
    UP_TO_7: Kind::Number(7);
    UP_TO_63: Kind::Number(63);
    OFFSET: Kind::Number(0x1fff);
    LABEL: Kind::Number(0xf_ffff);
    VNI: Kind::Number(0xff_ffff);
    U8: Kind::Number(0xff);
    U16: Kind::Number(0xffff);
    U32: Kind::Number(0xffff_ffff);
    SOURCE: Kind::Number(0xffff_ffff), Kind::ClassIndex;
    INPUT: Kind::Number(0xffff_ffff), word("internal");
    OUTPUT: Kind::Number(0xffff_ffff), word("internal"), word("multiple"), word("discard");
    WAYS: word("ingress"), word("egress");
    YES_NO: word("yes"), word("no");
}

const fn word(word: &'static str) -> Kind {
    Kind::Word(Cow::Borrowed(word))
}

/// The forms that values of an expression can have, but for null.
pub(super) fn kinds(expression: &Expression) -> Vec<Kind> {
    let all = |keys: &[Expression]| keys.iter().flat_map(kinds).collect::<Vec<_>>();
    let keys = &expression.keys;
    match &expression.function {
        Function::Field(field, _) => field.kinds().to_vec(),
        Function::Asn(Attribute::Short) => vec![Kind::Number(u32::MAX.into())],
        Function::Oui => vec![Kind::Oui],
        Function::Mask(bits) => {
            let masked = |kind| match kind {
                Kind::Ip(family, _) => Kind::Ip(family, *bits),
                other => other,
            };
            all(keys).into_iter().map(masked).collect()
        }
        Function::First(_, tokens) => tokens.iter().map(|token| Kind::Word(token.clone().into())).collect(),
        Function::Null(text) => [all(keys), vec![Kind::Word(text.clone().into())]].concat(),
        Function::Or => all(keys),
        Function::If(_) => all(&keys[1..]),
        Function::Range(..) | Function::Eq => vec![Kind::Truth],
        _ => vec![Kind::Text],
    }
}

/// Whether a key with these values can be the text that it is compared with; else one line with what to write.
pub(super) fn comparable(key: &str, of: &Expression, text: &str) -> Result<(), String> {
    let kinds = kinds(of);
    if text == "null" || kinds.iter().any(|kind| kind.holds(text)) {
        return Ok(());
    }
    let forms: Vec<String> = kinds.iter().map(ToString::to_string).collect();
    let words = kinds.iter().filter_map(|kind| if let Kind::Word(word) = kind { Some(&**word) } else { None });
    let hint = kinds.iter().find_map(|kind| kind.hint(of, text)).unwrap_or_else(|| did_you_mean(text, words));
    Err(format!("`{}` is {}, never `{}`{hint}", key.escape_debug(), forms.join(" or "), text.escape_debug()))
}

/// Whether values of an expression can be looked up as addresses.
pub(super) fn is_address(expression: &Expression) -> bool {
    kinds(expression).iter().any(|kind| matches!(kind, Kind::Ip(..)))
}

/// Whether they can be stations.
pub(super) fn is_mac(expression: &Expression) -> bool {
    kinds(expression).contains(&Kind::Mac)
}

/// Whether they can be counted with.
pub(super) fn is_number(expression: &Expression) -> bool {
    kinds(expression).iter().any(|kind| matches!(kind, Kind::Number(_) | Kind::Truth))
}

impl Kind {
    fn holds(&self, text: &str) -> bool {
        let number = || text.parse::<u64>().ok();
        match self {
            Self::Number(most) => number().is_some_and(|number| number <= *most),
            Self::Truth => matches!(text, "true" | "false"),
            Self::Bits(width) => {
                text.len() == usize::from(*width) && text.bytes().all(|bit| matches!(bit, b'0' | b'1'))
            }
            Self::Mac => mac(text).is_some(),
            Self::Ip(family, bits) => net(text).is_some_and(|net| {
                // A network holds what is kept of its addresses; an address is there only if nothing is taken off it.
                family.has(&net)
                    && net == net.trunc()
                    && (net.prefix_len() <= *bits || masked(net.addr(), *bits) == net.addr())
            }),
            Self::ClassIndex => text
                .split_once('.')
                .is_some_and(|(class, index)| [class, index].into_iter().all(|part| part.parse::<u32>().is_ok())),
            Self::Oui => text.len() == 6 && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'A'..=b'F')),
            Self::Word(word) => word == text,
            Self::Reason => match text.parse::<u32>() {
                Ok(number) => reason_name(number).is_none(),
                Err(_) => reasons().any(|name| name == text),
            },
            Self::Text => true,
        }
    }

    /// What to write instead, if that is clear.
    fn hint(&self, of: &Expression, text: &str) -> Option<String> {
        let write = |what: &dyn fmt::Display| Some(format!(": write {what}"));
        match self {
            Self::Number(_) => {
                let protocol = matches!(of.function, Function::Field(Field::IpProtocol | Field::Ip6NextHdr, _));
                let (_, number) = PROTOCOLS.iter().find(|(name, _)| protocol && text.eq_ignore_ascii_case(name))?;
                write(number)
            }
            Self::Ip(family, bits) => {
                let net = net(text).filter(|net| family.has(net))?;
                match net.prefix_len() == net.max_prefix_len() {
                    true => write(&masked(net.addr(), *bits)),
                    false => Some(format!(", for it has bits behind its prefix: write {}", net.trunc())),
                }
            }
            Self::Oui => {
                let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(6).collect();
                if digits.len() == 6 { write(&digits.to_uppercase()) } else { None }
            }
            Self::Reason => match text.parse::<u32>().ok().and_then(reason_name) {
                Some(name) => write(&name),
                None => Some(did_you_mean(text, reasons())),
            },
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(most) => write!(f, "a whole number from 0 to {most}"),
            Self::Truth => f.write_str("true or false"),
            Self::Bits(width) => write!(f, "{width} binary digits"),
            Self::Mac => f.write_str("an Ethernet address"),
            Self::Ip(Family::V4, ALL) => f.write_str("an IPv4 address"),
            Self::Ip(Family::V6, ALL) => f.write_str("an IPv6 address"),
            Self::Ip(Family::Either, ALL) => f.write_str("an IP address"),
            Self::Ip(family, bits) => write!(f, "{} of {bits} bits", Self::Ip(*family, ALL)),
            Self::ClassIndex => f.write_str("CLASS.INDEX"),
            Self::Oui => f.write_str("six hexadecimal digits in capitals"),
            Self::Word(word) => word.escape_debug().fmt(f),
            Self::Reason => f.write_str("the name of a reason"),
            Self::Text => f.write_str("a text"),
        }
    }
}

impl Family {
    fn has(self, net: &IpNet) -> bool {
        match self {
            Self::V4 => matches!(net, IpNet::V4(_)),
            Self::V6 => matches!(net, IpNet::V6(_)),
            Self::Either => true,
        }
    }
}

/// An address, or a network.
fn net(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().map(IpNet::from).ok())
}

/// An address with all bits behind the first so many 0.
pub(super) fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    let whole = IpNet::from(ip);
    IpNet::new(ip, bits.min(whole.max_prefix_len())).map_or(ip, |net| net.network())
}

/// Names of reasons, as the specification has them.
fn reasons() -> impl Iterator<Item = &'static str> {
    (0..REASONS).filter_map(reason_name)
}

/// Above the numbers of all reasons that have names.
const REASONS: u32 = 1024;

/// What people write for numbers of protocols (IANA).
const PROTOCOLS: [(&str, u8); 9] = [
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("esp", 50),
    ("icmp6", 58),
    ("ospf", 89),
    ("sctp", 132),
];

#[cfg(test)]
mod tests {
    use super::super::expression::list;
    use super::*;

    fn refused(key: &str, text: &str) -> Option<String> {
        comparable(key, &list(key).unwrap()[0], text).err()
    }

    #[test]
    fn what_can_be_is_taken() {
        for (key, texts) in [
            ("ipprotocol", &["6", "null"][..]),
            ("ipsource", &["10.0.0.1", "10.0.0.0/8", "0.0.0.0/0"]),
            ("ip6source", &["2001:DB8::1", "2001:db8::/32"]),
            ("agent", &["10.0.0.1", "::1"]),
            ("or:ipsource:ip6source", &["10.0.0.1", "::1", "fe80::/10"]),
            ("mask:ipsource:24", &["10.0.0.0", "10.0.0.0/24", "10.0.0.0/8"]),
            ("null:vlan:untagged", &["untagged", "5"]),
            ("if:[first:stack:.:ip:ip6]:ip:ipsource:ip6source", &["10.0.0.1", "::1"]),
            ("first:stack:.:ip:ip6", &["ip6"]),
            ("tcpflags", &["000000010"]),
            ("isunicast.1", &["true"]),
            ("inputifindex", &["5", "internal"]),
            ("datasource", &["5", "2.1"]),
            ("oui:macsource", &["00163E"]),
            ("macsource", &["00:16:3e:00:00:01", "00163E000001"]),
            ("reason", &["acl", "ttl_exceeded", "60000"]),
            ("asn:ipsource", &["64500"]),
            ("group:ipsource:sites", &["office"]),
            ("stack", &["eth.ip.tcp"]),
        ] {
            for text in texts {
                assert_eq!(refused(key, text), None, "{key}={text}");
            }
        }
    }

    #[test]
    fn what_can_never_be_is_refused_with_what_to_write() {
        for (key, text, expected) in [
            ("ipprotocol", "tcp", "`ipprotocol` is a whole number from 0 to 255, never `tcp`: write 6"),
            ("ip6nexthdr", "UDP", "`ip6nexthdr` is a whole number from 0 to 255, never `UDP`: write 17"),
            ("tcpdestinationport", "70000", "is a whole number from 0 to 65535, never `70000`"),
            ("ipsource", "2001:db8::1", "`ipsource` is an IPv4 address, never `2001:db8::1`"),
            ("ipsource", "10.0.0.1/8", "never `10.0.0.1/8`, for it has bits behind its prefix: write 10.0.0.0/8"),
            ("mask:ipsource:24", "10.0.0.7", "is an IPv4 address of 24 bits, never `10.0.0.7`: write 10.0.0.0"),
            ("oui:macsource", "00:16:3e", "is six hexadecimal digits in capitals, never `00:16:3e`: write 00163E"),
            ("direction", "in", "`direction` is ingress or egress, never `in`, did you mean `ingress`?"),
            ("ipflags", "1", "`ipflags` is 3 binary digits, never `1`"),
            ("isbroadcast", "1", "`isbroadcast` is true or false, never `1`"),
            ("reason", "258", "`reason` is the name of a reason, never `258`: write acl"),
            ("reason", "ttl_exeeded", "never `ttl_exeeded`, did you mean `ttl_exceeded`?"),
            ("first:stack:.:ip:ip6", "tcp", "`first:stack:.:ip:ip6` is ip or ip6, never `tcp`"),
            ("outputifindex", "drop", "is a whole number from 0 to 4294967295 or internal or multiple or discard"),
            ("vlan", "\u{1b}[2J", "never `\\u{1b}[2J`"),
        ] {
            let said = refused(key, text).unwrap_or_default();
            assert!(said.contains(expected) && !said.contains(char::is_control), "{key}={text}: {said}");
        }
    }
}
