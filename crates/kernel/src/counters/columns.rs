//! Files of /proc/net/stat: a heading, then a line a CPU in hexadecimal.

/// What such a file says.
pub(super) struct Columns<'a> {
    names: Vec<&'a str>,
    rows: Vec<Vec<u64>>,
}

impl<'a> Columns<'a> {
    /// Rows that do not look so are left out.
    pub(super) fn parse(text: &'a str) -> Columns<'a> {
        let mut lines = text.lines();
        let names = lines.next().unwrap_or_default().split_whitespace().collect();
        let row = |line: &str| line.split_whitespace().map(|word| u64::from_str_radix(word, 16).ok()).collect();
        Columns { names, rows: lines.filter_map(row).collect() }
    }

    /// A column's sum over all CPUs; `None`: there is no such column.
    pub(super) fn sum(&self, name: &str) -> Option<u64> {
        let column = self.names.iter().position(|known| *known == name)?;
        Some(self.rows.iter().filter_map(|row| row.get(column)).fold(0, |sum, value| sum.wrapping_add(*value)))
    }

    /// A column that says the same for each CPU.
    pub(super) fn first(&self, name: &str) -> Option<u64> {
        let column = self.names.iter().position(|known| *known == name)?;
        self.rows.first()?.get(column).copied()
    }
}
