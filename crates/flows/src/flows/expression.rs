//! Keys and functions of keys: `ipsource`, `macsource.1`, `or:ipsource:ip6source`, `if:[first:stack:.:ip:ip6]:ip:a:b`.

use super::field::Field;
use super::kind::{comparable, is_address, is_mac, is_number};
use super::syntax::{self, Piece, Syntax};
use super::value::Literal;

/// A key, or a function of keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Expression {
    pub(super) function: Function,
    /// The expressions that it is made of.
    pub(super) keys: Vec<Expression>,
}

/// What is made of keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Function {
    /// Of none: a key of the packet; of headers within headers the outermost is 0.
    Field(Field, u8),
    /// The first set of groups that knows the address.
    Group(Vec<String>),
    Country(Attribute),
    Asn(Attribute),
    /// The half of an Ethernet address that names who made the station.
    Oui,
    /// The address with all bits from here on 0.
    Mask(u8),
    /// So many tokens from the start.
    Prefix(String, usize),
    /// So many tokens from the end.
    Suffix(String, usize),
    /// A text in place of nothing.
    Null(String),
    /// The first that is there.
    Or,
    /// Whether a number lies within.
    Range(u64, u64),
    /// The first of its tokens that is one of these.
    First(String, Vec<String>),
    /// All, if all are there, with a text between them.
    Concat(String),
    /// Whether both are there and the same.
    Eq,
    /// The second if the first is this text, else the third.
    If(Literal),
    IfName,
}

/// What of a country or an AS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Attribute {
    /// ISO code, or AS number.
    Short,
    /// Name.
    Name,
    /// Both, with a dash between them.
    Both,
}

/// Keys separated by commas; empty: none.
///
/// # Errors
/// Of the first key that is none.
pub(super) fn list(text: &str) -> Result<Vec<Expression>, Syntax> {
    syntax::list(text, ("keys", MAX_KEYS), parse)
}

/// One key or function.
///
/// # Errors
/// Unknown keys and functions, arguments that are missing or too many, brackets without their other.
pub(super) fn parse(piece: Piece<'_>) -> Result<Expression, Syntax> {
    nested(piece, 0)
}

fn nested(piece: Piece<'_>, depth: usize) -> Result<Expression, Syntax> {
    let piece = piece.unwrapped();
    if depth > MAX_DEPTH {
        return Err(Syntax::new(piece.at, format!("functions within functions: at most {MAX_DEPTH} deep")));
    }
    let parts = piece.split(':')?;
    match parts.as_slice() {
        [] => Err(Syntax::new(piece.at, "a key is missing")),
        [name] => field(*name),
        [function, arguments @ ..] => call(*function, arguments, piece.at + piece.text.len(), depth + 1),
    }
}

fn field(name: Piece<'_>) -> Result<Expression, Syntax> {
    let unknown = || match FUNCTIONS.iter().find(|(function, _)| *function == name.text) {
        Some((function, usage)) => Syntax::new(name.at, format!("`{function}` is a function: write {usage}")),
        None if name.text.is_empty() => Syntax::new(name.at, "a key is missing"),
        None => Syntax::unknown(name.at, "key", name.text, Field::all().map(|(name, _)| name)),
    };
    let (plain, occurrence) = match name.text.rsplit_once('.') {
        Some((plain, number)) => (plain, number.parse().map_err(|_| unknown())?),
        None => (name.text, 0),
    };
    let field = Field::from_name(plain).ok_or_else(unknown)?;
    if occurrence > 0 && !field.is_of_header() {
        return Err(Syntax::new(name.at, format!("`{plain}` occurs once: write it without .{occurrence}")));
    }
    Ok(Expression { function: Function::Field(field, occurrence), keys: Vec::new() })
}

