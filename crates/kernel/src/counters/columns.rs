//! Files of /proc/net/stat: a heading, then a line a CPU in hexadecimal.

/// What such a file says.
pub(crate) struct Columns<'a> {
    names: Vec<&'a str>,
    rows: Vec<Vec<u64>>,
}

impl<'a> Columns<'a> {
    /// Rows that do not look so are left out.
    pub(crate) fn parse(text: &'a str) -> Columns<'a> {
        let mut lines = text.lines();
        let names = lines.next().unwrap_or_default().split_whitespace().collect();
        let row = |line: &str| line.split_whitespace().map(|word| u64::from_str_radix(word, 16).ok()).collect();
        Columns { names, rows: lines.filter_map(row).collect() }
    }

    /// A column's sum over all CPUs; `None`: there is no such column.
    pub(crate) fn sum(&self, name: &str) -> Option<u64> {
        let column = self.names.iter().position(|known| *known == name)?;
        self.rows.iter().filter_map(|row| row.get(column).copied()).reduce(u64::wrapping_add)
    }

    /// A column that says the same for each CPU.
    pub(crate) fn first(&self, name: &str) -> Option<u64> {
        let column = self.names.iter().position(|known| *known == name)?;
        self.rows.first()?.get(column).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_are_found_by_name() {
        let text = "entries  allocs unresolved_discards\n00000003 00005abd 004990b0\n00000003 000064a4 0005cd0c\nodd\n";
        let columns = Columns::parse(text);
        assert_eq!(columns.first("entries"), Some(3));
        assert_eq!(columns.sum("unresolved_discards"), Some(0x4990b0 + 0x5cd0c));
        assert_eq!((columns.sum("table_fulls"), columns.first("table_fulls")), (None, None));
        assert_eq!(Columns::parse("").sum("entries"), None);
    }

    proptest! {
        #[test]
        fn lines_that_look_otherwise_are_left_out(strange in "\\PC{0,24}", rows: [[u32; 2]; 2]) {
            let [[a, b], [c, d]] = rows;
            // A word that is no number.
            let text = format!("a b\ng{strange}\n{a:08x} {b:08x}\n{c:08x} {d:08x}\n{strange} g\n");
            let columns = Columns::parse(&text);
            prop_assert_eq!(columns.first("b"), Some(b.into()));
            prop_assert_eq!(columns.sum("a"), Some(u64::from(a) + u64::from(c)));
            prop_assert!(Columns::parse(&strange).rows.is_empty(), "a heading alone");
        }
    }
}
