//! A kind of quantity: its units, and how to parse and print it.

use std::fmt;

use crate::UnitError;

/// A quantity that is a whole number of its smallest unit.
pub(super) struct Kind {
    /// With its article, for messages.
    pub(super) noun: &'static str,
    pub(super) example: &'static str,
    /// The units to suggest if there is none.
    suffixes: &'static [&'static str],
    /// The smallest step, as text.
    least: &'static str,
    /// Units for printing, each a multiple of the smallest step; ascending.
    units: &'static [(&'static str, u64)],
    /// Aliases of units.
    aliases: &'static [(&'static str, u64)],
}

impl Kind {
    /// The quantity in smallest steps.
    pub(super) fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let text = text.trim();
        let (number, unit) = self.split(text)?;
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let part = part.trim_end_matches('0');
        let Some(step) = self.unit(text, unit, is_zero(number))? else {
            return Ok(0);
        };
        let large = || UnitError::Large { text: text.to_owned(), noun: self.noun };
        let fine = || UnitError::Fine { text: text.to_owned(), least: self.least, noun: self.noun };

        let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().map_err(|_| large())? };
        let mut steps = u128::from(whole) * u128::from(step);
        if !part.is_empty() {
            // Twenty digits are more than 64 bits can hold.
            let scale = 10u128.checked_pow(part.len() as u32).filter(|_| part.len() <= 18).ok_or_else(fine)?;
            let scaled = part.parse::<u128>().map_err(|_| large())? * u128::from(step);
            if scaled % scale != 0 {
                return Err(fine());
            }
            steps += scaled / scale;
        }
        u64::try_from(steps).map_err(|_| large())
    }

    /// Number and unit, the number in plain decimal digits.
    pub(super) fn split<'a>(&self, text: &'a str) -> Result<(&'a str, &'a str), UnitError> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        if number.matches('.').count() > 1 || !number.contains(|c: char| c.is_ascii_digit()) {
            return Err(UnitError::Number { text: text.to_owned(), noun: self.noun, example: self.example });
        }
        Ok((number, unit.trim_start()))
    }

    /// The unit in smallest steps. `None`: no unit, which only 0 may have.
    pub(super) fn unit(&self, text: &str, unit: &str, zero: bool) -> Result<Option<u64>, UnitError> {
        if unit.is_empty() {
            let missing = || UnitError::Missing { text: text.to_owned(), noun: self.noun, meant: self.meant(text) };
            return if zero { Ok(None) } else { Err(missing()) };
        }
        match self.units.iter().chain(self.aliases).find(|(name, _)| *name == unit) {
            Some((_, step)) => Ok(Some(*step)),
            None => Err(UnitError::Unknown {
                text: text.to_owned(),
                unit: unit.to_owned(),
                noun: self.noun,
                units: self.names().join(" "),
            }),
        }
    }

    /// The probable meanings of a number without a unit, which parse: one with many digits is in the smallest unit.
    fn meant(&self, number: &str) -> String {
        let is_long = number.find('.').unwrap_or(number.len()) > DIGITS;
        let suffixes: &[&str] = if is_long { &[self.units[0].0] } else { self.suffixes };
        let meant = suffixes.iter().map(|suffix| format!("{number}{suffix}"));
        let meant: Vec<String> = meant.filter(|meant| self.parse(meant).is_ok()).collect();
        if meant.is_empty() { self.example.to_owned() } else { meant.join(" or ") }
    }

    /// One name per unit.
    fn names(&self) -> Vec<&'static str> {
        let is_new = |(_, step): &&(&str, u64)| !self.units.iter().any(|(_, known)| known == step);
        self.units.iter().chain(self.aliases.iter().filter(is_new)).map(|(name, _)| *name).collect()
    }

    /// In the largest unit that needs no fraction.
    pub(super) fn print(&self, steps: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if steps == 0 {
            return f.pad("0");
        }
        match self.units.iter().rev().find(|(_, step)| steps.is_multiple_of(*step)) {
            Some((name, step)) => f.pad(&format!("{}{name}", steps / step)),
            // Only frequencies have a step below their smallest unit.
            None => {
                let (name, step) = self.units[0];
                let places = step.ilog10() as usize;
                let text = format!("{}.{:0places$}", steps / step, steps % step);
                f.pad(&format!("{}{name}", text.trim_end_matches('0')))
            }
        }
    }
}

/// Digits of a number too large for a common unit.
const DIGITS: usize = 5;

pub(super) fn is_zero(number: &str) -> bool {
    number.chars().all(|c| c == '0' || c == '.')
}

pub(super) const SPAN: Kind = Kind {
    noun: "a duration",
    example: "150ms",
    suffixes: &["ms", "s"],
    least: "1ns",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
    aliases: &[("µs", 1_000), ("min", 60_000_000_000), ("d", 86_400_000_000_000)],
};

pub(super) const BIT_RATE: Kind = Kind {
    noun: "a rate",
    example: "10mbit",
    suffixes: &["mbit"],
    least: "1bit",
    units: &[("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000), ("tbit", 1_000_000_000_000)],
    aliases: &[
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("mbit/s", 1_000_000),
        ("gbit/s", 1_000_000_000),
        ("tbit/s", 1_000_000_000_000),
        ("Kbit", 1_000),
        ("Mbit", 1_000_000),
        ("Gbit", 1_000_000_000),
        ("Kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
    ],
};

pub(super) const SIZE: Kind = Kind {
    noun: "a size",
    example: "4MiB",
    suffixes: &["B"],
    least: "1B",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
    ],
    aliases: &[("KB", 1_000)],
};

pub(super) const FREQUENCY: Kind = Kind {
    noun: "a frequency",
    example: "50k/s",
    suffixes: &["/s"],
    least: "0.000001/s",
    units: &[("/s", 1_000_000), ("k/s", 1_000_000_000), ("M/s", 1_000_000_000_000)],
    aliases: &[("K/s", 1_000_000_000)],
};

pub(super) const SHARE: Kind =
    Kind { noun: "a share", example: "5%", suffixes: &["%"], least: "", units: &[("%", 1)], aliases: &[] };