/// `end`: where it ends.
fn call(function: Piece<'_>, rest: &[Piece<'_>], end: usize, depth: usize) -> Result<Expression, Syntax> {
    let usage = FUNCTIONS.iter().find(|(name, _)| *name == function.text).map(|(_, usage)| *usage);
    let Some(usage) = usage else {
        let (at, name) = (function.at, function.text);
        return Err(match ABSENT.iter().find(|(absent, _)| *absent == name) {
            Some((_, why)) => Syntax::new(at, format!("no function `{name}` here: {why}")),
            None => Syntax::unknown(at, "function", name, FUNCTIONS.iter().map(|(name, _)| *name)),
        });
    };
    let mut arguments = Arguments { rest, end, usage, depth };
    let (keys, function) = match function.text {
        "group" => (vec![arguments.address()?], Function::Group(arguments.texts()?)),
        "country" => (vec![arguments.address()?], Function::Country(arguments.attribute("code")?)),
        "asn" => (vec![arguments.address()?], Function::Asn(arguments.attribute("number")?)),
        "oui" => {
            let key = arguments.of("an Ethernet address", is_mac)?;
            if let Some(attribute) = arguments.take().filter(|attribute| attribute.text != "prefix") {
                return Err(Syntax::new(attribute.at, "only the prefix is known: write oui:KEY"));
            }
            (vec![key], Function::Oui)
        }
        "mask" => (vec![arguments.address()?], Function::Mask(arguments.number(32)? as u8)),
        "mask6" => (vec![arguments.address()?], Function::Mask(arguments.number(128)? as u8)),
        "prefix" => {
            (vec![arguments.key()?], Function::Prefix(arguments.separator()?, arguments.number(1000)? as usize))
        }
        "suffix" => {
            (vec![arguments.key()?], Function::Suffix(arguments.separator()?, arguments.number(1000)? as usize))
        }
        "null" => (vec![arguments.key()?], Function::Null(arguments.next()?.literal())),
        "or" => (arguments.keys(2)?, Function::Or),
        "range" => {
            let (key, least) = (arguments.of("a number", is_number)?, arguments.number(u64::MAX)?);
            let end = arguments.rest.first().map(|most| most.at);
            let most = if end.is_some() { arguments.number(u64::MAX)? } else { u64::MAX };
            if let Some(at) = end.filter(|_| most < least) {
                return Err(Syntax::new(at, format!("{least} to {most} holds no number: write the smaller one first")));
            }
            (vec![key], Function::Range(least, most))
        }
        "first" => (vec![arguments.key()?], Function::First(arguments.separator()?, arguments.texts()?)),
        "concat" => {
            let separator = arguments.next()?.literal();
            (arguments.keys(1)?, Function::Concat(separator))
        }
        "eq" => (vec![arguments.key()?, arguments.key()?], Function::Eq),
        "if" => {
            let (name, key) = (arguments.rest.first().map_or("", |key| key.text), arguments.key()?);
            let piece = arguments.next()?;
            let text = piece.literal();
            comparable(name, &key, &text).map_err(|message| Syntax::new(piece.at, message))?;
            (vec![key, arguments.key()?, arguments.key()?], Function::If(Literal::new(&text)))
        }
        // All other names of the table are handled above.
        _ => (vec![arguments.of("the number of an interface", is_number)?], Function::IfName),
    };
    match arguments.take() {
        Some(extra) => Err(Syntax::new(extra.at, format!("too many arguments: write {usage}"))),
        None => Ok(Expression { function, keys }),
    }
}

/// What stands behind the name of a function.
struct Arguments<'a> {
    rest: &'a [Piece<'a>],
    /// Where they end.
    end: usize,
    /// How the function is written.
    usage: &'static str,
    depth: usize,
}

