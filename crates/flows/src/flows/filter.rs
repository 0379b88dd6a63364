//! Filters: `ipprotocol=6&(tcpflags~....1..1.|tcpdestinationport=80,443)`.
//!
//! `=` and `!=` compare with values, `~` and `!~` with patterns (regular expressions that match a value whole); behind them stands
//! a list with commas, of which one must match; a network stands for its addresses. `&` binds closer than `|`. What a packet has not is `null`: it equals only that,
//! and matches no pattern. `\` takes the next character as it is.

use regex_lite::{Regex, RegexBuilder};

use super::expression::{self, Expression};
use super::kind::comparable;
use super::syntax::{Cursor, Syntax};
use super::value::Literal;

/// A condition that packets meet or not.
#[derive(Clone, Debug)]
pub(super) enum Filter {
    Test(Test),
    All(Vec<Filter>),
    Any(Vec<Filter>),
}

/// A comparison.
#[derive(Clone, Debug)]
pub(super) struct Test {
    pub(super) left: Expression,
    /// Whether it holds where nothing on the right matches.
    pub(super) negated: bool,
    pub(super) right: Right,
}

/// What it is compared with; one of them is enough.
#[derive(Clone, Debug)]
pub(super) enum Right {
    Values(Vec<Literal>),
    Patterns(Vec<Regex>),
}

/// A filter; `None`: an empty one, which all packets meet.
///
/// # Errors
/// The first mistake, with its place.
pub(super) fn parse(text: &str) -> Result<Option<Filter>, Syntax> {
    if text.len() > MAX_LENGTH {
        return Err(Syntax::new(MAX_LENGTH, format!("a filter is at most {MAX_LENGTH} bytes long")));
    }
    let mut cursor = Cursor::new(text);
    cursor.skip_spaces();
    if cursor.peek().is_none() {
        return Ok(None);
    }
    let filter = any(&mut cursor, 0)?;
    match cursor.peek() {
        None => Ok(Some(filter)),
        Some(')') => Err(Syntax::new(cursor.at, "`)` closes nothing")),
        Some(_) => Err(Syntax::new(cursor.at, "write & or | between comparisons")),
    }
}

fn any(cursor: &mut Cursor<'_>, depth: usize) -> Result<Filter, Syntax> {
    let mut filters = vec![all(cursor, depth)?];
    while cursor.take("|") {
        filters.push(all(cursor, depth)?);
    }
    Ok(if filters.len() == 1 { filters.remove(0) } else { Filter::Any(filters) })
}

fn all(cursor: &mut Cursor<'_>, depth: usize) -> Result<Filter, Syntax> {
    let mut filters = vec![one(cursor, depth)?];
    while cursor.take("&") {
        filters.push(one(cursor, depth)?);
    }
    Ok(if filters.len() == 1 { filters.remove(0) } else { Filter::All(filters) })
}

/// A comparison or what stands in parentheses, and the spaces behind it.
fn one(cursor: &mut Cursor<'_>, depth: usize) -> Result<Filter, Syntax> {
    cursor.skip_spaces();
    let start = cursor.at;
    if !cursor.take("(") {
        return test(cursor).map(Filter::Test);
    }
    if depth == MAX_DEPTH {
        return Err(Syntax::new(start, format!("parentheses within parentheses: at most {MAX_DEPTH} deep")));
    }
    let inner = any(cursor, depth + 1)?;
    if !cursor.take(")") {
        return Err(Syntax::new(start, "`(` is not closed"));
    }
    cursor.skip_spaces();
    Ok(inner)
}

fn test(cursor: &mut Cursor<'_>) -> Result<Test, Syntax> {
    let left = cursor.until(&['=', '!', '~', '<', '>', '&', '|', '(', ')'], ('[', ']'))?;
    let at = cursor.at;
    if left.text.is_empty() {
        return Err(Syntax::new(left.at, "a comparison is missing: write KEY=VALUE"));
    }
    let (key, left) = (left.text, expression::parse(left)?);
    // `==` is what programmers write.
    let (negated, patterns) = match () {
        () if cursor.take("!=") => (true, false),
        () if cursor.take("!~") => (true, true),
        () if cursor.take("==") || cursor.take("=") => (false, false),
        () if cursor.take("~") => (false, true),
        () if cursor.take("<") || cursor.take(">") => {
            return Err(Syntax::new(at, "no such comparison: write range:KEY:LEAST:MOST=true"));
        }
        () => return Err(Syntax::new(at, "a comparison is missing: write =, !=, ~ or !~ and a value")),
    };
    // Parentheses belong to a pattern; in a value they want a backslash.
    let right = match patterns {
        true => Right::Patterns(list(cursor, &[',', '&', '|', ')'], ('(', ')'), |text, at| {
            // One in which nothing has a meaning of its own is a value.
            if text.bytes().all(|byte| byte.is_ascii_alphanumeric()) && text != "null" {
                possible(key, &left, text, at)?;
            }
            pattern(text, at)
        })?),
        false => Right::Values(list(cursor, &[',', '&', '|', ')', '('], ('\0', '\0'), |text, at| {
            let text = super::syntax::Piece { text, at }.literal();
            possible(key, &left, &text, at)?;
            Ok(Literal::new(&text))
        })?),
    };
    Ok(Test { left, negated, right })
}

