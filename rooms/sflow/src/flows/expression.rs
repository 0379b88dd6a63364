//! Keys and functions of keys: `ipsource`, `macsource.1`, `or:ipsource:ip6source`, `if:[first:stack:.:ip:ip6]:ip:a:b`.

use super::field::Field;
use super::kind::{comparable, is_address, is_mac, is_number};
use super::syntax::{Piece, Syntax};

/// A key, or a function of keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Expression {
    /// A key of the packet; of headers within headers the outermost is 0.
    Field(Field, u8),
    /// The first set of groups that knows the address.
    Group(Box<Expression>, Vec<String>),
    Country(Box<Expression>, Attribute),
    Asn(Box<Expression>, Attribute),
    /// The half of an Ethernet address that names who made the station.
    Oui(Box<Expression>),
    /// The address with all bits from here on 0.
    Mask(Box<Expression>, u8),
    /// So many tokens from the start.
    Prefix(Box<Expression>, String, usize),
    /// So many tokens from the end.
    Suffix(Box<Expression>, String, usize),
    /// A text in place of nothing.
    Null(Box<Expression>, String),
    /// The first that is there.
    Or(Vec<Expression>),
    /// Whether a number lies within.
    Range(Box<Expression>, u64, u64),
    /// The first of its tokens that is one of these.
    First(Box<Expression>, String, Vec<String>),
    /// All, if all are there, with a text between them.
    Concat(String, Vec<Expression>),
    /// Whether both are there and the same.
    Eq(Box<Expression>, Box<Expression>),
    /// The third if the first is this text, else the fourth.
    If(Box<Expression>, String, Box<Expression>, Box<Expression>),
    IfName(Box<Expression>),
}

impl Expression {
    /// The expressions that it is made of.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Expression> {
        let (several, few): (&[Expression], [Option<&Expression>; 3]) = match self {
            Self::Field(..) => (&[], [None; 3]),
            Self::Group(key, _)
            | Self::Country(key, _)
            | Self::Asn(key, _)
            | Self::Oui(key)
            | Self::Mask(key, _)
            | Self::Prefix(key, ..)
            | Self::Suffix(key, ..)
            | Self::Null(key, _)
            | Self::Range(key, ..)
            | Self::First(key, ..)
            | Self::IfName(key) => (&[], [Some(key), None, None]),
            Self::Or(keys) | Self::Concat(_, keys) => (keys, [None; 3]),
            Self::Eq(a, b) => (&[], [Some(a), Some(b), None]),
            Self::If(key, _, then, other) => (&[], [Some(key), Some(then), Some(other)]),
        };
        several.iter().chain(few.into_iter().flatten())
    }
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
    let whole = Piece { text, at: 0 }.trim();
    if whole.text.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<Expression> = whole.split(',')?.into_iter().map(parse).collect::<Result<_, _>>()?;
    if keys.len() > MAX_KEYS {
        return Err(Syntax::new(0, format!("{} keys: at most {MAX_KEYS}", keys.len())));
    }
    Ok(keys)
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
        [function, arguments @ ..] => call(*function, Arguments { piece, rest: arguments, depth: depth + 1 }),
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
    Ok(Expression::Field(field, occurrence))
}