impl<'a> Arguments<'a> {
    fn take(&mut self) -> Option<Piece<'a>> {
        self.rest.split_off_first().copied()
    }

    fn next(&mut self) -> Result<Piece<'a>, Syntax> {
        self.take().ok_or_else(|| self.few())
    }

    fn few(&self) -> Syntax {
        Syntax::new(self.end, format!("too few arguments: write {}", self.usage))
    }

    fn key(&mut self) -> Result<Expression, Syntax> {
        nested(self.next()?, self.depth)
    }

    /// A key whose values can be of use to the function.
    fn of(&mut self, what: &str, can_be: fn(&Expression) -> bool) -> Result<Expression, Syntax> {
        let piece = self.next()?;
        let key = nested(piece, self.depth)?;
        if can_be(&key) {
            return Ok(key);
        }
        Err(Syntax::new(piece.at, format!("`{}` is never {what}", piece.text.escape_debug())))
    }

    fn address(&mut self) -> Result<Expression, Syntax> {
        self.of("an IP address", is_address)
    }

    /// All that are left, at least so many.
    fn keys(&mut self, least: usize) -> Result<Vec<Expression>, Syntax> {
        if self.rest.len() < least {
            return Err(self.few());
        }
        let rest = std::mem::take(&mut self.rest);
        if let Some(extra) = rest.get(MAX_KEYS) {
            return Err(Syntax::new(extra.at, format!("at most {MAX_KEYS} keys")));
        }
        rest.iter().map(|piece| nested(*piece, self.depth)).collect()
    }

    /// All that are left, one at least.
    fn texts(&mut self) -> Result<Vec<String>, Syntax> {
        let first = self.next()?;
        let rest = std::mem::take(&mut self.rest);
        Ok([&[first][..], rest].concat().into_iter().map(Piece::literal).collect())
    }

    fn number(&mut self, most: u64) -> Result<u64, Syntax> {
        let piece = self.next()?;
        let number = piece.text.parse().ok().filter(|&number| number <= most);
        number.ok_or_else(|| match most {
            u64::MAX => Syntax::new(piece.at, "write a whole number from 0"),
            _ => Syntax::new(piece.at, format!("write a whole number from 0 to {most}")),
        })
    }

    fn separator(&mut self) -> Result<String, Syntax> {
        let piece = self.next()?;
        let text = piece.literal();
        if text.is_empty() { Err(Syntax::new(piece.at, "a separator is missing")) } else { Ok(text) }
    }

    fn attribute(&mut self, short: &'static str) -> Result<Attribute, Syntax> {
        let Some(piece) = self.take() else { return Ok(Attribute::Short) };
        match piece.text {
            text if text == short => Ok(Attribute::Short),
            "name" | "descr" => Ok(Attribute::Name),
            "both" => Ok(Attribute::Both),
            text => Err(Syntax::unknown(piece.at, "attribute", text, [short, "name", "both"])),
        }
    }
}

/// Functions, and how they are written.
pub(super) const FUNCTIONS: [(&str, &str); 16] = [
    ("group", "group:KEY:SET, e.g. group:ipsource:campus"),
    ("country", "country:KEY or country:KEY:code|name|both"),
    ("asn", "asn:KEY or asn:KEY:number|name|both"),
    ("oui", "oui:KEY, e.g. oui:macsource"),
    ("mask", "mask:KEY:BITS, e.g. mask:ipsource:24"),
    ("mask6", "mask6:KEY:BITS, e.g. mask6:ip6source:64"),
    ("prefix", "prefix:KEY:SEPARATOR:COUNT, e.g. prefix:stack:.:2"),
    ("suffix", "suffix:KEY:SEPARATOR:COUNT, e.g. suffix:stack:.:1"),
    ("null", "null:KEY:TEXT, e.g. null:vlan:untagged"),
    ("or", "or:KEY:KEY, e.g. or:ipsource:ip6source"),
    ("range", "range:KEY:LEAST:MOST, e.g. range:bytes:0:127"),
    ("first", "first:KEY:SEPARATOR:TOKEN:TOKEN, e.g. first:stack:.:ip:ip6"),
    ("concat", "concat:SEPARATOR:KEY:KEY, e.g. concat:-:ipsource:ipdestination"),
    ("eq", "eq:KEY:KEY, e.g. eq:bgpsourceas:bgpas"),
    ("if", "if:KEY:TEXT:KEY:KEY, e.g. if:[first:stack:.:ip:ip6]:ip:ipsource:ip6source"),
    ("ifname", "ifname:KEY, e.g. ifname:inputifindex"),
];

/// What sFlow-RT has and we have not.
const ABSENT: [(&str, &str); 6] = [
    ("dns", "names are not resolved; use group:KEY:SET"),
    ("map", "use group:KEY:SET"),
    ("host", "use agent"),
    ("node", "use agent"),
    ("link", "links between switches are not known; use the filter direction=ingress"),
    ("uri", "use prefix and suffix"),
];

/// Most keys of a definition.
pub(super) const MAX_KEYS: usize = 16;

