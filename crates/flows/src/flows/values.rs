//! What is summed: `bytes`, `frames`, `rate:KEY`, `avg:KEY`, `count:KEY`.

use super::expression::{self, Expression};
use super::kind::is_number;
use super::syntax::{self, Piece, Syntax};

/// A value of a flow.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// As it was written.
    pub(super) name: String,
    pub(super) of: Expression,
    pub(super) kind: Kind,
    /// Where its further sums are: its own, unless it is the first, and of an average that of the weights.
    pub(super) further: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The sum over all packets, by time.
    Rate,
    /// The mean over all packets.
    Average,
    /// The packets that have it, by time.
    Count,
}

/// The one value of a definition.
pub(super) fn one(text: &str) -> Result<Vec<Column>, Syntax> {
    let piece = Piece { text, at: 0 }.trim();
    if piece.text.is_empty() {
        return Err(Syntax::new(0, "a value is missing: write bytes or frames"));
    }
    match piece.split(',')?.as_slice() {
        [value] => Ok(vec![column(*value)?]),
        [_, second, ..] => Err(Syntax::new(second.at, "one value: write the others as `values`")),
        [] => Ok(Vec::new()),
    }
}

/// Further values; empty: none.
pub(super) fn list(text: &str) -> Result<Vec<Column>, Syntax> {
    syntax::list(text, ("values", MAX_COLUMNS), column)
}

fn column(piece: Piece<'_>) -> Result<Column, Syntax> {
    let (kind, of) = match piece.split(':')?.as_slice() {
        [Piece { text: "rate" | "sum", .. }, of] => (Kind::Rate, *of),
        [Piece { text: "avg", .. }, of] => (Kind::Average, *of),
        [Piece { text: "count", .. }, of] => (Kind::Count, *of),
        [Piece { text: function @ ("min" | "max"), at }, ..] => {
            return Err(Syntax::new(*at, format!("no value `{function}`: write rate:KEY, avg:KEY or count:KEY")));
        }
        _ => (Kind::Rate, piece),
    };
    let (at, text, of) = (of.at, of.text, expression::parse(of)?);
    if kind != Kind::Count && !is_number(&of) {
        return Err(Syntax::new(at, format!("`{}` is never a number: write bytes or frames", text.escape_debug())));
    }
    Ok(Column { name: piece.text.to_owned(), of, kind, further: 0 })
}

/// Most values besides the first.
const MAX_COLUMNS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_averages() {
        let columns = list("bytes,avg:ipbytes, rate:requests,avg:[or:ipbytes:ip6bytes],count:ipsource").unwrap();
        let kinds: Vec<Kind> = columns.iter().map(|column| column.kind).collect();
        assert_eq!(kinds, [Kind::Rate, Kind::Average, Kind::Rate, Kind::Average, Kind::Count]);
        assert_eq!(columns[3].name, "avg:[or:ipbytes:ip6bytes]");
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        assert_eq!(one("bytes,frames").unwrap_err().at, 6);
        assert_eq!(one("avg:ipsource").unwrap_err().to_string(), "`ipsource` is never a number: write bytes or frames");
        assert_eq!(one("").unwrap_err().message, "a value is missing: write bytes or frames");
        assert_eq!(list("bytes,avg:byts").unwrap_err().at, 10);
        assert_eq!(list("max:bytes").unwrap_err().message, "no value `max`: write rate:KEY, avg:KEY or count:KEY");
    }
}