fn call(function: Piece<'_>, mut arguments: Arguments<'_>) -> Result<Expression, Syntax> {
    let usage = FUNCTIONS.iter().find(|(name, _)| *name == function.text).map(|(_, usage)| *usage);
    let Some(usage) = usage else {
        let (at, name) = (function.at, function.text);
        return Err(match ABSENT.iter().find(|(absent, _)| *absent == name) {
            Some((_, why)) => Syntax::new(at, format!("no function `{name}` here: {why}")),
            None => Syntax::unknown(at, "function", name, FUNCTIONS.iter().map(|(name, _)| *name)),
        });
    };
    let arguments = &mut arguments;
    let few = |at| Syntax::new(at, format!("too few arguments: write {usage}"));
    let end = arguments.piece.at + arguments.piece.text.len();
    let few = move || few(end);
    let expression = match function.text {
        "group" => Expression::Group(arguments.address().ok_or_else(few)??, arguments.texts(1).ok_or_else(few)?),
        "country" => Expression::Country(arguments.address().ok_or_else(few)??, arguments.attribute("code")?),
        "asn" => Expression::Asn(arguments.address().ok_or_else(few)??, arguments.attribute("number")?),
        "oui" => {
            let key = arguments.of("an Ethernet address", is_mac).ok_or_else(few)??;
            if let Some(attribute) = arguments.next().filter(|attribute| attribute.text != "prefix") {
                return Err(Syntax::new(attribute.at, "only the prefix is known: write oui:KEY"));
            }
            Expression::Oui(key)
        }
        "mask" | "mask6" => {
            let (key, most) = (arguments.address().ok_or_else(few)??, if function.text == "mask" { 32 } else { 128 });
            let bits = arguments.number(most).ok_or_else(few)??;
            Expression::Mask(key, bits as u8)
        }
        name @ ("prefix" | "suffix") => {
            let (key, separator) = (arguments.key().ok_or_else(few)??, arguments.separator().ok_or_else(few)??);
            let tokens = arguments.number(1000).ok_or_else(few)?? as usize;
            match name {
                "prefix" => Expression::Prefix(key, separator, tokens),
                _ => Expression::Suffix(key, separator, tokens),
            }
        }
        "null" => {
            let (key, rest) = (arguments.key().ok_or_else(few)??, arguments.next().ok_or_else(few)?);
            Expression::Null(key, rest.literal())
        }
        "or" => Expression::Or(arguments.keys(2).ok_or_else(few)??),
        "range" => {
            let key = arguments.of("a number", is_number).ok_or_else(few)??;
            let (least, end) =
                (arguments.number(u64::MAX).ok_or_else(few)??, arguments.rest.first().map(|most| most.at));
            let most = arguments.number(u64::MAX).unwrap_or(Ok(u64::MAX))?;
            if let Some(at) = end.filter(|_| most < least) {
                return Err(Syntax::new(at, format!("{least} to {most} holds no number: write the smaller one first")));
            }
            Expression::Range(key, least, most)
        }
        "first" => {
            let (key, separator) = (arguments.key().ok_or_else(few)??, arguments.separator().ok_or_else(few)??);
            Expression::First(key, separator, arguments.texts(1).ok_or_else(few)?)
        }
        "concat" => {
            let separator = arguments.next().ok_or_else(few)?.literal();
            Expression::Concat(separator, arguments.keys(1).ok_or_else(few)??)
        }
        "eq" => Expression::Eq(arguments.key().ok_or_else(few)??, arguments.key().ok_or_else(few)??),
        "if" => {
            let (name, key) = (arguments.rest.first().map_or("", |key| key.text), arguments.key().ok_or_else(few)??);
            let piece = arguments.next().ok_or_else(few)?;
            let text = piece.literal();
            comparable(name, &key, &text).map_err(|message| Syntax::new(piece.at, message))?;
            let (then, other) = (arguments.key().ok_or_else(few)??, arguments.key().ok_or_else(few)??);
            Expression::If(key, text, then, other)
        }
        // All other names of the table are handled above.
        _ => Expression::IfName(arguments.of("the number of an interface", is_number).ok_or_else(few)??),
    };
    match arguments.next() {
        Some(extra) => Err(Syntax::new(extra.at, format!("too many arguments: write {usage}"))),
        None => Ok(expression),
    }
}

/// What stands behind the name of a function.
struct Arguments<'a> {
    piece: Piece<'a>,
    rest: &'a [Piece<'a>],
    depth: usize,
}

impl<'a> Arguments<'a> {
    fn next(&mut self) -> Option<Piece<'a>> {
        let (next, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*next)
    }

    fn key(&mut self) -> Option<Result<Box<Expression>, Syntax>> {
        let depth = self.depth;
        Some(nested(self.next()?, depth).map(Box::new))
    }

    /// A key whose values can be of use to the function.
    fn of(&mut self, what: &str, can_be: fn(&Expression) -> bool) -> Option<Result<Box<Expression>, Syntax>> {
        let piece = *self.rest.first()?;
        Some(self.key()?.and_then(|key| match can_be(&key) {
            true => Ok(key),
            false => Err(Syntax::new(piece.at, format!("`{}` is never {what}", piece.text.escape_debug()))),
        }))
    }

    fn address(&mut self) -> Option<Result<Box<Expression>, Syntax>> {
        self.of("an IP address", is_address)
    }

    /// All that are left, at least so many.
    fn keys(&mut self, least: usize) -> Option<Result<Vec<Expression>, Syntax>> {
        if self.rest.len() < least {
            return None;
        }
        let rest = std::mem::take(&mut self.rest);
        if let Some(extra) = rest.get(MAX_KEYS) {
            return Some(Err(Syntax::new(extra.at, format!("at most {MAX_KEYS} keys"))));
        }
        Some(rest.iter().map(|piece| nested(*piece, self.depth)).collect())
    }

    /// All that are left, at least so many.
    fn texts(&mut self, least: usize) -> Option<Vec<String>> {
        if self.rest.len() < least {
            return None;
        }
        Some(std::mem::take(&mut self.rest).iter().map(|piece| piece.literal()).collect())
    }

    fn number(&mut self, most: u64) -> Option<Result<u64, Syntax>> {
        let piece = self.next()?;
        let number = piece.text.parse().ok().filter(|&number| number <= most);
        Some(number.ok_or_else(|| match most {
            u64::MAX => Syntax::new(piece.at, "write a whole number from 0"),
            _ => Syntax::new(piece.at, format!("write a whole number from 0 to {most}")),
        }))
    }

    fn separator(&mut self) -> Option<Result<String, Syntax>> {
        let piece = self.next()?;
        let text = piece.literal();
        Some(if text.is_empty() { Err(Syntax::new(piece.at, "a separator is missing")) } else { Ok(text) })
    }

    fn attribute(&mut self, short: &'static str) -> Result<Attribute, Syntax> {
        let Some(piece) = self.next() else { return Ok(Attribute::Short) };
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
        assert!(matches!(&colon[..], [Expression::Concat(separator, keys)] if separator == ":" && keys.len() == 2));
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
                error.caret(&text);
            }
        }
    }
}