/// Functions within functions.
const MAX_DEPTH: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error(text: &str) -> (usize, String) {
        let error = list(text).unwrap_err();
        (error.at, error.message)
    }

    #[test]
    fn what_applications_of_sflow_rt_write_is_read() {
        for text in [
            "",
            "ipsource,ipdestination",
            "ipdestination,group:ipdestination:ddos_protect,udpsourceport",
            "if:[first:stack:.:ip:ip6]:ip:[country:ipsource]:[country:ip6source]",
            "ipsource,ipdestination,ipprotocol,or:tcpsourceport:udpsourceport,or:tcpdestinationport:udpdestinationport",
            "ipsource,ipdestination,genevevni,macsource.1,macdestination.1,ipsource.1,ipdestination.1",
            "ipsource,ipdestination,stack,or:tcpsourceport:udpsourceport:icmptype,or:tcpdestinationport:udpdestinationport:icmpcode",
            "range:bytes:0:63,range:bytes:64:64,range:bytes:1519",
            "null:[country:ipsource:both]:,null:[asn:ipsource:both]:",
            "null:vlan:0,ipdestination",
            "oui:macsource",
            "macsource,macdestination,arpoperation,arpipsender,arpiptarget",
            "concat:\\::ifname:inputifindex",
        ] {
            if text.starts_with("concat") {
                // Nested functions want brackets.
                assert!(list(text).is_err(), "{text}");
            } else {
                assert!(list(text).is_ok(), "{text}: {:?}", list(text));
            }
        }
        let colon = list("concat:\\::[ifname:inputifindex]:inputifindex").unwrap();
        assert!(
            matches!(&colon[..], [Expression { function: Function::Concat(separator), keys }] if separator == ":" && keys.len() == 2)
        );
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        assert_eq!(error("ipsource,ipsorce"), (9, "unknown key `ipsorce`, did you mean `ipsource`?".to_owned()));
        assert_eq!(error("groop:ipsource:x"), (0, "unknown function `groop`, did you mean `group`?".to_owned()));
        assert_eq!(
            error(" ipsource, or:ipsource"),
            (22, "too few arguments: write or:KEY:KEY, e.g. or:ipsource:ip6source".to_owned())
        );
        assert_eq!(error("mask:ipsource:33"), (14, "write a whole number from 0 to 32".to_owned()));
        assert_eq!(error("null:[vlan:0"), (5, "`[` is not closed".to_owned()));
        assert_eq!(error("vlan]"), (4, "`]` closes nothing".to_owned()));
        assert_eq!(error("ipsource,,vlan"), (9, "a key is missing".to_owned()));
        assert_eq!(error("agent.1"), (0, "`agent` occurs once: write it without .1".to_owned()));
        assert_eq!(error("eq:ipsource:vlan:stack").0, 17);
        assert_eq!(error("dns:ipsource").1, "no function `dns` here: names are not resolved; use group:KEY:SET");
        assert_eq!(error("mask").1, "`mask` is a function: write mask:KEY:BITS, e.g. mask:ipsource:24");
        assert_eq!(error("vlan,group:vlan:sites"), (11, "`vlan` is never an IP address".to_owned()));
        assert_eq!(error("oui:ipsource"), (4, "`ipsource` is never an Ethernet address".to_owned()));
        assert_eq!(error("ifname:direction"), (7, "`direction` is never the number of an interface".to_owned()));
        assert_eq!(error("range:stack:1:2"), (6, "`stack` is never a number".to_owned()));
        assert_eq!(
            error("range:bytes:100:50"),
            (16, "100 to 50 holds no number: write the smaller one first".to_owned())
        );
        assert_eq!(error("if:ipprotocol:tcp:vlan:ipttl").0, 14);
        assert_eq!(error("oui:macsource:name"), (14, "only the prefix is known: write oui:KEY".to_owned()));
    }

    proptest! {
        #[test]
        fn no_text_panics_and_every_place_lies_in_it(text in "[a-z0-9:.,\\[\\]\\\\ ä]{0,40}") {
            if let Err(error) = list(&text) {
                prop_assert!(error.at <= text.len() && text.is_char_boundary(error.at), "{error:?}");
            }
        }
    }
}