/// Values up to the end of the comparison.
fn list<T>(
    cursor: &mut Cursor<'_>,
    ends: &[char],
    enclose: (char, char),
    parse: impl Fn(&str, usize) -> Result<T, Syntax>,
) -> Result<Vec<T>, Syntax> {
    let mut values = Vec::new();
    loop {
        let piece = cursor.until(ends, enclose)?;
        if piece.text.is_empty() {
            return Err(Syntax::new(piece.at, "a value is missing; what a packet has not is `null`"));
        }
        values.push(parse(piece.text, piece.at)?);
        if !cursor.take(",") {
            return Ok(values);
        }
    }
}

/// Refuses what a key can never be: no packet would meet that, or, negated, all would.
fn possible(key: &str, left: &Expression, text: &str, at: usize) -> Result<(), Syntax> {
    comparable(key, left, text).map_err(|message| Syntax::new(at, message))
}

fn pattern(text: &str, at: usize) -> Result<Regex, Syntax> {
    // Backslashes are the pattern's own.
    let whole = format!("^(?:{text})$");
    let built = RegexBuilder::new(&whole).size_limit(PATTERN_SIZE).build();
    built.map_err(|error| Syntax::new(at, format!("no pattern: {error}")))
}

/// Longest filter in bytes.
const MAX_LENGTH: usize = 16_384;

/// Parentheses within parentheses.
const MAX_DEPTH: usize = 32;

/// Most memory of a compiled pattern.
const PATTERN_SIZE: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error(text: &str) -> (usize, String) {
        let error = parse(text).unwrap_err();
        (error.at, error.message)
    }

    /// The filter in a form that shows how it is understood.
    fn shape(filter: &Filter) -> String {
        let joined = |filters: &[Filter], sign| filters.iter().map(shape).collect::<Vec<_>>().join(sign);
        match filter {
            Filter::Any(filters) => format!("({})", joined(filters, "|")),
            Filter::All(filters) => format!("({})", joined(filters, "&")),
            Filter::Test(test) => {
                let count = match &test.right {
                    Right::Values(values) => values.len(),
                    Right::Patterns(patterns) => 10 * patterns.len(),
                };
                format!("{}{count}", if test.negated { "!" } else { "" })
            }
        }
    }

    fn read(text: &str) -> String {
        parse(text).unwrap().map_or("all".to_owned(), |filter| shape(&filter))
    }

    #[test]
    fn what_applications_of_sflow_rt_write_is_read() {
        for (text, expected) in [
            ("", "all"),
            ("  ", "all"),
            ("ipprotocol=6", "1"),
            ("ipprotocol=6,17&direction=ingress", "(2&1)"),
            ("vlan=1|vlan=2&ipttl!=64", "(1|(1&!1))"),
            ("(vlan=1 | vlan=2) & ipttl!=64", "((1|1)&!1)"),
            ("(ipflags=001|range:ipfragoffset:1=true)&first:stack:.:ip:ip6=ip", "((1|1)&1)"),
            ("ip6nexthdr=6&tcpflags~....1..1.&first:stack:.:ip:ip6=ip6", "(1&10&1)"),
            ("tcpflags~....1.000&(tcpsourceport=179|tcpdestinationport=179)", "(10&(1|1))"),
            ("suffix:stack:.:1=udp", "1"),
            ("vxlanvni!=null&outputifindex=multiple&isunicast.1=true", "(!1&1&1)"),
            ("stack!~.*(tcp|udp)", "!10"),
            ("ip6source=2001:db8::1,::1", "2"),
            ("[or:ipsource:ip6source]=10.0.0.1", "1"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        assert_eq!(error("ipsorce=1").0, 0);
        assert_eq!(error("vlan=1&ipsorce=1"), (7, "unknown key `ipsorce`, did you mean `ipsource`?".to_owned()));
        assert_eq!(error("vlan"), (4, "a comparison is missing: write =, !=, ~ or !~ and a value".to_owned()));
        assert_eq!(error("vlan=").0, 5);
        assert_eq!(error("vlan=1&").0, 7);
        assert_eq!(error("(vlan=1"), (0, "`(` is not closed".to_owned()));
        assert_eq!(error("vlan=1)"), (6, "`)` closes nothing".to_owned()));
        assert_eq!(error("vlan=1 (vlan=2)"), (7, "write & or | between comparisons".to_owned()));
        assert_eq!(error("(vlan=1) vlan=2"), (9, "write & or | between comparisons".to_owned()));
        assert_eq!(error("bytes>1500"), (5, "no such comparison: write range:KEY:LEAST:MOST=true".to_owned()));
        assert_eq!(error("vlan=1&ipprotocol=6,tcp").0, 20);
        assert_eq!(error("tcpflags~10"), (9, "`tcpflags` is 9 binary digits, never `10`".to_owned()));
        assert_eq!(error("stack~ab["), (6, "no pattern: non-empty character class has no closing bracket".to_owned()));
    }

    #[test]
    fn what_cannot_be_printed_is_a_value_like_others() {
        assert!(parse("stack=\0&stack=\0a\0").is_ok_and(|filter| filter.is_some()));
        assert!(error("vlan=1&\x1b=1").1.starts_with("unknown key `\\u{1b}`"));
    }

    proptest! {
        #[test]
        fn no_text_panics_and_every_place_lies_in_it(text in "[a-z0-9=!~&|(),:.\\[\\]\\\\ ä\\x00\\n\\x1b]{0,40}") {
            if let Err(error) = parse(&text) {
                prop_assert!(!error.message.chars().any(char::is_control), "{error:?}");
                prop_assert!(error.at <= text.len() && text.is_char_boundary(error.at), "{error:?}");
            }
        }

        #[test]
        fn nesting_is_bounded(depth in 0usize..5000) {
            prop_assert_eq!(parse(&"(".repeat(depth)).is_err(), depth > 0);
        }
    }
}
